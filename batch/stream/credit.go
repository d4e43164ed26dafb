package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch"
)

// Report tells what Advantages wrote and what it left out.
type Report struct {
	Rows, Trajectories int // written
	Left               LeftOut
	Warnings           []string // of advantage.Config.Warn
	// NoValues tells that the estimator reads values and none were given: each was 0.
	NoValues bool
}

// Advantages reads a batch, adds advantages and returns, and writes it to out, a file
// that stands at its start. Failed and aborted trajectories and those without a
// trainable token are left out and counted. It goes part by part, on all cores,
// where trajectories do not depend on one another and their rows follow one
// another, and holds the whole batch in memory otherwise. Where the estimator reads values
// and the batch has none, withoutValues takes the place of cfg, but for the estimator and
// the whitening. A fault of the content is a *ContentError.
func Advantages(ctx context.Context, in *Reader, out *os.File, format Format, cfg, withoutValues advantage.Config) (Report, error) {
	estimator, err := advantage.Lookup(cfg.Estimator)
	if err != nil {
		return Report{}, err
	}
	withoutValues.Estimator, withoutValues.Whiten = cfg.Estimator, cfg.Whiten
	j := &creditJob{cfg: cfg, withoutValues: withoutValues, estimator: estimator, in: in, format: format}
	if !estimator.Batch && !estimator.Whiten && !cfg.Whiten {
		err := j.inParts(ctx, out)
		if !errors.Is(err, ErrUnsorted) {
			return j.done, err
		}
		if err := errors.Join(in.Rewind(), out.Truncate(0)); err != nil {
			return Report{}, err
		}
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			return Report{}, err
		}
	}
	err = j.atOnce(ctx, out)
	return j.done, err
}

// creditJob computes the advantages of one batch.
type creditJob struct {
	cfg           advantage.Config
	withoutValues advantage.Config
	estimator     advantage.Estimator
	in            *Reader
	format        Format
	done          Report
}

// atOnce holds the whole batch in memory. Memory is a few long columns: to collect
// garbage early costs little and keeps the peak near their size.
func (j *creditJob) atOnce(ctx context.Context, f *os.File) error {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	b, err := j.in.Read(ctx)
	if err != nil {
		return err
	}
	c, err := j.credit(b, true)
	if err != nil {
		return err
	}
	j.done = c.Report
	if c.Rows == 0 {
		return j.nothingLeft(f)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := Write(ctx, w, c.batch, j.format); err != nil {
		return err
	}
	return w.Flush()
}

// inParts reads, computes and writes at the same time, on all cores.
func (j *creditJob) inParts(ctx context.Context, f *os.File) error {
	if j.in.format != JSONLines { // as in atOnce: the row columns stay in memory
		defer debug.SetGCPercent(debug.SetGCPercent(20))
	}
	ctx, cancel := context.WithCancel(ctx)
	parts := make(chan *batch.Batch)
	read := make(chan error, 1)
	go func() {
		defer close(parts)
		read <- j.in.Parts(ctx, func(b *batch.Batch) error {
			select {
			case parts <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	err := j.writeParts(ctx, f, func() (*batch.Batch, error) {
		if b, ok := <-parts; ok {
			return b, nil
		}
		return nil, io.EOF
	}, read)
	cancel()
	for range parts { // until the reader has ended
	}
	return err
}

// writeParts computes and writes the parts, as far as reading goes well.
func (j *creditJob) writeParts(ctx context.Context, f *os.File, next func() (*batch.Batch, error), read <-chan error) error {
	w := NewWriter(f, j.format)
	defer w.Close()
	var done Report
	var failed error // of the first part that is wrong
	credit := func(b *batch.Batch) (credited, error) {
		c, err := j.credit(b, false) // may be a view of a mapped file
		c.err = err
		if err == nil && j.format == JSONLines {
			c.lines = appendLines(nil, c.batch)
		}
		return c, nil
	}
	err := ordered(ctx, runtime.GOMAXPROCS(0), next, credit, func(c credited) error {
		if failed == nil {
			failed = c.err
		}
		if failed != nil {
			return nil // read on: the part may have lacked rows that come later
		}
		done.add(c.Report)
		if j.format == JSONLines {
			return w.addLines(c.lines)
		}
		return w.Add(c.batch)
	})
	if err != nil {
		return err
	}
	if err := <-read; err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	j.done = done
	if done.Rows == 0 {
		return j.nothingLeft(f)
	}
	return w.Finish()
}

// credited is a part of the batch with its advantages.
type credited struct {
	batch *batch.Batch
	lines []byte // the same as JSON Lines, if that is the form to write
	err   error
	Report
}

// credit leaves out what cannot be trained on and computes the rest. A batch that
// is the job's own is changed in place.
func (j *creditJob) credit(b *batch.Batch, own bool) (credited, error) {
	kept, left, n, err := leaveOut(b, own)
	if err != nil {
		return credited{}, j.in.bad(err)
	}
	c := credited{batch: kept}
	c.Left = left
	c.Rows, c.Trajectories = len(c.batch.Rows), n-c.Left.Trajectories
	cfg := j.cfg
	if j.estimator.Values && c.batch.Values == nil {
		cfg = j.withoutValues
	}
	cfg.Warn = func(message string) { c.Warnings = append(c.Warnings, message) }
	if c.Rows > 0 {
		c.NoValues = j.estimator.Values && c.batch.Values == nil
		err = advantage.Compute(c.batch, cfg)
	}
	return c, j.in.bad(err)
}

// KeepTrainable leaves out of a batch what Advantages leaves out, in place.
func KeepTrainable(b *batch.Batch) (LeftOut, error) {
	_, left, _, err := leaveOut(b, true)
	return left, err
}

// leaveOut returns a batch, its own one changed in place, without what cannot be trained on,
// and the number of trajectories that there were.
func leaveOut(b *batch.Batch, own bool) (kept *batch.Batch, left LeftOut, n int, err error) {
	trajectories, err := b.Trajectories()
	if err != nil {
		return nil, left, 0, err
	}
	drop := map[int]bool{}
	for _, t := range trajectories {
		if reason := untrainable(b, t); reason != "" {
			left.count(reason, len(t.Rows))
			for _, i := range t.Rows {
				drop[i] = true
			}
		}
	}
	if len(drop) == 0 {
		return b, left, len(trajectories), nil
	}
	rows := make([]int, 0, len(b.Rows)-len(drop))
	for i := range b.Rows {
		if !drop[i] {
			rows = append(rows, i)
		}
	}
	if own {
		b.Keep(rows)
		return b, left, len(trajectories), nil
	}
	return b.Select(rows), left, len(trajectories), nil
}

// untrainable tells why a trajectory is left out, "" if it is not.
func untrainable(b *batch.Batch, t batch.Trajectory) string {
	if !t.Status.Trainable() {
		return string(t.Status)
	}
	for _, i := range t.Rows {
		if b.HasTrainable(i) {
			return ""
		}
	}
	return "without a trainable token"
}

// nothingLeft ends a job all of whose rows were left out: no lines are an answer,
// a safetensors file without rows is none.
func (j *creditJob) nothingLeft(f *os.File) error {
	if j.format == JSONLines {
		return f.Truncate(0)
	}
	return j.in.bad(fmt.Errorf("nothing is left: %s", &j.done.Left))
}

// add adds what another part came to.
func (r *Report) add(o Report) {
	r.Rows += o.Rows
	r.Trajectories += o.Trajectories
	r.Left.add(o.Left)
	r.Warnings = append(r.Warnings, o.Warnings...)
	r.NoValues = r.NoValues || o.NoValues
}

// LeftOut counts what is not in the output, and why.
type LeftOut struct {
	Trajectories, Rows int
	Reasons            []string       // in the order met
	Of                 map[string]int // trajectories, by reason
}

func (l *LeftOut) count(reason string, rows int) {
	l.Trajectories++
	l.Rows += rows
	l.more(reason, 1)
}

func (l *LeftOut) more(reason string, n int) {
	if l.Of == nil {
		l.Of = map[string]int{}
	}
	if l.Of[reason] == 0 {
		l.Reasons = append(l.Reasons, reason)
	}
	l.Of[reason] += n
}

func (l *LeftOut) add(o LeftOut) {
	l.Trajectories += o.Trajectories
	l.Rows += o.Rows
	for _, reason := range o.Reasons {
		l.more(reason, o.Of[reason])
	}
}

func (l *LeftOut) String() string {
	var list []string
	for _, reason := range l.Reasons {
		list = append(list, fmt.Sprintf("%d %s", l.Of[reason], reason))
	}
	return fmt.Sprintf("left out %d rows of %d trajectories (%s)", l.Rows, l.Trajectories, strings.Join(list, ", "))
}
