package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch/stream"
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
	defer in.Close()
	format, err := outputFormat(c.Format, string(c.Out), in.Format())
	if err != nil {
		return err
	}
	var done stream.Report
	err = writeFile(string(c.Out), std, func(f *os.File) (err error) {
		done, err = stream.Advantages(ctx, in, f, format, cfg)
		return contentIsInput(err)
	})
	if err != nil {
		return err
	}
	reportAdvantages(std.err, &done)
	if c.Out == "-" {
		return nil
	}
	_, err = fmt.Fprintf(std.err, "infinirl: wrote %d rows of %d trajectories to %s\n", done.Rows, done.Trajectories, c.Out)
	return err
}

// reportAdvantages tells what was left out and the first warnings.
func reportAdvantages(w io.Writer, done *stream.Report) {
	const most = 10
	if done.NoValues {
		fmt.Fprintln(w, "infinirl: no values given: 0 stands for each")
	}
	for k, warning := range done.Warnings {
		if k == most {
			fmt.Fprintf(w, "infinirl: and %d more warnings\n", len(done.Warnings)-most)
			break
		}
		fmt.Fprintf(w, "infinirl: warning: %s\n", warning)
	}
	if done.Left.Trajectories > 0 {
		fmt.Fprintf(w, "infinirl: %s\n", &done.Left)
	}
}
