package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/batch/stream"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/token"
)

// condenseCommand cuts recorded runs into segments.
type condenseCommand struct {
	Files []string `arg:"" name:"file" help:"Recorded runs, in any form that is known; a folder stands for the recordings in it, - for standard input."`

	Rule            string    `default:"tool-fifo" help:"Condensing rule: none, tool-fifo, tool-clear, window, discard-all or summary."`
	High            int       `required:"" help:"Condense when the window and the reply would exceed this many tokens."`
	Low             *int      `help:"Condense down to this many tokens (half of --high if not given)."`
	KeepLast        *int      `help:"Newest tool rounds that always stay (1; 0 under discard-all and summary)."`
	KeepFirst       int       `default:"0" help:"Oldest tool rounds that always stay."`
	Mode            string    `default:"pair" help:"Of tool-fifo: pair keeps calls with their results, result keeps bare results."`
	ExcludeTools    []string  `help:"Tools whose rounds always stay."`
	ClearAtLeast    int       `help:"Tokens that one condensing frees at least, if there is as much to free."`
	ClearToolInputs bool      `help:"Of tool-clear: blank the arguments of calls too."`
	Placeholder     givenText `placeholder:"TEXT" help:"Of tool-clear: what stands in place of a result."`
	CutOversize     bool      `default:"true" negatable:"" help:"Cut the middle out of tool results that do not fit otherwise."`
	SummaryTokens   int       `help:"Of summary: the longest summary (an eighth of --high if not given). Text of that length stands in for each."`
	TrainSummary    bool      `help:"Of summary: make summaries trainable."`
	MaxSegments     int       `help:"End a run after this many segments (0: no bound)."`

	Reply            int               `help:"Tokens reserved for a reply; at least the recorded reply's own."`
	Tokenizer        givenText         `default:"bytes" help:"A tokenizer.json of byte-level BPE or a folder with one, or bytes: every byte is a token."`
	ChatTemplate     givenText         `placeholder:"FILE" help:"Chat template that writes the messages: a Jinja file, a tokenizer_config.json, the folder of a Hugging Face model, or auto: the one beside the tokenizer. ChatML if not given."`
	TemplateVariable map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"Variable of the chat template, e.g. enable_thinking=false. Repeatable."`
	CallFormat       givenText         `placeholder:"NAME" help:"How calls are written: hermes, qwen3-coder, llama3-json, search-r1 or none. What the chat template writes if not given."`

	GroupBy fieldName `placeholder:"FIELD" help:"Field of a recording that names the group of a run; dotted: meta.task."`
	Score   fieldName `placeholder:"FIELD" help:"Field of a recording that holds its score."`
	Scores  inputPath `placeholder:"FILE" help:"Scores by the ids of runs: JSON Lines {\"id\": ..., \"score\": ...}, or CSV with the columns id and score."`

	Output  outputPath `short:"o" placeholder:"FILE" help:"Write the segments to this file: .jsonl, or .safetensors; - is standard output."`
	Log     outputPath `placeholder:"FILE" help:"Write the trajectories, logs and records, as JSON Lines to this file."`
	Verbose bool       `short:"v" help:"Print tables beside -o and --log too, not only a summary."`
	JSON    bool       `name:"json" help:"Print JSON, one run a line, instead of tables."`
	Draw    bool       `help:"Draw the segments instead of tables."`
	Compare bool       `help:"Compare all rules side by side."`
}

// Help shows an example.
func (condenseCommand) Help() string {
	return `Prints how a rule cuts recorded runs, segment by segment; with -o writes the segments for training.
Reads run by run: files may be of any size, and compressed by gzip or zstd.

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
		config.Set("placeholder", string(c.Placeholder))
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
	tokenizer, renderer, err := c.renderer()
	if err != nil {
		return badInput(err)
	}
	scores, err := readScores(ctx, string(c.Scores), std)
	if err != nil {
		return err
	}
	recordings, err := findRecordings(ctx, c.Files, std)
	if err != nil {
		return err
	}
	if err := c.validateRecordings(recordings); err != nil {
		return badInput(err)
	}
	format := stream.JSONLines
	if c.Output != "" && c.Output != "-" {
		if format, err = stream.FormatOf(string(c.Output)); err != nil {
			return badInput(fmt.Errorf("-o: %w", err))
		}
	}
	told := &tally{bytes: c.Tokenizer == "bytes", trainSummaries: c.TrainSummary, scores: scores}
	runs := &runReader{recordings: recordings, options: recorded.Options{GroupBy: string(c.GroupBy), Score: string(c.Score)}, scores: scores, tally: told}
	if !told.bytes {
		runs.vocabulary = tokenizer.Size()
	}
	if c.Compare {
		return c.compare(ctx, std, runs, renderer)
	}
	cutter, err := c.cutter(renderer, c.Rule)
	if err != nil {
		return err
	}
	err = withOutput(string(c.Output), std, func(out *os.File) error {
		return withOutput(string(c.Log), std, func(log *os.File) error {
			return c.cutAll(ctx, std, runs, cutter, newSegmentWriter(out, format), newLogWriter(log))
		})
	})
	if err != nil {
		return err
	}
	if !c.prints() {
		w := std.out
		if c.Output == "-" || c.Log == "-" {
			w = std.err
		}
		if _, err := fmt.Fprintln(w, told.summary()); err != nil {
			return err
		}
	}
	told.print(std.err)
	return nil
}

// withOutput is writeFile of a file that may be none.
func withOutput(path string, std streams, write func(*os.File) error) error {
	if path == "" {
		return write(nil)
	}
	return writeFile(path, std, write)
}

// prints tells whether every run is printed, and not a summary alone.
func (c *condenseCommand) prints() bool {
	return c.Verbose || c.Draw || c.JSON || c.Output == "" && c.Log == ""
}

// cutAll cuts all runs; each is printed and written as it comes.
func (c *condenseCommand) cutAll(ctx context.Context, std streams, runs *runReader, cutter *cutter, segments *segmentWriter, log *logWriter) error {
	defer segments.close()
	print := func(*cut) error { return nil }
	switch {
	case c.JSON:
		print = printJSON(std.out)
	case c.prints():
		print = func(one *cut) error { return printText(std.out, one, c.Draw) }
	default:
		progress := std.progress()
		defer progress.Close()
		runs.progress = progress
	}
	told := runs.tally
	err := runs.each(ctx, std, func(run *recorded.Run, file string) error {
		one, err := cutter.cut(run, file)
		if err != nil {
			return badInput(err)
		}
		told.add(one)
		if err := segments.add(one.t); err != nil {
			return err
		}
		if err := log.add(one.t); err != nil {
			return err
		}
		return print(one)
	})
	if err != nil {
		return err
	}
	if err := segments.finish(ctx); err != nil {
		return err
	}
	told.segments = segments
	if err := log.finish(); err != nil {
		return err
	}
	if c.prints() && !c.JSON {
		_, err = fmt.Fprintln(std.out, told.summary())
	}
	return err
}

// renderer returns the tokenizer and the renderer that the flags name.
func (c *condenseCommand) renderer() (token.Tokenizer, chat.Renderer, error) {
	variables := make(map[string]any, len(c.TemplateVariable))
	for name, text := range c.TemplateVariable {
		variables[name] = text
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			variables[name] = n
		} else if text == "true" || text == "false" {
			variables[name] = text == "true"
		}
	}
	tokenizer, renderer, err := assembly.Renderer(string(c.Tokenizer), assembly.ChatTemplate{Name: string(c.ChatTemplate), CallFormat: string(c.CallFormat), Variables: variables})
	if err != nil {
		return nil, nil, fmt.Errorf("--%w", err)
	}
	if c.Mode == "result" && (c.Rule == "tool-fifo" || c.Compare) {
		if err := assembly.TakesBareResults(renderer); err != nil {
			return nil, nil, fmt.Errorf("--mode result: the chat template refuses results whose calls are not shown, want --mode pair: %w", err)
		}
	}
	return tokenizer, renderer, nil
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
	case (c.Draw || c.JSON || c.Verbose) && (c.Output == "-" || c.Log == "-"):
		return errors.New("--draw, --json and --verbose print to standard output: want a file for -o and --log")
	case c.Output == "-" && c.Log == "-":
		return errors.New("-o and --log: both standard output, want another file for one of them")
	case c.Output != "" && c.Log != "" && sameFile(string(c.Output), string(c.Log)):
		return fmt.Errorf("-o and --log: both %s, want two files", c.Log)
	case slices.Contains(c.ExcludeTools, ""):
		return errors.New("--exclude-tools: a name is empty")
	case c.Scores != "" && c.Score != "":
		return errors.New("--score and --scores: want one of them")
	case c.Scores == "-" && slices.Contains(c.Files, "-"):
		return errors.New("--scores: standard input holds the recorded runs: want a file")
	}
	return c.idle()
}

// idle refuses a flag that the rule does not read: whoever gives it expects an effect.
func (c *condenseCommand) idle() error {
	rule, err := condense.Lookup(c.Rule)
	if err != nil || c.Compare { // which runs every rule
		return err
	}
	for _, f := range []struct {
		flag, option string
		given        bool
	}{
		{"--mode", "mode", c.Mode != condense.Pair},
		{"--placeholder", "placeholder", c.Placeholder != ""},
		{"--clear-tool-inputs", "clear_tool_inputs", c.ClearToolInputs},
		{"--summary-tokens", "summary_tokens", c.SummaryTokens != 0},
		{"--train-summary", "train_summary", c.TrainSummary},
	} {
		if _, known := rule.Options[f.option]; !known && f.given {
			return fmt.Errorf("%s: without effect: rule %s does not read it, want --rule %s", f.flag, c.Rule, strings.Join(rulesWith(f.option), " or "))
		}
	}
	if c.Rule != condense.None {
		return nil
	}
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"--low", c.Low != nil}, {"--keep-last", c.KeepLast != nil}, {"--keep-first", c.KeepFirst != 0}, {"--exclude-tools", len(c.ExcludeTools) > 0},
		{"--clear-at-least", c.ClearAtLeast != 0}, {"--no-cut-oversize", !c.CutOversize}, {"--max-segments", c.MaxSegments != 0},
	} {
		if f.given {
			return fmt.Errorf("%s: without effect: rule none never condenses", f.flag)
		}
	}
	return nil
}

// rulesWith lists the rules that have an option.
func rulesWith(option string) []string {
	return slices.DeleteFunc(condense.Rules(), func(name string) bool {
		rule, err := condense.Lookup(name)
		_, known := rule.Options[option]
		return err != nil || !known
	})
}

// validateRecordings refuses a recording that is given twice or would be replaced.
func (c *condenseCommand) validateRecordings(recordings []recording) error {
	seen := make(map[string]string, len(recordings)) // the path of each, as given
	for _, r := range recordings {
		switch {
		case c.Output != "" && sameFile(r.path, string(c.Output)):
			return fmt.Errorf("-o: %s is a recording that is read: want another file", c.Output)
		case c.Log != "" && sameFile(r.path, string(c.Log)):
			return fmt.Errorf("--log: %s is a recording that is read: want another file", c.Log)
		}
		path := r.path
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = absolute(resolved)
		}
		if before, twice := seen[path]; twice {
			return fmt.Errorf("%s and %s are one recording, want each once", before, r.path)
		}
		seen[path] = r.path
	}
	return nil
}
