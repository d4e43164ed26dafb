package train

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/infinirl/infinirl/terminal"
)

// Progress shows a run as it goes: a line a step, and what is being done in between: on a
// terminal a status line below them that is redrawn in place, elsewhere a line now and then.
type Progress struct {
	w      io.Writer
	status bool
	screen *terminal.Screen // nil where w is none
	what   string           // of the latest status
	last   time.Time        // when it was shown, or began
	now    func() time.Time
}

// NewProgress writes to w; status tells whether it hears of what is being done.
func NewProgress(w io.Writer, status bool) *Progress {
	p := &Progress{w: w, status: status, now: time.Now}
	if screen, ok := w.(*terminal.Screen); ok && status {
		p.screen = screen
	}
	return p
}

// Printf writes one line that stays. A terminal.Line that is all there is to write keeps
// its styles.
func (p *Progress) Printf(format string, args ...any) {
	p.Close()
	if len(args) == 1 && format == "%s" {
		if line, ok := args[0].(terminal.Line); ok {
			terminal.Print(p.w, line)
			return
		}
	}
	io.WriteString(p.w, terminal.Quote(fmt.Sprintf(format, args...))+"\n")
}

// Status tells what is being done and how far it is. A terminal's line is redrawn; a log
// gets a line only of what takes long.
func (p *Progress) Status(what string, done, total int) {
	const redraw, inLog = 100 * time.Millisecond, 30 * time.Second
	switch now := p.now(); {
	case !p.status:
	case p.screen != nil:
		if done >= total || now.Sub(p.last) >= redraw {
			p.last = now
			p.screen.Status(statusLine(what, done, total, terminal.Width(p.screen)))
		}
	case what != p.what || done == 0:
		p.what, p.last = what, now
	case done < total && now.Sub(p.last) >= inLog:
		p.last = now
		p.Printf("%s: %d of %d", what, done, total)
	}
}

// statusLine fits any width: the bar gives way first, then the end of what is done.
func statusLine(what string, done, total, width int) string {
	const least, most = 8, 24 // of the bar
	count := fmt.Sprintf("%d/%d", done, total)
	bar := min(most, width-1-max(22, len([]rune(what)))-len(count)-len(" [] "))
	if bar < least || total < 1 {
		room := max(0, width-2-len(count))
		if short := []rune(what); len(short) > room {
			what = string(short[:room])
		}
		return what + " " + count
	}
	filled := bar * min(done, total) / total
	return fmt.Sprintf("%-22s [%s%s] %s", what, strings.Repeat("=", filled), strings.Repeat(" ", bar-filled), count)
}

// Close removes the status line, so that what is printed next stands alone.
func (p *Progress) Close() {
	if p.screen != nil {
		p.screen.ClearStatus()
	}
}
