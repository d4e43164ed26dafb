package terminal

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a header and rows of as many cells. The first column is flush left, the
// others, which are numbers, flush right.
type Table struct {
	Header []string
	Rows   [][]string
	// Styles are those of columns, by their place.
	Styles map[int]Style
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write prints the table, two blanks between columns.
func (t *Table) Write(w io.Writer) error {
	width := make([]int, len(t.Header))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for k, cell := range row {
			width[k] = max(width[k], utf8.RuneCountInString(cell))
		}
	}
	if err := Print(w, t.line(t.Header, width, func(int) Style { return Bold })); err != nil {
		return err
	}
	for _, row := range t.Rows {
		if err := Print(w, t.line(row, width, func(k int) Style { return t.Styles[k] })); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) line(cells []string, width []int, style func(column int) Style) Line {
	var line Line
	for k, cell := range cells {
		pad := strings.Repeat(" ", width[k]-utf8.RuneCountInString(cell))
		if k > 0 {
			line = append(line, Span{Text: "  " + pad})
		}
		line = append(line, Span{cell, style(k)})
		if k == 0 && len(cells) > 1 {
			line = append(line, Span{Text: pad})
		}
	}
	return line
}
