// Package terminal writes for people: tables that fit, and on a terminal colours, a status
// line that is redrawn in place, and control characters in quotes.
package terminal

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Columns is the width that tables are made for, and the one of what is no terminal.
const Columns = 80

// Screen is a terminal. What is written to it is shown as it is but for control
// characters, which may come from anywhere and would move the cursor, set the title or
// rewrite what stands there: they are quoted. Styles and the status line have methods.
type Screen struct {
	file   *os.File
	colour bool // not where NO_COLOR or TERM=dumb says so
	redraw bool // not where TERM=dumb says so

	mu     sync.Mutex
	rest   []byte // the start of a character whose end has not been written yet
	status bool   // a status line stands on the screen
}

// Open returns the file as a Screen if it is a terminal, and as it is if not.
func Open(file *os.File) io.Writer {
	if !term.IsTerminal(int(file.Fd())) {
		return file
	}
	dumb := os.Getenv("TERM") == "dumb"
	return &Screen{file: file, colour: !dumb && os.Getenv("NO_COLOR") == "", redraw: !dumb}
}

// Width is the number of columns of what w writes to: as COLUMNS says, as the terminal
// says, or Columns.
func Width(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if s, ok := w.(*Screen); ok {
		if n, _, err := term.GetSize(int(s.file.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return Columns
}

// Write shows text.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole := append(s.rest, text...)
	end := len(whole)
	for back := 1; back < utf8.UTFMax && back <= len(whole); back++ {
		if at := len(whole) - back; utf8.RuneStart(whole[at]) {
			if !utf8.FullRune(whole[at:]) {
				end = at
			}
			break
		}
	}
	s.rest = bytes.Clone(whole[end:])
	if _, err := s.file.WriteString(Quote(string(whole[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Flush shows what was held back of a character that never came whole.
func (s *Screen) Flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.file.WriteString(Quote(string(s.rest)))
	s.rest = nil
	return err
}

// Status shows text, cut to the width, in a line that the next status replaces. It shows
// nothing on a terminal that cannot.
func (s *Screen) Status(text string) {
	if !s.redraw {
		return
	}
	width := Width(s) - 1 // in the last column some terminals begin a new line
	s.mu.Lock()
	defer s.mu.Unlock()
	io.WriteString(s.file, "\r\x1b[K"+cut(Quote(text), width))
	s.status = true
}

// ClearStatus removes the status line, so that what is written next stands alone.
func (s *Screen) ClearStatus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status {
		io.WriteString(s.file, "\r\x1b[K")
		s.status = false
	}
}

// cut shortens a text to a number of characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:max(0, most)])
}

// Quote replaces what a terminal would obey instead of showing it (control characters
// but line ends and tabs, characters that turn the direction of writing, bytes that are
// no text) by what Go writes in a string for it, such as \x1b.
func Quote(text string) string {
	clean := func(r rune) bool { return r == '\n' || r == '\t' || r != utf8.RuneError && !obeyed(r) }
	if strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case clean(r) || r == utf8.RuneError && size > 1: // U+FFFD itself
			out.WriteString(text[:size])
		default:
			quoted := strconv.QuoteToASCII(text[:size])
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return out.String()
}

// obeyed tells whether a terminal obeys a character: the controls of ASCII and Latin-1,
// line and paragraph separators, and those of bidirectional text.
func obeyed(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0:
		return true
	case r == 0x61c, r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}
