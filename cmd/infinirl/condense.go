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
	"github.com/infinirl/infinirl/token"
	"github.com/infinirl/infinirl/trajectory"
)

// condenseCommand cuts recorded runs into segments.
type condenseCommand struct {
	Files []string `arg:"" name:"file" help:"Recorded runs, in any form that is known; - is standard input."`

	Rule         string   `default:"tool-fifo" help:"Condensing rule: none or tool-fifo."`
	High         int      `required:"" help:"Condense when the window and the reply would exceed this many tokens."`
	Low          int      `help:"Condense down to this many tokens (half of --high if not given)."`
	KeepLast     int      `default:"1" help:"Newest tool rounds that always stay."`
	KeepFirst    int      `default:"0" help:"Oldest tool rounds that always stay."`
	Mode         string   `default:"pair" help:"pair keeps calls with their results, result keeps bare results."`
	ExcludeTools []string `help:"Tools whose rounds always stay."`
	ClearAtLeast int      `help:"Tokens that one condensing frees at least, if there is as much to free."`
	MaxSegments  int      `help:"End a run after this many segments (0: no bound)."`
	Reply        int      `help:"Tokens reserved for a reply; at least the recorded reply's own."`
	Tokenizer    string   `default:"bytes" help:"bytes: every byte is a token."`

	Output string `short:"o" help:"Write the segments as JSON Lines to this file."`
	JSON   bool   `name:"json" help:"Print JSON, one run a line, instead of tables."`
}

// Help shows an example.
func (condenseCommand) Help() string {
	return `Prints how a rule cuts recorded runs, segment by segment, and with -o writes the segments for training.

Example:
  echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}' | infinirl condense - --high 4096 -o -`
}

// Run cuts every run of every file.
func (c *condenseCommand) Run(ctx context.Context, std streams) error {
	config := condense.Config{Rule: c.Rule, High: c.High, Low: c.Low, KeepLast: c.KeepLast, KeepFirst: c.KeepFirst,
		Mode: c.Mode, ExcludeTools: c.ExcludeTools, ClearAtLeast: c.ClearAtLeast, MaxSegments: c.MaxSegments}
	if config.Low == 0 {
		config.Low = config.High / 2
	}
	condenser, err := condense.New(config)
	if err != nil {
		return badInput(err)
	}
	if c.Tokenizer != "bytes" {
		return badInput(fmt.Errorf("--tokenizer: %q, want bytes", c.Tokenizer))
	}
	codec, err := chat.NewChatML(token.Bytes{})
	if err != nil {
		return err
	}
	var cuts []cut
	for _, path := range c.Files {
		runs, err := readRuns(path, std)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if err := ctx.Err(); err != nil {
				return err
			}
			t, reason, err := recut(run, codec, condenser, c.Reply)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", path, run.Line, err)
			}
			cuts = append(cuts, cut{file: path, run: run, t: t, reason: reason})
		}
	}
	if c.Output != "" {
		err := writeOutput(c.Output, std, func(w io.Writer) error { return writeSegments(w, cuts) })
		if err != nil {
			return err
		}
	}
	if c.Output == "-" {
		return nil
	}
	if c.JSON {
		return printJSON(std.out, cuts)
	}
	return printTables(std.out, cuts)
}

// cut is one recorded run after condensing.
type cut struct {
	file   string
	run    recorded.Run
	t      *trajectory.Trajectory
	reason error // why it ended early
}

func readRuns(path string, std streams) ([]recorded.Run, error) {
	r, name, err := openInput(path, std)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	runs, err := recorded.Read(name, r)
	return runs, badInput(err)
}

// recut cuts a recorded run. Tool schemas that were recorded beside the messages
// are part of every prompt, and count.
func recut(run recorded.Run, codec chat.Codec, condenser condense.Condenser, reply int) (t *trajectory.Trajectory, reason, err error) {
	recording := trajectory.Recording{ID: run.ID, Group: run.Group, Reply: reply}
	for _, m := range run.Messages {
		recording.Messages = append(recording.Messages, m.Message)
		recording.IDs = append(recording.IDs, m.IDs)
		recording.LogProbs = append(recording.LogProbs, m.LogProbs)
	}
	for _, tool := range run.Tools {
		schema, err := json.Marshal(tool)
		if err != nil {
			return nil, nil, fmt.Errorf("tool %s: %w", tool.Name, err)
		}
		ids, err := codec.Encode(chat.Message{Role: chat.System, Content: string(schema)})
		if err != nil {
			return nil, nil, fmt.Errorf("tool %s: %w", tool.Name, err)
		}
		recording.Extra += len(ids)
	}
	t, reason, err = trajectory.Recut(recording, codec, condenser)
	if t != nil {
		t.Score, t.HasScore = run.Score, run.HasScore
	}
	return t, reason, err
}

// segmentLine is one line of the JSON Lines form of a batch.
type segmentLine struct {
	TrajectoryID string            `json:"trajectory_id"`
	GroupID      string            `json:"group_id"`
	InvIter      int               `json:"inv_iter"`
	PromptIDs    []int32           `json:"prompt_ids"`
	ResponseIDs  []int32           `json:"response_ids"`
	LossMask     []int             `json:"loss_mask"`
	Score        *float64          `json:"score,omitempty"`
	Status       trajectory.Status `json:"status"`
	Condense     json.RawMessage   `json:"condense"`
}

func writeSegments(w io.Writer, cuts []cut) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, c := range cuts {
		rows, err := c.t.Rows()
		if err != nil {
			return err
		}
		for _, row := range rows {
			line := segmentLine{TrajectoryID: row.TrajectoryID, GroupID: row.GroupID, InvIter: row.InvIter,
				PromptIDs: row.Prompt, ResponseIDs: row.Response, LossMask: make([]int, len(row.Mask)), Status: row.Status, Condense: row.Condense}
			for i, m := range row.Mask {
				if m {
					line.LossMask[i] = 1
				}
			}
			if row.HasScore {
				line.Score = &row.Score
			}
			if err := e.Encode(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// segmentReport is what is told of one segment.
type segmentReport struct {
	InvIter      int `json:"inv_iter"`
	Kept         int `json:"messages_kept"`
	Dropped      int `json:"messages_dropped"`
	Blanked      int `json:"messages_blanked"`
	TokensBefore int `json:"tokens_before"`
	TokensAfter  int `json:"tokens_after"`
	Prompt       int `json:"prompt_tokens"`
	Response     int `json:"response_tokens"`
	Trainable    int `json:"trainable_tokens"`
}

// runReport is what is told of one run.
type runReport struct {
	File     string            `json:"file"`
	Run      string            `json:"run"`
	Form     string            `json:"form"`
	Messages int               `json:"messages"`
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
	}
	rows, err := c.t.Rows()
	if err != nil {
		return r, err
	}
	for k, row := range rows {
		record := c.t.Segments[k].Record
		s := segmentReport{InvIter: row.InvIter, Kept: record.Kept(), Dropped: record.Messages - record.Kept(), Blanked: len(record.Replacements()),
			TokensBefore: record.TokensBefore, TokensAfter: record.TokensAfter, Prompt: len(row.Prompt), Response: len(row.Response)}
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

func printTables(w io.Writer, cuts []cut) error {
	ended := make(map[trajectory.Status]int)
	segments := 0
	for _, c := range cuts {
		r, err := c.report()
		if err != nil {
			return err
		}
		ended[r.Status]++
		segments += len(r.Segments)
		fmt.Fprintf(w, "%s (%s): %d messages, %d tokens, %d segments, %s", r.Run, r.Form, r.Messages, r.Tokens, len(r.Segments), r.Status)
		if r.Score != nil {
			fmt.Fprintf(w, ", score %g", *r.Score)
		}
		fmt.Fprintln(w)
		if r.Reason != "" {
			fmt.Fprintf(w, "  %s\n", r.Reason)
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		if len(r.Segments) > 0 {
			fmt.Fprintln(t, "inv_iter\tkept\tdropped\tblanked\tbefore\tafter\tprompt\tresponse\ttrainable\t")
		}
		for _, s := range r.Segments {
			fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", s.InvIter, s.Kept, s.Dropped, s.Blanked, s.TokensBefore, s.TokensAfter, s.Prompt, s.Response, s.Trainable)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d runs, %d segments: %d finished, %d truncated, %d context_overflow\n", len(cuts), segments,
		ended[trajectory.Finished], ended[trajectory.Truncated], ended[trajectory.ContextOverflow])
	return err
}
