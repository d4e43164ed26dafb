package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/train"
	"github.com/infinirl/infinirl/trajectory"
)

// replayCommand derives prompts again and compares.
type replayCommand struct {
	Paths       []string  `arg:"" name:"path" help:"Batches (.safetensors or JSON Lines), trajectories (JSON Lines), or run directories."`
	Log         givenText `placeholder:"FILE" help:"Trajectories (JSON Lines) to derive the prompts of the batches from, instead of from the batches themselves."`
	Tokenizer   givenText `placeholder:"FILE" help:"A tokenizer.json or a folder with one, or bytes: show differing tokens as text."`
	Model       givenText `placeholder:"PATH" help:"Checkpoint: recompute the log-probs of sampled tokens and report the drift."`
	Temperature *float64  `placeholder:"T" help:"Of --model: temperature that the log-probs were sampled at. Default: 1."`
	Show        int       `default:"5" help:"Most differences that are shown."`
	JSON        bool      `name:"json" help:"Print one JSON object instead of text."`
}

// Help shows an example.
func (replayCommand) Help() string {
	return `Derives every prompt again from message log and condense record, and compares it with the one that was trained on.
Exits with 1 if any differs. Of a run directory it replays the saved rollouts; of what condense wrote, the rows (-o) or
the trajectories (--log). With --log every token of rows is compared with the log, responses, masks, log-probs and condense
records too, else what the prompts of rows show of each other.
Chat templates play no part: prompts are put together from token ids.

Example:
  echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}' | infinirl condense - --high 4096 -o - | infinirl replay -`
}

// replayReport is what is told at the end.
type replayReport struct {
	Trajectories int          `json:"trajectories"`
	Prompts      int          `json:"prompts"`
	Matching     int          `json:"matching"`
	Tokens       int          `json:"prompt_tokens"`
	Known        int          `json:"prompt_tokens_compared"`
	Missing      int          `json:"segments_without_row,omitempty"` // of the log
	Mismatches   []difference `json:"mismatches,omitempty"`
	Drift        *drift       `json:"log_prob_drift,omitempty"`
}

// difference is the first place in which a field of a row differs.
type difference struct {
	File         string `json:"file"`
	TrajectoryID string `json:"trajectory_id"`
	InvIter      int    `json:"inv_iter"`
	Field        string `json:"field"`
	Token        int    `json:"token"`
	Message      int    `json:"message"`
	Is           string `json:"is"`
	Derives      string `json:"derives"`
	text         string
}

// drift is how far log-probs computed now are from those recorded, in nats.
type drift struct {
	Tokens int     `json:"tokens"`
	Mean   float64 `json:"mean_abs"`
	P50    float64 `json:"p50_abs"`
	P90    float64 `json:"p90_abs"`
	P99    float64 `json:"p99_abs"`
	Max    float64 `json:"max_abs"`
}

// validate refuses flags that cannot work, and one that would have no effect.
func (c *replayCommand) validate() error {
	switch t := c.Temperature; {
	case c.Show < 0:
		return fmt.Errorf("--show: %d, want at least 0", c.Show)
	case t != nil && c.Model == "":
		return errors.New("--temperature: without effect: only --model recomputes log-probs")
	case t != nil && (*t == 0 || train.ValidTemperature(*t) != nil):
		return fmt.Errorf("--temperature: %v, want the one above 0 that tokens were sampled at, 0.001 to 1000", *t)
	}
	return nil
}

// Run replays all paths.
func (c *replayCommand) Run(ctx context.Context, std streams) error {
	if err := c.validate(); err != nil {
		return badInput(err)
	}
	decode, err := c.decoder()
	if err != nil {
		return err
	}
	logs, err := c.readLog(ctx, std)
	if err != nil {
		return err
	}
	var model learner.Scorer
	if c.Model != "" {
		temperature := 1.0
		if c.Temperature != nil {
			temperature = *c.Temperature
		}
		if model, err = assembly.Scorer(string(c.Model), temperature); err != nil {
			return badInput(fmt.Errorf("--model: %w", err))
		}
	}
	var report replayReport
	var differences []float64
	paths, err := runFiles(c.Paths)
	if err != nil {
		return err
	}
	for _, path := range paths {
		all, err := readRows(ctx, path, std)
		if err != nil {
			return badInput(err)
		}
		for _, rows := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			id := rows[0].TrajectoryID
			replayed, err := replay(rows, logs, c.Log != "")
			if err != nil {
				return badInput(fmt.Errorf("%s: %w", path, err))
			}
			report.Trajectories++
			report.Prompts += replayed.Prompts
			report.Matching += replayed.Matching
			report.Tokens += replayed.Tokens
			report.Known += replayed.Known
			for _, m := range replayed.Mismatches {
				if len(report.Mismatches) < c.Show {
					is, derives := m.GotText, m.WantText
					if is == "" {
						is, derives = decode(m.GotContext), decode(m.WantContext)
					}
					report.Mismatches = append(report.Mismatches, difference{path, m.TrajectoryID, m.InvIter, m.Field, m.Token, m.Message, is, derives, m.String()})
				}
			}
			if model != nil {
				if differences, err = drifts(ctx, differences, model, rows); err != nil {
					return fmt.Errorf("%s: trajectory %s: %w", path, chat.Excerpt(id), err)
				}
			}
		}
	}
	for _, t := range logs {
		if t.Status.Trainable() {
			report.Missing += len(t.Segments)
		}
	}
	report.Missing = max(0, report.Missing-report.Prompts)
	if report.Prompts == 0 {
		return badInput(fmt.Errorf("%s: no segment, and so no prompt to derive", strings.Join(c.Paths, ", ")))
	}
	if model != nil {
		if len(differences) == 0 {
			return badInput(errors.New("--model: no sampled token has a recorded log-prob"))
		}
		report.Drift = quantiles(differences)
	}
	compared := "prompts"
	if c.Log != "" {
		compared = "rows" // all of them, not their prompts alone
	}
	if err := report.print(std.out, c.JSON, compared); err != nil {
		return err
	}
	if report.Matching < report.Prompts {
		return fmt.Errorf("replay: %d of %d %s differ", report.Prompts-report.Matching, report.Prompts, compared)
	}
	return nil
}

func (r *replayReport) print(w io.Writer, asJSON bool, compared string) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	for _, d := range r.Mismatches {
		fmt.Fprintf(w, "%s: %s\n  is      %s\n  derives %s\n", shown(d.File), shown(d.text), shown(d.Is), shown(d.Derives))
	}
	_, err := fmt.Fprintf(w, "%d trajectories: %d of %d %s match, %d of %d prompt tokens were known before and compared\n",
		r.Trajectories, r.Matching, r.Prompts, compared, r.Known, r.Tokens)
	if r.Missing > 0 {
		_, err = fmt.Fprintf(w, "%d segments of the log have no row\n", r.Missing)
	}
	if d := r.Drift; d != nil {
		_, err = fmt.Fprintf(w, "log-prob drift over %d sampled tokens: mean %.3g, median %.3g, 90%% %.3g, 99%% %.3g, max %.3g nats\n",
			d.Tokens, d.Mean, d.P50, d.P90, d.P99, d.Max)
	}
	return err
}

// decoder returns what shows token ids: as text, or as numbers.
func (c *replayCommand) decoder() (func([]int32) string, error) {
	if c.Tokenizer == "" {
		return func(ids []int32) string { return fmt.Sprint(ids) }, nil
	}
	tokenizer, err := assembly.Tokenizer(string(c.Tokenizer))
	if err != nil {
		return nil, badInput(fmt.Errorf("--tokenizer: %w", err))
	}
	return func(ids []int32) string { return fmt.Sprintf("%q", tokenizer.Decode(ids)) }, nil
}

// readLog reads the trajectories of --log by their ids.
func (c *replayCommand) readLog(ctx context.Context, std streams) (map[string]*trajectory.Trajectory, error) {
	if c.Log == "" {
		return nil, nil
	}
	if isFolder(string(c.Log)) {
		return nil, badInput(fmt.Errorf("--log: %s is a directory: want the trajectories that condense --log wrote; the rollouts of a run are replayed without", c.Log))
	}
	r, name, err := openInput(ctx, string(c.Log), std)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	plain := bufio.NewReader(r)
	if err := refuseCompressed(name, plain); err != nil {
		return nil, badInput(fmt.Errorf("--log: %w", err))
	}
	all, err := trajectory.ReadAll(name, plain)
	if err != nil {
		return nil, badInput(fmt.Errorf("--log: want the trajectories that condense --log wrote: %w", err))
	}
	logs := make(map[string]*trajectory.Trajectory, len(all))
	for _, t := range all {
		logs[t.ID] = t
	}
	return logs, nil
}

// runFiles replaces run directories by the batches in them.
func runFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err != nil || !info.IsDir() {
			files = append(files, path)
			continue
		}
		found := len(files)
		err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Base(filepath.Dir(path)) != "rollouts" {
				return err
			}
			if name := entry.Name(); !strings.HasPrefix(name, ".") {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(files) == found {
			return nil, badInput(fmt.Errorf("%s: no batches under rollouts/: of a run the saved rollouts are replayed; train with --set train.save_rollouts=true, or name files that condense -o or --log wrote", path))
		}
	}
	return files, nil
}

// readRows reads the segments of a file, by trajectory.
func readRows(ctx context.Context, path string, std streams) ([][]trajectory.Sample, error) {
	r, name, err := openInput(ctx, path, std)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	plain := bufio.NewReader(r)
	if err := refuseCompressed(name, plain); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if isLog(data) {
		all, err := trajectory.ReadAll(name, bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		var rows [][]trajectory.Sample
		for _, t := range all {
			of, err := t.Samples()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(of) > 0 {
				rows = append(rows, of)
			}
		}
		return rows, nil
	}
	var b *batch.Batch
	if strings.HasSuffix(path, ".safetensors") {
		b, err = batch.ParseSafetensors(data)
	} else {
		b, err = batch.ReadJSONLines(bytes.NewReader(data))
	}
	if err != nil {
		if _, isRun := recorded.Open(name, bytes.NewReader(data)).Next(); isRun == nil {
			return nil, fmt.Errorf("%s: a recording, of which no prompts are known: cut it with infinirl condense %s --high N -o SEGMENTS.jsonl, and replay those", name, path)
		}
		return nil, badContent(name, err)
	}
	groups, err := b.Trajectories()
	if err != nil {
		return nil, badContent(name, err)
	}
	var rows [][]trajectory.Sample
	for _, group := range groups {
		var of []trajectory.Sample
		for _, i := range group.Rows {
			start, end := b.Span(i)
			from := b.Rows[i]
			if start == end && from.Condense == nil {
				continue // of a run that opened no window
			}
			prompt := start + from.PromptLen
			row := trajectory.Sample{TrajectoryID: from.TrajectoryID, InvIter: from.InvIter, Condense: from.Condense,
				Prompt: b.TokenIDs[start:prompt], Response: b.TokenIDs[prompt:end], Mask: b.LossMask[prompt:end]}
			if b.RolloutLogProbs != nil {
				row.LogProbs = b.RolloutLogProbs[prompt:end]
			}
			of = append(of, row)
		}
		if len(of) > 0 {
			rows = append(rows, of)
		}
	}
	return rows, nil
}

// isLog tells whether data begins with a trajectory as condense --log writes it, whatever
// the order and the layout of its fields.
func isLog(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return false
		}
		if name == "form" {
			var form string
			return json.Unmarshal(value, &form) == nil && strings.HasPrefix(form, trajectory.Form)
		}
	}
	return false
}

// refuseCompressed returns the error of a compressed file.
func refuseCompressed(name string, r *bufio.Reader) error {
	start, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(start, []byte("\x1f\x8b")):
		return fmt.Errorf("%s: compressed by gzip: decompress it first, by gunzip -k", name)
	case bytes.Equal(start, []byte("\x28\xb5\x2f\xfd")):
		return fmt.Errorf("%s: compressed by zstd: decompress it first, by zstd -d", name)
	}
	return nil
}

// replay compares the prompts of one trajectory with its log, or if there is none,
// with what its own rows have shown.
func replay(rows []trajectory.Sample, logs map[string]*trajectory.Trajectory, logged bool) (trajectory.Replayed, error) {
	for _, row := range rows {
		if row.Condense == nil {
			return trajectory.Replayed{}, fmt.Errorf("trajectory %s, inv_iter %d: no condense record, from which its prompt could be derived: want rows that condense -o wrote, or rollouts of a run", chat.Excerpt(row.TrajectoryID), row.InvIter)
		}
	}
	if !logged {
		return trajectory.Replay(rows)
	}
	t := logs[rows[0].TrajectoryID]
	if t == nil {
		return trajectory.Replayed{}, fmt.Errorf("trajectory %s is not in the log: want the one of --log that was written together with these rows, or no --log", chat.Excerpt(rows[0].TrajectoryID))
	}
	return t.Replay(rows)
}

// drifts appends the absolute differences between log-probs computed now and those
// recorded, of all sampled tokens of the rows.
func drifts(ctx context.Context, differences []float64, model learner.Scorer, rows []trajectory.Sample) ([]float64, error) {
	for _, row := range rows {
		if row.LogProbs == nil || !slices.Contains(row.Mask, true) {
			continue
		}
		one := &batch.Batch{
			Rows:      []batch.Row{{TrajectoryID: row.TrajectoryID, PromptLen: len(row.Prompt)}},
			TokenIDs:  slices.Concat(row.Prompt, row.Response),
			LossMask:  append(make([]bool, len(row.Prompt)), row.Mask...),
			CuSeqLens: []int64{0, int64(len(row.Prompt) + len(row.Response))},
		}
		logProbs, err := model.LogProbs(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("inv_iter %d: %w", row.InvIter, err)
		}
		for k, sampled := range row.Mask {
			if sampled {
				differences = append(differences, math.Abs(float64(logProbs[len(row.Prompt)+k]-row.LogProbs[k])))
			}
		}
	}
	return differences, nil
}

func quantiles(values []float64) *drift {
	slices.Sort(values)
	d := &drift{Tokens: len(values), Max: values[len(values)-1]}
	for _, v := range values {
		d.Mean += v / float64(len(values))
	}
	at := func(q float64) float64 { return values[int(q*float64(len(values)-1))] }
	d.P50, d.P90, d.P99 = at(.5), at(.9), at(.99)
	return d
}
