package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/infinirl/infinirl/trajectory"
)

// segmentReport is what is told of one segment.
type segmentReport struct {
	InvIter      int    `json:"inv_iter"`
	Kind         string `json:"kind,omitempty"`
	Kept         int    `json:"messages_kept"`
	Dropped      int    `json:"messages_dropped"`
	Replaced     int    `json:"messages_replaced"`
	TokensBefore int    `json:"tokens_before"`
	TokensAfter  int    `json:"tokens_after"`
	Prompt       int    `json:"prompt_tokens"`
	Response     int    `json:"response_tokens"`
	Trainable    int    `json:"trainable_tokens"`
	Digest       string `json:"record_digest"`
}

// runReport is what is told of one run.
type runReport struct {
	File     string            `json:"file"`
	Run      string            `json:"run"`
	Form     string            `json:"form"`
	Messages int               `json:"messages"`
	Played   int               `json:"messages_played"`
	Tokens   int               `json:"tokens"`
	Score    *float64          `json:"score,omitempty"`
	Status   trajectory.Status `json:"status"`
	Reason   string            `json:"reason,omitempty"`
	Notices  map[string]int    `json:"notices,omitempty"`
	Segments []segmentReport   `json:"segments"`
}

func (c *cut) report() (runReport, error) {
	r := runReport{File: c.file, Run: c.run.ID, Form: c.run.Form, Messages: len(c.run.Messages), Status: c.t.Status, Notices: c.run.Notices, Segments: []segmentReport{}}
	if c.t.HasScore {
		r.Score = &c.t.Score
	}
	if c.reason != nil {
		r.Reason = c.reason.Error()
	}
	for _, e := range c.t.Entries {
		r.Tokens += len(e.IDs)
		if !e.Summary {
			r.Played++
		}
	}
	rows, err := c.t.Samples()
	if err != nil {
		return r, err
	}
	for k, row := range rows {
		record := c.t.Segments[k].Record
		s := segmentReport{InvIter: row.InvIter, Kind: record.Kind, Kept: record.Kept(), Dropped: record.Messages - record.Kept(), Replaced: len(record.Replacements()),
			TokensBefore: record.TokensBefore, TokensAfter: record.TokensAfter, Prompt: len(row.Prompt), Response: len(row.Response), Digest: record.Digest()}
		for _, m := range row.Mask {
			if m {
				s.Trainable++
			}
		}
		r.Segments = append(r.Segments, s)
	}
	return r, nil
}

// printJSON returns what writes a run as a line of JSON.
func printJSON(w io.Writer) func(*cut) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return func(c *cut) error {
		r, err := c.report()
		if err != nil {
			return err
		}
		return e.Encode(r)
	}
}

// printText writes of a run a line, then its segments as a table or drawn.
func printText(w io.Writer, c *cut, draw bool) error {
	r, err := c.report()
	if err != nil {
		return err
	}
	messages := fmt.Sprintf("%d messages", r.Messages)
	if r.Played < r.Messages {
		messages = fmt.Sprintf("%d of %d messages played", r.Played, r.Messages)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s (%s): %s, %d tokens, %d segments, %s", shown(r.Run), r.Form, messages, r.Tokens, len(r.Segments), r.Status)
	if r.Score != nil {
		fmt.Fprintf(&text, ", score %g", *r.Score)
	}
	text.WriteByte('\n')
	if r.Reason != "" {
		fmt.Fprintf(&text, "  %s\n", shown(r.Reason))
	}
	if draw {
		if err := c.t.DrawSegments(&text); err != nil {
			return err
		}
	} else if len(r.Segments) > 0 {
		t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "inv_iter\tkept\tdropped\treplaced\tbefore\tafter\tprompt\tresponse\ttrained\t")
		for _, s := range r.Segments {
			number := fmt.Sprint(s.InvIter)
			if s.Kind != "" {
				number = s.Kind + " " + number
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", number, short(s.Kept), short(s.Dropped), short(s.Replaced),
				short(s.TokensBefore), short(s.TokensAfter), short(s.Prompt), short(s.Response), short(s.Trainable))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err = io.WriteString(w, text.String())
	return err
}

// short writes a number in at most five characters, so that tables fit a terminal:
// what is longer with three digits and the thousands, millions and so on that they are.
func short(n int) string {
	if n < 1e5 {
		return fmt.Sprint(n)
	}
	v := float64(n)
	unit := -1
	for v >= 999.5 && unit < len("kMGTPE")-1 {
		v, unit = v/1000, unit+1
	}
	digits := 0
	if v < 99.95 {
		digits = 1
	}
	if v < 9.995 {
		digits = 2
	}
	return fmt.Sprintf("%.*f%c", digits, v, "kMGTPE"[unit])
}

// shown returns text of a recording as it may be printed: what a terminal would act on
// or cannot show is written as in a quoted string of Go.
func shown(text string) string {
	printable := utf8.ValidString(text)
	for _, r := range text {
		printable = printable && unicode.IsPrint(r)
	}
	if printable {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
