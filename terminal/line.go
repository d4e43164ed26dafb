package terminal

import (
	"io"
	"strings"
)

// Style is how a text stands out on a terminal with colours.
type Style string

// The styles there are. Colours are those of the terminal's own palette.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Span is a text in one style.
type Span struct {
	Text  string
	Style Style
}

// Line is a text whose parts have styles of their own.
type Line []Span

// String is the text without its styles.
func (l Line) String() string {
	var out strings.Builder
	for _, span := range l {
		out.WriteString(span.Text)
	}
	return out.String()
}

// Print writes a line and its end: with its styles on a terminal with colours, without
// them elsewhere.
func Print(w io.Writer, line Line) error {
	s, ok := w.(*Screen)
	if !ok || !s.colour {
		_, err := io.WriteString(w, line.String()+"\n")
		return err
	}
	var out strings.Builder
	for _, span := range line {
		if span.Style == Plain || span.Text == "" {
			out.WriteString(Quote(span.Text))
			continue
		}
		out.WriteString("\x1b[" + string(span.Style) + "m" + Quote(span.Text) + "\x1b[0m")
	}
	out.WriteByte('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.file, out.String())
	return err
}
