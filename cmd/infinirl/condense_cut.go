package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/batch/stream"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/trajectory"
)

// cut is one recorded run after condensing.
type cut struct {
	file   string
	run    *recorded.Run
	t      *trajectory.Trajectory
	reason error // why it ended early
}

// cutter cuts runs by one rule.
type cutter struct {
	renderer  chat.Renderer
	condenser condense.Condenser
	reply     int
	summaries map[int][]int32 // that stand in, by their longest length
}

// cutter returns the cutter of a rule.
func (c *condenseCommand) cutter(renderer chat.Renderer, rule string) (*cutter, error) {
	condenser, err := condense.New(c.config(rule))
	if err != nil {
		return nil, badInput(err)
	}
	return &cutter{renderer, condenser, c.Reply, make(map[int][]int32)}, nil
}

// cut plays a run again. What a trajectory of this project tells beside its messages
// stays: scores and rewards, versions, and that it ended early.
func (c *cutter) cut(run *recorded.Run, file string) (*cut, error) {
	recording := trajectory.Recording{ID: run.ID, Group: run.Group, Tools: run.Tools, Reply: c.reply, Summarize: c.standIn}
	for _, m := range run.Messages {
		recording.Messages = append(recording.Messages, trajectory.RecordedMessage{Message: m.Message, IDs: m.IDs,
			Start: m.Start, End: m.End, LogProbs: m.LogProbs, NotSampled: m.NotSampled, Task: m.Task})
	}
	fail := func(err error) (*cut, error) { return nil, fmt.Errorf("%s:%d: %w", file, run.Line, err) }
	if err := c.fits(run); err != nil {
		return fail(err)
	}
	t, reason, err := trajectory.Recut(recording, c.renderer, c.condenser)
	if err != nil {
		return fail(err)
	}
	t.Score, t.HasScore = run.Score, run.HasScore
	t.Success, t.HasSuccess = run.Outcome.Success, run.Outcome.HasSuccess
	if reason == nil && run.Outcome.Status != "" {
		t.Status, t.Error = run.Outcome.Status, run.Outcome.Error
	}
	from := 0
	for i := range t.Entries {
		if e := &t.Entries[i]; !e.Summary {
			e.Versions, e.Reward = run.Messages[from].Versions, run.Messages[from].Reward
			from++
		}
	}
	return &cut{file, run, t, reason}, nil
}

// fits refuses a trajectory whose replies another template opens.
func (c *cutter) fits(run *recorded.Run) error {
	for i := range run.Messages {
		m := &run.Messages[i]
		if m.Start > 0 && !slices.Equal(m.IDs[:m.Start], c.renderer.GenerationPrefix()) {
			return fmt.Errorf("message %d: the log opens replies by the token ids %s, this tokenizer and chat template by %s: want the --tokenizer and --chat-template that wrote the log",
				i, chat.Excerpt(fmt.Sprint(m.IDs[:m.Start])), chat.Excerpt(fmt.Sprint(c.renderer.GenerationPrefix())))
		}
	}
	return nil
}

// standIn is text of the length of the longest summary: nobody is here to write one.
func (c *cutter) standIn(_ []int32, tokens int) ([]int32, error) {
	if written, ok := c.summaries[tokens]; ok {
		return written, nil
	}
	stop := c.renderer.Stop()[0]
	ids, err := c.renderer.EncodeText(strings.Repeat("summary ", tokens))
	if err != nil {
		return nil, err
	}
	ids = append(ids[:max(0, min(len(ids), tokens-len(stop)))], stop...)
	c.summaries[tokens] = ids
	return ids, nil
}

// segmentWriter writes the segments of runs as a batch, run by run, without the
// columns that recordings do not tell. The column of log-probs is there if all
// trainable tokens have them, which only the last run tells: what has them waits in a
// file without a name.
type segmentWriter struct {
	w       *stream.Writer // nil: nothing is written
	waiting *os.File
	lines   *stream.Writer // to waiting

	trained, known, some int // runs with trainable tokens; of them with log-probs of all, of any
	written, leftOut     int // runs, and those that may not be trained on
}

// newSegmentWriter writes to a file, or nothing if it is nil.
func newSegmentWriter(file *os.File, format stream.Format) *segmentWriter {
	if file == nil {
		return &segmentWriter{}
	}
	return &segmentWriter{w: stream.NewWriter(file, format)}
}

func (s *segmentWriter) close() {
	if s.w != nil {
		s.w.Close()
	}
	if s.lines != nil {
		s.lines.Close()
		s.waiting.Close()
	}
}

// add writes the segments of one run. A run without any has an empty row, which tells
// that it was there, and how it ended.
func (s *segmentWriter) add(t *trajectory.Trajectory) error {
	if s.w == nil {
		return nil
	}
	if !t.Status.Trainable() {
		s.leftOut++
		return nil
	}
	s.written++
	b, err := batch.FromTrajectories([]*trajectory.Trajectory{t})
	if err != nil {
		return err
	}
	if len(b.Rows) == 0 {
		b.Rows = append(b.Rows, batch.Row{TrajectoryID: t.ID, GroupID: t.GroupID, Status: t.Status, Score: t.Score, HasScore: t.HasScore, Success: t.Success, HasSuccess: t.HasSuccess, Error: t.Error})
		b.CuSeqLens = append(b.CuSeqLens, 0)
	}
	if slices.Contains(b.LossMask, true) {
		s.trained++
		if b.RolloutLogProbs != nil {
			s.known++
		}
		if slices.ContainsFunc(t.Entries, func(e trajectory.Entry) bool { return e.LogProbs != nil }) {
			s.some++
		}
		if s.lines == nil && s.trained == 1 && s.known == 1 {
			if s.waiting, err = atomicfile.Nameless(); err != nil {
				return err
			}
			s.lines = stream.NewWriter(s.waiting, stream.JSONLines)
		}
	}
	if s.lines == nil {
		b.RolloutLogProbs = nil
		return s.w.Add(b)
	}
	if b.RolloutLogProbs == nil {
		b.RolloutLogProbs = make([]float32, b.Tokens())
	}
	return s.lines.Add(b)
}

// finish ends the batch.
func (s *segmentWriter) finish(ctx context.Context) error {
	switch {
	case s.w == nil:
		return nil
	case s.written == 0:
		return badInput(errNothingWritten)
	}
	if s.lines != nil {
		if err := s.lines.Finish(); err != nil {
			return err
		}
		if _, err := s.waiting.Seek(0, io.SeekStart); err != nil {
			return err
		}
		in, err := stream.NewReader(s.waiting, "segments", stream.JSONLines)
		if err != nil {
			return err
		}
		defer in.Close()
		err = in.Parts(ctx, func(b *batch.Batch) error {
			if s.known < s.trained {
				b.RolloutLogProbs = nil
			}
			return s.w.Add(b)
		})
		if err != nil {
			return err
		}
	}
	return s.w.Finish()
}

// logWriter writes trajectories as JSON Lines.
type logWriter struct{ w *bufio.Writer }

// newLogWriter writes to a file, or nothing if it is nil.
func newLogWriter(file *os.File) *logWriter {
	if file == nil {
		return &logWriter{}
	}
	return &logWriter{bufio.NewWriterSize(file, 1<<20)}
}

func (l *logWriter) add(t *trajectory.Trajectory) error {
	if l.w == nil {
		return nil
	}
	return trajectory.WriteAll(l.w, []*trajectory.Trajectory{t})
}

func (l *logWriter) finish() error {
	if l.w == nil {
		return nil
	}
	return l.w.Flush()
}

var errNothingWritten = errors.New("all runs failed or were aborted: nothing is left to be trained on")
