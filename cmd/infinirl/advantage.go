package main

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

type advantageCommand struct {
	In  string     `arg:"" default:"-" help:"Batch to read: .jsonl or .safetensors; - is standard input, either form."`
	Out outputPath `short:"o" default:"-" placeholder:"FILE" help:"Batch to write: .jsonl or .safetensors; - is standard output."`

	Format       string  `enum:"auto,jsonl,safetensors,packed" default:"auto" help:"Form to write: ${enum}. auto goes by the name of the output, else it is the form of the input."`
	Estimator    string  `default:"gae" help:"Way to assign credit, from the list above."`
	Gamma        float64 `default:"1" help:"Discount a trainable token."`
	Lambda       float64 `default:"0.95" help:"λ of the advantages."`
	CriticLambda float64 `default:"1" help:"λ of the returns."`
	LambdaAlpha  float64 `default:"0" help:"If above 0, λ of the advantages is 1 − 1/(α·trainable tokens of the trajectory)."`
	Whiten       bool    `help:"Bring the advantages to mean 0 and variance 1 over the batch."`
}

func (advantageCommand) Help() string {
	var list strings.Builder
	for _, name := range advantage.Names() {
		e, _ := advantage.Lookup(name)
		fmt.Fprintf(&list, "  %-14s %s\n", name, e.Summary)
	}
	return `Adds advantages and returns to a batch. Rows may come in any order; if those of a
trajectory follow one another, memory does not grow with the file. Failed and
aborted trajectories and those without a trainable token are left out and counted.

Estimators:
` + list.String() + `
Example:
  echo '{"trajectory_id":"t","inv_iter":0,"response_ids":[5,6],"loss_mask":[1,1],"values":[0.5,0.6],"score":1}' | infinirl advantage --gamma 0.9 --lambda 0.8`
}

func (c *advantageCommand) Run(ctx context.Context, std streams) error {
	cfg := advantage.Config{Estimator: c.Estimator, Gamma: c.Gamma, Lambda: c.Lambda, CriticLambda: c.CriticLambda, LambdaAlpha: c.LambdaAlpha, Whiten: c.Whiten}
	if err := cfg.Validate(); err != nil {
		return badInput(err)
	}
	if err := checkOutput(string(c.Out)); err != nil {
		return err
	}
	in, err := openBatch(ctx, c.In, std)
	if err != nil {
		return err
	}
	defer in.close()
	format, err := outputFormat(c.Format, string(c.Out), in.format)
	if err != nil {
		return err
	}
	job := &creditJob{cfg: cfg, in: in, format: format}
	if err := writeFile(string(c.Out), std, func(f *os.File) error { return job.run(ctx, f) }); err != nil {
		return err
	}
	if err := job.done.report(std.err); err != nil || c.Out == "-" {
		return err
	}
	_, err = fmt.Fprintf(std.err, "infinirl: wrote %d rows of %d trajectories to %s\n", job.rows, job.trajectories, c.Out)
	return err
}

// creditJob computes the advantages of one batch.
type creditJob struct {
	cfg    advantage.Config
	in     *batchInput
	format batchFormat
	done   leftOut

	rows, trajectories int // written
}

// run reads, computes and writes: part by part where trajectories do not depend
// on one another and are sorted, else all at once.
func (j *creditJob) run(ctx context.Context, f *os.File) error {
	estimator, err := advantage.Lookup(j.cfg.Estimator)
	if err != nil {
		return badInput(err)
	}
	if !estimator.Batch && !estimator.Whiten && !j.cfg.Whiten {
		err := j.inParts(ctx, f)
		if !errors.Is(err, errUnsorted) {
			return err
		}
		if err := errors.Join(j.in.rewind(), f.Truncate(0)); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return j.atOnce(ctx, f)
}

// atOnce holds the whole batch in memory. Memory is a few long columns: to collect
// garbage early costs little and keeps the peak near their size.
func (j *creditJob) atOnce(ctx context.Context, f *os.File) error {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	b, err := j.in.read(ctx)
	if err != nil {
		return err
	}
	c, err := j.credit(b, true)
	if err != nil {
		return err
	}
	j.done, j.rows, j.trajectories = c.left, len(c.batch.Rows), c.trajectories
	if len(c.batch.Rows) == 0 {
		return j.nothingLeft(f)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := writeBatch(ctx, c.batch, w, j.format); err != nil {
		return err
	}
	return w.Flush()
}

// inParts reads, computes and writes at the same time, on all cores.
func (j *creditJob) inParts(ctx context.Context, f *os.File) error {
	if j.in.format != formatJSONLines { // as in atOnce: the row columns stay in memory
		defer debug.SetGCPercent(debug.SetGCPercent(20))
	}
	ctx, cancel := context.WithCancel(ctx)
	parts := make(chan *batch.Batch)
	read := make(chan error, 1)
	go func() {
		defer close(parts)
		read <- j.in.stream(ctx, func(b *batch.Batch) error {
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
	var sink partSink = &lineSink{w: bufio.NewWriterSize(f, 1<<20)}
	if j.format != formatJSONLines {
		spool := newColumnSpool(f, j.format.layout())
		defer spool.close()
		sink = spool
	}
	var done leftOut
	rows, trajectories := 0, 0
	var failed error // of the first part that is wrong
	credit := func(b *batch.Batch) (credited, error) {
		c, err := j.credit(b, false) // may be a view of a mapped file
		c.err = err
		if err == nil && j.format == formatJSONLines {
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
		done.add(c.left)
		rows += len(c.batch.Rows)
		trajectories += c.trajectories
		return sink.add(c)
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
	j.done, j.rows, j.trajectories = done, rows, trajectories
	if rows == 0 {
		return j.nothingLeft(f)
	}
	return sink.finish()
}

// credited is a part of the batch with its advantages.
type credited struct {
	batch *batch.Batch
	lines []byte // the same as JSON Lines, if that is the form to write
	left  leftOut
	err   error

	trajectories int // in batch
}

// partSink takes the parts in order.
type partSink interface {
	add(credited) error
	finish() error
}

// lineSink writes JSON Lines.
type lineSink struct{ w *bufio.Writer }

func (s *lineSink) add(c credited) error {
	_, err := s.w.Write(c.lines)
	return err
}

func (s *lineSink) finish() error { return s.w.Flush() }

// credit leaves out what cannot be trained on and computes the rest. A batch that
// is the job's own is changed in place.
func (j *creditJob) credit(b *batch.Batch, own bool) (credited, error) {
	trajectories, err := b.Trajectories()
	if err != nil {
		return credited{}, j.in.bad(err)
	}
	c := credited{batch: b}
	drop := map[int]bool{}
	for _, t := range trajectories {
		if reason := untrainable(b, t); reason != "" {
			c.left.count(reason, len(t.Rows))
			for _, i := range t.Rows {
				drop[i] = true
			}
		}
	}
	if len(drop) > 0 {
		rows := make([]int, 0, len(b.Rows)-len(drop))
		for i := range b.Rows {
			if !drop[i] {
				rows = append(rows, i)
			}
		}
		if own {
			b.Keep(rows)
		} else {
			c.batch = b.Select(rows)
		}
	}
	c.trajectories = len(trajectories) - c.left.trajectories
	cfg := j.cfg
	cfg.Warn = func(message string) { c.left.warnings = append(c.left.warnings, message) }
	if len(c.batch.Rows) > 0 {
		estimator, _ := advantage.Lookup(cfg.Estimator)
		c.left.zeroValues = estimator.Values && c.batch.Values == nil
		err = advantage.Compute(c.batch, cfg)
	}
	return c, j.in.bad(err)
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
	if j.format == formatJSONLines {
		return f.Truncate(0)
	}
	return j.in.bad(fmt.Errorf("nothing is left: %s", &j.done))
}

// leftOut counts what is not in the output.
type leftOut struct {
	trajectories, rows int
	reasons            []string // in the order met
	of                 map[string]int
	warnings           []string
	zeroValues         bool // the estimator read values that were not given
}

func (l *leftOut) count(reason string, rows int) {
	l.trajectories++
	l.rows += rows
	l.more(reason, 1)
}

func (l *leftOut) more(reason string, n int) {
	if l.of == nil {
		l.of = map[string]int{}
	}
	if l.of[reason] == 0 {
		l.reasons = append(l.reasons, reason)
	}
	l.of[reason] += n
}

func (l *leftOut) add(o leftOut) {
	l.trajectories += o.trajectories
	l.rows += o.rows
	for _, reason := range o.reasons {
		l.more(reason, o.of[reason])
	}
	l.warnings = append(l.warnings, o.warnings...)
	l.zeroValues = l.zeroValues || o.zeroValues
}

func (l *leftOut) String() string {
	var list []string
	for _, reason := range l.reasons {
		list = append(list, fmt.Sprintf("%d %s", l.of[reason], reason))
	}
	return fmt.Sprintf("left out %d rows of %d trajectories (%s)", l.rows, l.trajectories, strings.Join(list, ", "))
}

// report tells what was left out and the first warnings.
func (l *leftOut) report(w io.Writer) error {
	const most = 10
	if l.zeroValues {
		fmt.Fprintln(w, "infinirl: no values given: 0 stands for each")
	}
	for k, warning := range l.warnings {
		if k == most {
			fmt.Fprintf(w, "infinirl: and %d more warnings\n", len(l.warnings)-most)
			break
		}
		fmt.Fprintf(w, "infinirl: warning: %s\n", warning)
	}
	if l.trajectories > 0 {
		fmt.Fprintf(w, "infinirl: %s\n", l)
	}
	return nil
}
