package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
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
	Segments []segmentReport   `json:"segments"`
}

func (c cut) report() (runReport, error) {
	r := runReport{File: c.file, Run: c.run.ID, Form: c.run.Form, Messages: len(c.run.Messages), Status: c.t.Status, Segments: []segmentReport{}}
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

func printJSON(w io.Writer, cuts []cut) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, c := range cuts {
		r, err := c.report()
		if err != nil {
			return err
		}
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// printText writes of every run a line, then its segments as a table or drawn, and
// a line about all runs.
func printText(w io.Writer, cuts []cut, draw bool) error {
	ended := make(map[trajectory.Status]int)
	segments := 0
	for _, c := range cuts {
		r, err := c.report()
		if err != nil {
			return err
		}
		ended[r.Status]++
		segments += len(r.Segments)
		messages := fmt.Sprintf("%d messages", r.Messages)
		if r.Played < r.Messages {
			messages = fmt.Sprintf("%d of %d messages played", r.Played, r.Messages)
		}
		fmt.Fprintf(w, "%s (%s): %s, %d tokens, %d segments, %s", r.Run, r.Form, messages, r.Tokens, len(r.Segments), r.Status)
		if r.Score != nil {
			fmt.Fprintf(w, ", score %g", *r.Score)
		}
		fmt.Fprintln(w)
		if r.Reason != "" {
			fmt.Fprintf(w, "  %s\n", r.Reason)
		}
		if draw {
			if err := c.t.DrawSegments(w); err != nil {
				return err
			}
			continue
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		if len(r.Segments) > 0 {
			fmt.Fprintln(t, "inv_iter\tkept\tdropped\treplaced\tbefore\tafter\tprompt\tresponse\ttrainable\t")
		}
		for _, s := range r.Segments {
			fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", s.InvIter, s.Kept, s.Dropped, s.Replaced, s.TokensBefore, s.TokensAfter, s.Prompt, s.Response, s.Trainable, s.Kind)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d runs, %d segments: %d finished, %d truncated, %d context_overflow\n", len(cuts), segments,
		ended[trajectory.Finished], ended[trajectory.Truncated], ended[trajectory.ContextOverflow])
	return err
}

// ruleReport is what one rule does to all runs. Sizes are tokens.
type ruleReport struct {
	Rule            string  `json:"rule"`
	Runs            int     `json:"runs"`
	Finished        int     `json:"finished"`
	Truncated       int     `json:"truncated"`
	ContextOverflow int     `json:"context_overflow"`
	Segments        int     `json:"segments"`
	Replies         int     `json:"replies"`
	Processed       int     `json:"processed_tokens"`
	Prefill         int     `json:"prefill_tokens"`
	Decode          int     `json:"decode_tokens"`
	Reused          float64 `json:"reused_share"`
	Dropped         int     `json:"dropped_tokens"`
	SegmentsPerMTok float64 `json:"segments_per_million_tokens"`
	TrainingTokens  int     `json:"training_tokens"`
	TrainableTokens int     `json:"trainable_tokens"`
}

// compare cuts all runs with every rule and prints what each costs.
func (c *condenseCommand) compare(ctx context.Context, files []recordedFile, renderer chat.Renderer, w io.Writer) error {
	var reports []ruleReport
	for _, rule := range condense.Rules() {
		cuts, err := c.cutAll(ctx, files, renderer, c.config(rule))
		if err != nil {
			return err
		}
		r, err := summarise(rule, cuts)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if c.JSON {
		e := json.NewEncoder(w)
		for _, r := range reports {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\tfinished\tended early\tsegments\tprocessed\tprefill\tdecode\treused\tdropped\tsegments/Mtok\trow tokens\t")
	for _, r := range reports {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f%%\t%d\t%.1f\t%d\t\n", r.Rule, r.Finished, r.Runs-r.Finished, r.Segments,
			r.Processed, r.Prefill, r.Decode, 100*r.Reused, r.Dropped, r.SegmentsPerMTok, r.TrainingTokens)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, `processed: tokens the model computes, prefill and decode, with the cache of the last prompt kept
reused: share of prompt tokens in that cache      dropped: tokens taken out of windows
segments/Mtok: training prompts per million tokens of the logs      row tokens: prompts and responses of all segments
`)
	return err
}

func summarise(rule string, cuts []cut) (ruleReport, error) {
	r := ruleReport{Rule: rule, Runs: len(cuts)}
	var cost trajectory.Cost
	logged := 0
	for _, c := range cuts {
		switch c.t.Status {
		case trajectory.Finished:
			r.Finished++
		case trajectory.Truncated:
			r.Truncated++
		default:
			r.ContextOverflow++
		}
		own, err := c.t.Cost()
		if err != nil {
			return r, err
		}
		cost.Add(own)
		rows, err := c.t.Samples()
		if err != nil {
			return r, err
		}
		r.Segments += len(rows)
		for _, row := range rows {
			r.TrainingTokens += len(row.Prompt) + len(row.Response)
			for _, m := range row.Mask {
				if m {
					r.TrainableTokens++
				}
			}
		}
		for _, e := range c.t.Entries {
			logged += len(e.IDs)
		}
	}
	r.Replies, r.Processed, r.Prefill, r.Decode, r.Dropped = cost.Replies, cost.Processed(), cost.Prefill(), cost.Decode, cost.Dropped
	r.Reused = float64(cost.Reused) / float64(max(1, cost.Prompt))
	r.SegmentsPerMTok = 1e6 * float64(r.Segments) / float64(max(1, logged))
	return r, nil
}
