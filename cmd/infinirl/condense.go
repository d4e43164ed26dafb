package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/trajectory"
)

// condenseCommand cuts recorded runs into segments.
type condenseCommand struct {
	Files []string `arg:"" name:"file" help:"Recorded runs, in any form that is known; a folder stands for the recordings in it, - for standard input."`

	Rule            string   `default:"tool-fifo" help:"Condensing rule: none, tool-fifo, tool-clear, window, discard-all or summary."`
	High            int      `required:"" help:"Condense when the window and the reply would exceed this many tokens."`
	Low             *int     `help:"Condense down to this many tokens (half of --high if not given)."`
	KeepLast        *int     `help:"Newest tool rounds that always stay (1; 0 under discard-all and summary)."`
	KeepFirst       int      `default:"0" help:"Oldest tool rounds that always stay."`
	Mode            string   `default:"pair" help:"Of tool-fifo: pair keeps calls with their results, result keeps bare results."`
	ExcludeTools    []string `help:"Tools whose rounds always stay."`
	ClearAtLeast    int      `help:"Tokens that one condensing frees at least, if there is as much to free."`
	ClearToolInputs bool     `help:"Of tool-clear: blank the arguments of calls too."`
	Placeholder     string   `help:"Of tool-clear: what stands in place of a result."`
	CutOversize     bool     `default:"true" negatable:"" help:"Cut the middle out of tool results that do not fit otherwise."`
	SummaryTokens   int      `help:"Of summary: the longest summary (an eighth of --high if not given). Text of that length stands in for each."`
	TrainSummary    bool     `help:"Of summary: make summaries trainable."`
	MaxSegments     int      `help:"End a run after this many segments (0: no bound)."`

	Reply     int    `help:"Tokens reserved for a reply; at least the recorded reply's own."`
	Tokenizer string `default:"bytes" help:"A tokenizer.json of byte-level BPE, or bytes: every byte is a token."`

	Output  outputPath `short:"o" placeholder:"FILE" help:"Write the segments to this file: JSON Lines, or a batch if it ends in .safetensors."`
	Log     outputPath `placeholder:"FILE" help:"Write the trajectories, logs and records, as JSON Lines to this file."`
	JSON    bool       `name:"json" help:"Print JSON, one run a line, instead of tables."`
	Draw    bool       `help:"Draw the segments instead of tables."`
	Compare bool       `help:"Compare all rules side by side."`
}

// Help shows an example.
func (condenseCommand) Help() string {
	return `Prints how a rule cuts recorded runs, segment by segment; with -o writes the segments for training.

Example:
  echo '{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}' | infinirl condense - --high 4096 --draw`
}

// config returns the configuration for a rule.
func (c *condenseCommand) config(rule string) condense.Config {
	config := condense.DefaultFor(rule, c.High)
	if c.Low != nil {
		config.Low = *c.Low
	}
	if c.KeepLast != nil {
		config.KeepLast = *c.KeepLast
	}
	config.KeepFirst, config.ExcludeTools, config.ClearAtLeast = c.KeepFirst, c.ExcludeTools, c.ClearAtLeast
	config.CutOversize, config.MaxSegments = c.CutOversize, c.MaxSegments
	config.Set("mode", c.Mode)
	config.Set("clear_tool_inputs", c.ClearToolInputs)
	config.Set("summary_tokens", c.SummaryTokens)
	config.Set("train_summary", c.TrainSummary)
	if c.Placeholder != "" {
		config.Set("placeholder", c.Placeholder)
	}
	return config
}

// Run cuts every run of every file.
func (c *condenseCommand) Run(ctx context.Context, std streams) error {
	if err := c.config(c.Rule).Validate(); err != nil {
		return badInput(err)
	}
	if err := c.validate(); err != nil {
		return badInput(err)
	}
	for _, path := range []outputPath{c.Output, c.Log} {
		if path == "" {
			continue
		}
		if err := checkOutput(string(path)); err != nil {
			return err
		}
	}
	renderer, err := assembly.Renderer(c.Tokenizer)
	if err != nil {
		return badInput(fmt.Errorf("--tokenizer: %w", err))
	}
	files, err := readFiles(ctx, c.Files, std)
	if err != nil {
		return err
	}
	if err := c.validateFiles(files); err != nil {
		return badInput(err)
	}
	if c.Compare {
		return c.compare(ctx, files, renderer, std.out)
	}
	cuts, err := c.cutAll(ctx, files, renderer, c.config(c.Rule))
	if err != nil {
		return err
	}
	if c.Output != "" {
		if err := writeOutput(string(c.Output), std, func(w io.Writer) error { return writeSegments(w, string(c.Output), cuts) }); err != nil {
			return err
		}
		warnUnearned(std.err, cuts)
	}
	if c.Log != "" {
		all := make([]*trajectory.Trajectory, len(cuts))
		for i := range cuts {
			all[i] = cuts[i].t
		}
		if err := writeOutput(string(c.Log), std, func(w io.Writer) error { return trajectory.WriteAll(w, all) }); err != nil {
			return err
		}
	}
	switch {
	case c.Output == "-" || c.Log == "-":
		return nil
	case c.JSON:
		return printJSON(std.out, cuts)
	}
	return printText(std.out, cuts, c.Draw)
}

// validate refuses flags that contradict each other.
func (c *condenseCommand) validate() error {
	switch {
	case c.Reply < 0 || c.Reply > c.High:
		return fmt.Errorf("--reply: %d, want 0 to %d tokens, what --high allows", c.Reply, c.High)
	case c.Draw && c.JSON:
		return errors.New("--draw and --json: want one of them")
	case c.Draw && c.Compare:
		return errors.New("--draw and --compare: want one of them")
	case c.Compare && (c.Output != "" || c.Log != ""):
		return errors.New("--compare cuts with every rule and writes no segments: leave out -o and --log")
	case (c.Draw || c.JSON) && (c.Output == "-" || c.Log == "-"):
		return errors.New("--draw and --json print to standard output: want a file for -o and --log")
	case c.Output == "-" && c.Log == "-":
		return errors.New("-o and --log: both standard output, want another file for one of them")
	case c.Output != "" && c.Log != "" && sameFile(string(c.Output), string(c.Log)):
		return fmt.Errorf("-o and --log: both %s, want two files", c.Log)
	}
	return nil
}

// validateFiles refuses a recording that is given twice or would be replaced.
func (c *condenseCommand) validateFiles(files []recordedFile) error {
	seen := make(map[string]string, len(files)) // the path of each, as given
	for _, file := range files {
		switch {
		case c.Output != "" && sameFile(file.path, string(c.Output)):
			return fmt.Errorf("-o: %s is a recording that is read: want another file", c.Output)
		case c.Log != "" && sameFile(file.path, string(c.Log)):
			return fmt.Errorf("--log: %s is a recording that is read: want another file", c.Log)
		}
		path := file.path
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = absolute(resolved)
		}
		if before, twice := seen[path]; twice {
			return fmt.Errorf("%s and %s are one recording, want each once", before, file.path)
		}
		seen[path] = file.path
	}
	return nil
}

// recordedFile is a file with the runs in it.
type recordedFile struct {
	path string
	name string // in errors
	runs []recorded.Run
}

// recordingNames are how files with recordings end.
var recordingNames = []string{".json", ".jsonl", ".traj"}

// readFiles reads the recorded runs of all files. Of a folder, files that hold no
// run are passed over, and named on standard error; one file must hold a run.
func readFiles(ctx context.Context, paths []string, std streams) ([]recordedFile, error) {
	var files []recordedFile
	read := func(path string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, name, err := openInput(ctx, path, std)
		if err != nil {
			return err
		}
		defer r.Close()
		runs, err := recorded.Read(name, r)
		if err != nil {
			return badInput(err)
		}
		files = append(files, recordedFile{path, name, runs})
		return nil
	}
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err != nil || !info.IsDir() {
			if err := read(path); err != nil {
				return nil, err
			}
			continue
		}
		before := len(files)
		err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains(recordingNames, filepath.Ext(path)) {
				return err
			}
			if err := read(path); errors.Is(err, recorded.ErrNoRuns) {
				fmt.Fprintf(std.err, "passed over: %v\n", err)
			} else if err != nil {
				return err
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(files) == before {
			return nil, badInput(fmt.Errorf("%s: no recorded runs: want files with them that end in %s", path, strings.Join(recordingNames, ", ")))
		}
	}
	return files, nil
}

// cut is one recorded run after condensing.
type cut struct {
	file   string
	run    recorded.Run
	t      *trajectory.Trajectory
	reason error // why it ended early
}

// cutAll cuts all runs. The name of the file is part of trajectory ids where there
// are several files.
func (c *condenseCommand) cutAll(ctx context.Context, files []recordedFile, renderer chat.Renderer, config condense.Config) ([]cut, error) {
	condenser, err := condense.New(config)
	if err != nil {
		return nil, badInput(err)
	}
	var cuts []cut
	for _, file := range files {
		for _, run := range file.runs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			recording := newRecording(run)
			if len(files) > 1 {
				recording.ID, recording.Group = file.name+":"+recording.ID, file.name+":"+recording.Group
			}
			recording.Reply = c.Reply
			recording.Summarize = func(_ []int32, tokens int) ([]int32, error) { return standIn(renderer, tokens) }
			t, reason, err := trajectory.Recut(recording, renderer, condenser)
			if err != nil {
				return nil, badInput(fmt.Errorf("%s:%d: %w", file.name, run.Line, err))
			}
			t.Score, t.HasScore = run.Score, run.HasScore
			cuts = append(cuts, cut{file: file.name, run: run, t: t, reason: reason})
		}
	}
	return cuts, nil
}

// newRecording prepares a run for cutting.
func newRecording(run recorded.Run) trajectory.Recording {
	recording := trajectory.Recording{ID: run.ID, Group: run.Group, Tools: run.Tools}
	for _, m := range run.Messages {
		recording.Messages = append(recording.Messages, trajectory.RecordedMessage{
			Message: m.Message, IDs: m.IDs, LogProbs: m.LogProbs, NotSampled: m.NotSampled, Task: m.Task,
		})
	}
	return recording
}

// standIn is text of the length of the longest summary: nobody is here to write one.
func standIn(renderer chat.Renderer, tokens int) ([]int32, error) {
	stop := renderer.Stop()[0]
	ids, err := renderer.EncodeText(strings.Repeat("summary ", tokens))
	if err != nil {
		return nil, err
	}
	return append(ids[:max(0, min(len(ids), tokens-len(stop)))], stop...), nil
}

// warnUnearned tells of runs that the rule could not carry to their end: the score
// that their rows have is that of the whole recording.
func warnUnearned(w io.Writer, cuts []cut) {
	early := 0
	for _, c := range cuts {
		if c.reason != nil && c.t.HasScore {
			early++
		}
	}
	if early > 0 {
		fmt.Fprintf(w, "infinirl: %d of %d runs did not fit to their end; their rows carry the score of the whole recording: raise --high, or see --compare for another rule\n", early, len(cuts))
	}
}

// writeSegments writes the segments of all runs as a batch, without the columns
// that recordings do not tell.
func writeSegments(w io.Writer, path string, cuts []cut) error {
	all := make([]*trajectory.Trajectory, len(cuts))
	for i, c := range cuts {
		all[i] = c.t
	}
	b, err := batch.FromTrajectories(all)
	if err != nil {
		return err
	}
	for _, t := range all {
		if len(t.Segments) == 0 { // it never fitted: an empty row tells that it was there, and how it ended
			b.Rows = append(b.Rows, batch.Row{TrajectoryID: t.ID, GroupID: t.GroupID, Status: t.Status, Score: t.Score, HasScore: t.HasScore})
			b.CuSeqLens = append(b.CuSeqLens, int64(b.Tokens()))
		}
	}
	if strings.HasSuffix(path, ".safetensors") {
		return b.WriteSafetensors(w, batch.Plain)
	}
	return b.WriteJSONLines(w)
}
