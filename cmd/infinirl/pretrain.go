package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

type pretrainCommand struct {
	settings
	Base   absolutePath `help:"Model that learns how the environment is played, instead of a fresh small one: the folder of a Hugging Face model." placeholder:"DIR"`
	Output absolutePath `short:"o" help:"Where the checkpoint goes: a file, or with --base a folder, which is a Hugging Face model's too." placeholder:"PATH" required:""`
}

func (pretrainCommand) Help() string {
	return `Makes the base model of an environment by cloning a scripted demonstrator that
knows the format and errs. The same command writes the same bytes on the same
machine.

Example:
  infinirl pretrain --env keytodoor -o keytodoor.safetensors`
}

func (c *pretrainCommand) Run(ctx context.Context, std streams) error {
	cfg, err := c.loadForAll()
	if err != nil {
		return err
	}
	cfg.Base = cmp.Or(string(c.Base), cfg.Base)
	if err := assembly.CheckPretrain(cfg); err != nil {
		return badInput(err)
	}
	if err := c.checkOutput(cfg); err != nil { // now, not after minutes
		return err
	}
	progress := std.progress()
	start := time.Now()
	const every = 50
	var losses float64
	report := func(step, steps int, loss float64, tokens int) {
		losses += loss / every
		if step%every == 0 {
			elapsed := time.Since(start).Seconds()
			left := time.Duration(elapsed / float64(step) * float64(steps-step) * float64(time.Second)).Round(time.Second)
			progress.Printf("step %d/%d: loss %.4f, %.1f M tokens, %.0f tokens/s, %s left",
				step, steps, losses, float64(tokens)/1e6, float64(tokens)/elapsed, left)
			losses = 0
		}
		progress.Status("cloning", step, steps)
	}
	model, err := assembly.Pretrain(ctx, cfg, report)
	progress.Close()
	if errors.Is(err, train.ErrInput) {
		return badInput(err)
	}
	if err != nil {
		return err
	}
	if cfg.Base != "" {
		if err := assembly.SaveModel(cfg, model, string(c.Output)); err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.out, "%s: %d parameters\n", c.Output, model.NumParameters())
		return err
	}
	data, err := model.Marshal()
	if err != nil {
		return err
	}
	if err := writeOutput(string(c.Output), std, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s: %d parameters, %d bytes\n", c.Output, model.NumParameters(), len(data))
	return err
}

// checkOutput refuses what cannot be written, or would be written over.
func (c *pretrainCommand) checkOutput(cfg config.Config) error {
	if cfg.Base == "" {
		return checkOutput(string(c.Output))
	}
	tried := errors.New("it can be made")
	err := train.CreateDirectory(string(c.Output), func(string) error { return tried })
	switch {
	case errors.Is(err, tried):
		return nil
	case errors.Is(err, fs.ErrExist):
		return badInput(fmt.Errorf("-o %s: it exists: want a new folder", c.Output))
	case errors.Is(err, train.ErrInput):
		return badInput(fmt.Errorf("-o %s: %w", c.Output, err))
	}
	return err
}
