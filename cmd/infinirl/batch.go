package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/infinirl/infinirl/batch/stream"
)

type batchCommand struct {
	Show    batchShowCommand    `cmd:"" help:"Describe a batch: sizes, columns, segments."`
	Convert batchConvertCommand `cmd:"" help:"Write a batch in another form."`
	Check   batchCheckCommand   `cmd:"" help:"Read batches and tell the first fault of each."`
}

type batchShowCommand struct {
	In           inputPath `arg:"" default:"-" help:"Batch to read: .jsonl or .safetensors; - is standard input, either form."`
	Trajectories int       `default:"10" help:"Number of trajectories to describe."`
	JSON         bool      `name:"json" help:"Print one JSON object instead of text."`
}

func (batchShowCommand) Help() string {
	return `Prints the size of a batch, its columns, and for its first trajectories every
segment: the length of the prompt and the runs of the response, +n tokens that
are trained, -n tokens that are not.

Example:
  echo '{"trajectory_id":"t","inv_iter":0,"prompt_ids":[1,2],"response_ids":[5,6,7],"loss_mask":[1,1,0],"score":1}' | infinirl batch show`
}

func (c *batchShowCommand) Run(ctx context.Context, std streams) error {
	if c.Trajectories < 0 {
		return badInput(fmt.Errorf("--trajectories: %d, want at least 0", c.Trajectories))
	}
	b, _, err := readBatch(ctx, string(c.In), std)
	if err != nil {
		return err
	}
	summary, err := b.Summarize(c.Trajectories)
	if err != nil {
		return badContent(inputName(c.In), err)
	}
	if c.JSON {
		e := json.NewEncoder(std.out)
		e.SetEscapeHTML(false)
		return e.Encode(summary)
	}
	return summary.WriteText(std.out)
}

type batchConvertCommand struct {
	In     inputPath  `arg:"" default:"-" help:"Batch to read: .jsonl or .safetensors; - is standard input, either form."`
	Out    outputPath `short:"o" default:"-" placeholder:"FILE" help:"Batch to write: .jsonl or .safetensors; - is standard output."`
	Format string     `enum:"auto,jsonl,safetensors,packed" default:"auto" help:"Form to write: ${enum}. auto goes by the name of the output, else it is the form of the input."`
}

func (batchConvertCommand) Help() string {
	return `JSON Lines and plain safetensors hold the same to the last bit. The packed form is
about half as big and keeps float columns at trainable tokens only.

Example:
  echo '{"trajectory_id":"t","inv_iter":0,"response_ids":[5],"loss_mask":[1],"score":1}' | infinirl batch convert --format packed | infinirl batch convert --format jsonl`
}

func (c *batchConvertCommand) Run(ctx context.Context, std streams) error {
	if err := checkOutput(string(c.Out)); err != nil {
		return err
	}
	if err := checkFormat(c.Format, c.Out); err != nil {
		return err
	}
	b, input, err := readBatch(ctx, string(c.In), std)
	if err != nil {
		return err
	}
	format, err := outputFormat(c.Format, string(c.Out), input)
	if err != nil {
		return err
	}
	return writeFile(string(c.Out), std, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<20)
		if err := stream.Write(ctx, w, b, format); err != nil {
			return err
		}
		return w.Flush()
	})
}

type batchCheckCommand struct {
	Files []inputPath `arg:"" name:"file" help:"Batches to read: .jsonl or .safetensors; - is standard input, either form."`
}

func (batchCheckCommand) Help() string {
	return `Checks the form of each batch, that every trajectory has all of its segments once,
that its rows agree on group, status, score, success and error, that no token id is
negative, that no trainable token has a NaN, an infinity or a log-prob above 0, that
bootstrap values are finite and policy versions not negative. Prints a line for each
good file; stops at the first bad one.

Example:
  echo '{"trajectory_id":"t","inv_iter":0,"response_ids":[5],"loss_mask":[1],"score":1}' | infinirl batch check -`
}

func (c *batchCheckCommand) Run(ctx context.Context, std streams) error {
	for _, file := range c.Files {
		path := string(file)
		b, _, err := readBatch(ctx, path, std)
		if err != nil {
			return err
		}
		if err := b.CheckTokenIDs(); err != nil {
			return badInput(fmt.Errorf("%s: %w", path, err))
		}
		if err := b.CheckFinite(); err != nil {
			return badInput(fmt.Errorf("%s: %w", path, err))
		}
		if err := b.CheckRanges(); err != nil {
			return badInput(fmt.Errorf("%s: %w", path, err))
		}
		trajectories, err := b.Trajectories()
		if err != nil {
			return badInput(fmt.Errorf("%s: %w", path, err))
		}
		if _, err := fmt.Fprintf(std.out, "%s: %d rows, %d trajectories, %d tokens\n", path, len(b.Rows), len(trajectories), b.Tokens()); err != nil {
			return err
		}
	}
	return nil
}
