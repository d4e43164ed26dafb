package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch/stream"
	"github.com/infinirl/infinirl/terminal"
)

type advantageCommand struct {
	In  inputPath  `arg:"" default:"-" help:"Batch to read: .jsonl or .safetensors; - is standard input, either form."`
	Out outputPath `short:"o" default:"-" placeholder:"FILE" help:"Batch to write: .jsonl or .safetensors; - is standard output."`

	Format       string      `enum:"auto,jsonl,safetensors,packed" default:"auto" help:"Form to write: ${enum}. auto goes by the name of the output, else it is the form of the input."`
	Estimator    string      `default:"gae" help:"Way to assign credit, from the list above."`
	Compare      methodNames `placeholder:"NAME" help:"Print, in place of a batch, what these estimators say of it, and where they differ from the first of them."`
	Gamma        float64     `default:"1" help:"Discount a trainable token."`
	Lambda       *float64    `placeholder:"λ" help:"λ of the advantages. Default: 0.95, or 1 where the batch has no values."`
	CriticLambda float64     `default:"1" help:"λ of the returns."`
	LambdaAlpha  float64     `default:"0" help:"If above 0, λ of the advantages is 1 − 1/(α·trainable tokens of the trajectory)."`
	Whiten       bool        `help:"Bring the advantages to mean 0 and variance 1 over the batch."`
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

// The λ of the advantages where none is given. A value that is learnt takes the place of
// a far reward, so λ below 1 costs little and calms the noise. Where there are no values, 0
// stands for each, and λ^n is all that is left of a reward n tokens away.
const (
	defaultLambda       = 0.95
	lambdaWithoutValues = 1
)

func (c *advantageCommand) Run(ctx context.Context, std streams) error {
	cfg := advantage.Config{Estimator: c.Estimator, Gamma: c.Gamma, Lambda: defaultLambda, CriticLambda: c.CriticLambda, LambdaAlpha: c.LambdaAlpha, Whiten: c.Whiten}
	withoutValues := cfg
	withoutValues.Lambda = lambdaWithoutValues
	if c.Lambda != nil {
		cfg.Lambda, withoutValues.Lambda = *c.Lambda, *c.Lambda
	}
	if err := cfg.Validate(); err != nil {
		return badInput(err)
	}
	if len(c.Compare) > 0 {
		return c.compare(ctx, std, cfg, withoutValues)
	}
	if err := checkOutput(string(c.Out)); err != nil {
		return err
	}
	if err := checkFormat(c.Format, c.Out); err != nil {
		return err
	}
	in, err := openBatch(ctx, string(c.In), std)
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
		done, err = stream.Advantages(ctx, in, f, format, cfg, withoutValues)
		return contentIsInput(err)
	})
	if err != nil {
		return err
	}
	if done.NoValues {
		c.tellLambda(std)
	}
	reportAdvantages(std, &done)
	if c.Out != "-" {
		std.note("wrote %d rows of %d trajectories to %s", done.Rows, done.Trajectories, c.Out)
	}
	return nil
}

// compare prints where estimators differ on a batch.
func (c *advantageCommand) compare(ctx context.Context, std streams, cfg, withoutValues advantage.Config) error {
	if c.Out != "-" {
		return badInput(fmt.Errorf("--out %s: --compare prints a table and writes no batch: want one of them", c.Out))
	}
	if c.Estimator != "gae" {
		return badInput(fmt.Errorf("--estimator %s: without effect: --compare names the estimators", c.Estimator))
	}
	reads := false
	for _, name := range c.Compare {
		estimator, err := advantage.Lookup(name)
		if err != nil {
			return badInput(err)
		}
		reads = reads || estimator.Values
	}
	b, _, err := readBatch(ctx, string(c.In), std)
	if err != nil {
		return err
	}
	left, err := stream.KeepTrainable(b)
	if err != nil {
		return badContent(string(c.In), err)
	}
	if reads && b.Values == nil {
		cfg = withoutValues
		c.tellLambda(std)
	}
	compared, err := advantage.Compare(b, cfg, c.Compare)
	if err != nil {
		return badContent(string(c.In), err)
	}
	table := terminal.Table{Header: []string{"advantages", "mean", "std", "correlation", "other sign", "differ"}}
	for _, e := range compared {
		correlation := "-" // one of the two is constant
		if !math.IsNaN(e.Correlation) {
			correlation = fmt.Sprintf("%.3f", e.Correlation)
		}
		if math.Abs(e.Mean) < 1e-6*e.Std { // rounding
			e.Mean = 0
		}
		table.Add(e.Estimator, fmt.Sprintf("%.4g", e.Mean), fmt.Sprintf("%.4g", e.Std), correlation, fmt.Sprintf("%.1f%%", 100*e.OtherSign), fmt.Sprintf("%.1f%%", 100*e.Differs))
	}
	if err := table.Write(std.out); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(std.out, "of the trainable tokens, against %s; differ: by more than a thousandth of its std\n", c.Compare[0]); err != nil {
		return err
	}
	if left.Trajectories > 0 {
		std.note("%s", &left)
	}
	return nil
}

// tellLambda says which λ a batch without values got, and warns of one that lets credit
// vanish.
func (c *advantageCommand) tellLambda(std streams) {
	const none = "no values given: 0 stands for each"
	switch {
	case c.LambdaAlpha > 0:
		std.note("%s, and λ is as --lambda-alpha %v says", none, c.LambdaAlpha)
		std.warn("--lambda-alpha %v without values: a token n tokens before the reward gets λ^n of it: leave the flag out for λ = 1", c.LambdaAlpha)
	case c.Lambda == nil:
		std.note("%s, and λ is %v, not %v: a token n tokens before the reward gets λ^n of it", none, lambdaWithoutValues, defaultLambda)
	default:
		std.note("%s, and λ is %v as --lambda says", none, *c.Lambda)
		if *c.Lambda < 1 {
			std.warn("--lambda %[1]v without values: a token n tokens before the reward gets %[1]v^n of it: leave the flag out for λ = 1", *c.Lambda)
		}
	}
	if c.CriticLambda < 1 {
		std.warn("--critic-lambda %[1]v without values: the return of a token n tokens before the reward is %[1]v^n of it: leave the flag out for λ = 1", c.CriticLambda)
	}
}

// reportAdvantages tells what was left out and the first warnings.
func reportAdvantages(std streams, done *stream.Report) {
	const most = 10
	for k, warning := range done.Warnings {
		if k == most {
			std.note("and %d more warnings", len(done.Warnings)-most)
			break
		}
		std.warn("%s", warning)
	}
	if done.Left.Trajectories > 0 {
		std.note("%s", &done.Left)
	}
}
