package trajectory

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// drawWidth is the number of columns inside a box.
const drawWidth = 72

// Draw draws a closed trajectory: a line about the whole, then DrawSegments.
func (t *Trajectory) Draw(out io.Writer) error {
	line := fmt.Sprintf("%s: %d messages, %d segments, %s", t.ID, t.Len(), len(t.Segments), t.Status)
	if t.HasScore {
		line += fmt.Sprintf(", score %g", t.Score)
	}
	if _, err := fmt.Fprintln(out, line); err != nil {
		return err
	}
	return t.DrawSegments(out)
}

// DrawSegments draws the segments of a closed trajectory, one box each:
//
//	┌─ segment 1 (inv_iter=1) ─────────────────────────────────────┐
//	│  sys | user | a₃ t₃ ‖ a₄ t₄ a₅ t₅ a₆ t₆ a₇ t₇                │
//	│  prompt 310 + response 480 tokens, 160 trainable             │
//	└──────────────────────────────────────────────────────────────┘
//
// Before ‖ stands the prompt, after it what came then. a₃ is the third assistant
// message, t₃ a result of its calls, u₃ a user message after it; [t₃] is blanked
// and t₃~ cut; ask and note belong to summaries.
func (t *Trajectory) DrawSegments(out io.Writer) error {
	w := bufio.NewWriter(out)
	labels := t.labels()
	rows, err := t.Samples()
	if err != nil {
		return err
	}
	for k, s := range t.Segments {
		if k > 0 {
			drawCut(w, s.Record)
		}
		title := fmt.Sprintf("─ segment %d (inv_iter=%d) ", k, s.InvIter)
		if s.Record.Kind != "" {
			title = fmt.Sprintf("─ segment %d (inv_iter=%d, %s) ", k, s.InvIter, s.Record.Kind)
		}
		fmt.Fprintf(w, "  ┌%s%s┐\n", title, strings.Repeat("─", drawWidth-utf8.RuneCountInString(title)))
		for _, line := range t.drawMessages(s, labels) {
			drawLine(w, line)
		}
		trainable := 0
		for _, m := range rows[k].Mask {
			if m {
				trainable++
			}
		}
		drawLine(w, fmt.Sprintf("prompt %d + response %d tokens, %d trainable", len(rows[k].Prompt), len(rows[k].Response), trainable))
		fmt.Fprintf(w, "  └%s┘\n", strings.Repeat("─", drawWidth))
	}
	return w.Flush()
}

func drawLine(w io.Writer, text string) {
	fmt.Fprintf(w, "  │  %s%s│\n", text, strings.Repeat(" ", max(0, drawWidth-2-utf8.RuneCountInString(text))))
}

// drawCut draws what a condenser did between two boxes.
func drawCut(w io.Writer, r condense.Record) {
	did := r.Rule
	if r.Kind == condense.KindSummary {
		did += " asks"
	}
	fmt.Fprintf(w, "              │\n              ▼ %s: %d → %d tokens\n", did, r.TokensBefore, r.TokensAfter)
}

// drawMessages writes the labels of a segment's messages in lines that fit the box.
func (t *Trajectory) drawMessages(s Segment, labels []string) []string {
	replaced := s.Record.Replacements()
	var words []string
	head := true // among system messages and task
	for _, keep := range s.Record.Keep {
		for i := keep.Start; i < keep.End; i++ {
			e := &t.Entries[i]
			isHead := e.Task || e.Message.Role == chat.System
			if len(words) > 0 && (head || isHead) {
				words = append(words, "|")
			}
			head = isHead
			label := labels[i]
			if r := replaced[i]; r != nil {
				if label += "~"; r.Kind == condense.Blank {
					label = "[" + labels[i] + "]"
				}
			}
			words = append(words, label)
		}
	}
	words = append(words, "‖")
	words = append(words, labels[s.Start:s.End]...)
	var lines []string
	line := ""
	for _, word := range words {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > drawWidth-4 {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// labels names every message of the log.
func (t *Trajectory) labels() []string {
	labels := make([]string, t.Len())
	turn := 0
	turns := make(map[int]int) // of the call message of a round
	for i := range t.Entries {
		e := &t.Entries[i]
		switch role := e.Message.Role; {
		case e.Summary && role == chat.Assistant:
			labels[i] = "sum"
		case e.Summary && i > 0 && t.Entries[i-1].Summary:
			labels[i] = "note"
		case e.Summary:
			labels[i] = "ask"
		case role == chat.System:
			labels[i] = "sys"
		case role == chat.Assistant:
			turn++
			turns[i] = turn
			labels[i] = "a" + subscript(turn)
		case e.Round >= 0:
			labels[i] = "t" + subscript(turns[e.Round])
		case e.Task:
			labels[i] = "user"
		default:
			labels[i] = "u" + subscript(turn)
		}
	}
	return labels
}

// subscript writes a number in small digits.
func subscript(n int) string {
	return strings.Map(func(digit rune) rune { return '₀' + digit - '0' }, strconv.Itoa(n))
}
