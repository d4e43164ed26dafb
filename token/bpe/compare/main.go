// Command compare checks this project's tokenizer against cases that
// reference.py wrote with Hugging Face's, and measures its speed. Started by
// run.sh.
//
// usage: compare check TOKENIZER_JSON CASES.jsonl [TOKENIZER_JSON CASES.jsonl ...]
//
//	compare speed NAME TOKENIZER_JSON CORPUS.jsonl...
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/infinirl/infinirl/token/bpe"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: compare check|speed ...")
		os.Exit(2)
	}
	var err error
	switch args := os.Args[2:]; os.Args[1] {
	case "check":
		err = check(args)
	case "speed":
		err = speed(args[0], args[1], args[2:])
	default:
		err = fmt.Errorf("%q: want check or speed", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// testCase is a line of a case file: a text with its ids, or ids alone.
type testCase struct {
	Category string  `json:"category"`
	Text     []byte  `json:"text"`
	Rendered []int32 `json:"rendered"`
	Plain    []int32 `json:"plain"`
	Wrapped  []int32 `json:"wrapped"`
	IDs      []int32 `json:"ids"`
	Decoded  string  `json:"decoded"`
	Skipped  string  `json:"skipped"`
}

// tally counts comparisons and differences of one category.
type tally struct{ strings, encoded, encodeDiffers, decoded, decodeDiffers int }

func (n *tally) add(m *tally) {
	n.strings += m.strings
	n.encoded += m.encoded
	n.encodeDiffers += m.encodeDiffers
	n.decoded += m.decoded
	n.decodeDiffers += m.decodeDiffers
}

// tallies counts by names.
type tallies map[string]*tally

func (t tallies) of(name string) *tally {
	if t[name] == nil {
		t[name] = new(tally)
	}
	return t[name]
}

// print prints a table and returns the sum.
func (t tallies) print(what string) *tally {
	row := func(name string, n *tally) {
		fmt.Printf("%-18s %8d %10d %8d %10d %8d\n", name, n.strings, n.encoded, n.encodeDiffers, n.decoded, n.decodeDiffers)
	}
	fmt.Printf("%-18s %8s %10s %8s %10s %8s\n", what, "cases", "encodings", "differ", "decodings", "differ")
	total := new(tally)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		row(name, t[name])
		total.add(t[name])
	}
	row("all", total)
	return total
}

func check(args []string) error {
	categories, files := make(tallies), make(tallies)
	shown := 0
	differ := func(format string, args ...any) int {
		if shown++; shown <= 20 {
			fmt.Printf(format+"\n", args...)
		}
		return 1
	}
	for ; len(args) >= 2; args = args[2:] {
		t, err := load(args[0])
		if err != nil {
			return err
		}
		// Of many variants all are one.
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(args[1]), ".jsonl"), "-")
		err = lines(args[1], func(line []byte) error {
			var c testCase
			if err := json.Unmarshal(line, &c); err != nil {
				return err
			}
			n := &tally{strings: 1}
			defer func() {
				categories.of(c.Category).add(n)
				files.of(name).add(n)
			}()
			same := func(what string, got, want []int32) {
				n.encoded++
				if !slices.Equal(got, want) {
					n.encodeDiffers += differ("%s: %s of %q:\n got %v\nwant %v", args[0], what, c.Text, got, want)
				}
			}
			ids := c.IDs
			if ids == nil {
				ids = c.Rendered
				got, err := t.EncodeRendered(string(c.Text))
				if err != nil {
					return err
				}
				same("rendered", got, c.Rendered)
				same("wrapped", t.Wrap(got), c.Wrapped)
				if c.Plain != nil {
					plain, err := t.Encode(string(c.Text))
					if err != nil {
						return err
					}
					same("plain", plain, c.Plain)
				}
			}
			for _, text := range []struct{ what, got, want string }{
				{"decoded", t.Decode(ids), c.Decoded},
				{"decoded without special tokens", t.Decode(slices.DeleteFunc(slices.Clone(ids), t.Special)), c.Skipped},
				{"decoded one by one", stream(t, ids), c.Decoded},
			} {
				n.decoded++
				if text.got != text.want {
					n.decodeDiffers += differ("%s: %s %v:\n got %q\nwant %q", args[0], text.what, ids, text.got, text.want)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", args[1], err)
		}
	}
	categories.print("category")
	total := files.print("file")
	if n := total.encodeDiffers + total.decodeDiffers; n > 0 {
		return fmt.Errorf("%d results differ", n)
	}
	return nil
}

func stream(t *bpe.Tokenizer, ids []int32) string {
	var text strings.Builder
	s := t.Stream()
	for _, id := range ids {
		text.WriteString(s.Next(id))
	}
	text.WriteString(s.Flush())
	return text.String()
}

func speed(name, path string, corpora []string) error {
	t, err := load(path)
	if err != nil {
		return err
	}
	for _, corpus := range corpora {
		var documents []string
		size := 0
		err := lines(corpus, func(line []byte) error {
			var text string
			err := json.Unmarshal(line, &text)
			documents = append(documents, text)
			size += len(text)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", corpus, err)
		}
		best := 0.0
		for range 10 {
			start := time.Now()
			for _, text := range documents {
				if _, err := t.EncodeRendered(text); err != nil {
					return err
				}
			}
			best = max(best, float64(size)/1e6/time.Since(start).Seconds())
		}
		stem := strings.TrimSuffix(filepath.Base(corpus), ".jsonl")
		fmt.Printf("%-8s %-8s %6.1f MB   this package %6.1f MB/s\n", name, stem, float64(size)/1e6, best)
	}
	return nil
}

func load(path string) (*bpe.Tokenizer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t, err := bpe.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func lines(path string, use func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<28)
	for scanner.Scan() {
		if err := use(scanner.Bytes()); err != nil {
			return err
		}
	}
	return scanner.Err()
}
