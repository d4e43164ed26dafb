package train

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress shows a run as it goes: a line a step, and on a terminal a status
// line below them that is redrawn in place.
type Progress struct {
	w        io.Writer
	terminal bool
	status   bool // a status line stands on the screen
	last     time.Time
}

// NewProgress writes to w; terminal says that w is one.
func NewProgress(w io.Writer, terminal bool) *Progress { return &Progress{w: w, terminal: terminal} }

// Printf writes one line that stays.
func (p *Progress) Printf(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// Status redraws the status line: what is being done and how far it is. It
// writes nothing where w is no terminal.
func (p *Progress) Status(what string, done, total int) {
	const redraw = 100 * time.Millisecond
	if !p.terminal || (done < total && time.Since(p.last) < redraw) {
		return
	}
	p.last = time.Now()
	const width = 24
	filled := 0
	if total > 0 {
		filled = width * done / total
	}
	fmt.Fprintf(p.w, "\r\x1b[K%-22s [%s%s] %d/%d", what, strings.Repeat("=", filled), strings.Repeat(" ", width-filled), done, total)
	p.status = true
}

// Close removes the status line, so that what is printed next stands alone.
func (p *Progress) Close() { p.clear() }

func (p *Progress) clear() {
	if p.status {
		io.WriteString(p.w, "\r\x1b[K")
		p.status = false
	}
}
