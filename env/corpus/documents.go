package corpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/taskfile"
)

const (
	maxCorpus   = 256 << 30
	maxDocument = 64 << 20
)

// document is one text of the user's.
type document struct{ id, title, text string }

// documents calls each with every document of a JSON Lines file, or of a folder of text.
// Hidden files and folders are left out.
func documents(path string, each func(document) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	unique := func(d document) error {
		if seen[d.id] {
			return fmt.Errorf("id: %q: another document has it too", chat.Excerpt(d.id))
		}
		if strings.ContainsRune(d.id, 0) {
			return fmt.Errorf("id: %q: it has a zero byte", chat.Excerpt(d.id))
		}
		seen[d.id] = true
		return each(d)
	}
	if info.IsDir() {
		err = folder(path, unique)
	} else {
		err = file(path, unique)
	}
	if err == nil && len(seen) == 0 {
		err = fmt.Errorf("%s: no documents", path)
	}
	return err
}

func file(path string, each func(document) error) error {
	f, _, err := bounded.Open(path, maxCorpus)
	if err != nil {
		return err
	}
	defer f.Close()
	return taskfile.Lines(f, path, func(line int, data []byte) error {
		var d struct {
			ID                      json.RawMessage
			Title                   string
			Text, Contents, Content *string
		}
		if err := json.Unmarshal(data, &d); err != nil {
			return fmt.Errorf("%q: want one JSON object with id, title and text: %w", chat.Excerpt(string(data)), err)
		}
		id, err := taskfile.ID(d.ID, line)
		if err != nil {
			return err
		}
		var text *string
		for _, field := range []*string{d.Text, d.Contents, d.Content} { // as data sets call it
			if field == nil {
				continue
			}
			if text != nil {
				return errors.New("two of text, contents and content: want one of them")
			}
			text = field
		}
		if text == nil || strings.TrimSpace(*text) == "" {
			return errors.New("text: none: want a text (or contents, or content)")
		}
		return each(document{id, d.Title, *text})
	})
}

func folder(root string, each func(document) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		text, err := bounded.ReadFile(path, maxDocument)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			return fmt.Errorf("%s: not UTF-8: want a folder of text", path)
		}
		if strings.TrimSpace(string(text)) == "" {
			return nil // nothing is to be found in it
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if err := each(document{name, strings.TrimSuffix(name, filepath.Ext(name)), string(text)}); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

// pages cuts a text into pages of at most size characters, at the last end of a paragraph,
// line or word in the second half of a page, if there is one.
func pages(text string, size int) []string {
	var all []string
	text = strings.TrimSpace(text)
	for text != "" {
		end, n := len(text), 0
		for i := range text {
			if n == size {
				end = i
				break
			}
			n++
		}
		if end < len(text) {
			for _, stop := range []string{"\n\n", "\n", " "} {
				if at := strings.LastIndex(text[:end], stop); at > end/2 {
					end = at
					break
				}
			}
		}
		all = append(all, strings.TrimSpace(text[:end]))
		text = strings.TrimSpace(text[end:])
	}
	return all
}
