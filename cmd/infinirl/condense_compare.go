package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/trajectory"
)

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

	cutter *cutter
	cost   trajectory.Cost
	logged int
}

// compare cuts every run with every rule as it is read, and prints what each costs.
func (c *condenseCommand) compare(ctx context.Context, std streams, runs *runReader, renderer chat.Renderer) error {
	var reports []*ruleReport
	for _, rule := range condense.Rules() {
		cutter, err := c.cutter(renderer, rule)
		if err != nil {
			return err
		}
		reports = append(reports, &ruleReport{Rule: rule, cutter: cutter})
	}
	progress := std.progress()
	defer progress.Close()
	runs.progress = progress
	err := runs.each(ctx, std, func(run *recorded.Run, file string) error {
		for _, r := range reports {
			one, err := r.cutter.cut(run, file)
			if err != nil {
				return badInput(err)
			}
			if err := r.add(one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	progress.Close()
	for _, r := range reports {
		r.finish()
	}
	if c.JSON {
		e := json.NewEncoder(std.out)
		for _, r := range reports {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
	} else if err := printComparison(std.out, reports); err != nil {
		return err
	}
	runs.tally.print(std.err)
	return nil
}

func printComparison(w io.Writer, reports []*ruleReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\tdone\tearly\tsegments\tprefill\tdecode\treused\tdropped\trows\t")
	for _, r := range reports {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%.1f%%\t%s\t%s\t\n", r.Rule, short(r.Finished), short(r.Runs-r.Finished), short(r.Segments),
			short(r.Prefill), short(r.Decode), 100*r.Reused, short(r.Dropped), short(r.TrainingTokens))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `%d runs; done: told to their end, early: ended by the rule before
prefill, decode: tokens computed, with the cache of the last prompt kept
reused: share of prompts in that cache; dropped: tokens taken out of windows
rows: tokens of the prompts and responses of all segments
`, reports[0].Runs)
	return err
}

// add counts one run.
func (r *ruleReport) add(c *cut) error {
	r.Runs++
	switch c.t.Status {
	case trajectory.Finished:
		r.Finished++
	case trajectory.Truncated:
		r.Truncated++
	case trajectory.ContextOverflow:
		r.ContextOverflow++
	}
	own, err := c.t.Cost()
	if err != nil {
		return err
	}
	r.cost.Add(own)
	rows, err := c.t.Samples()
	if err != nil {
		return err
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
		r.logged += len(e.IDs)
	}
	return nil
}

func (r *ruleReport) finish() {
	r.Replies, r.Processed, r.Prefill, r.Decode, r.Dropped = r.cost.Replies, r.cost.Processed(), r.cost.Prefill(), r.cost.Decode, r.cost.Dropped
	r.Reused = float64(r.cost.Reused) / float64(max(1, r.cost.Prompt))
	r.SegmentsPerMTok = 1e6 * float64(r.Segments) / float64(max(1, r.logged))
}
