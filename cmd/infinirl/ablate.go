package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/infinirl/infinirl/ablation"
	"github.com/infinirl/infinirl/train"
)

type ablateCommand struct {
	settings
	Seeds int    `help:"Number of seeds, counted up from the configuration's." default:"3"`
	Dir   string `help:"Directory for the runs; it must not exist. Default: runs/ablate-ENV-TIME." placeholder:"DIR" name:"run" type:"path"`
}

func (ablateCommand) Help() string {
	return `Trains from one base model with cross-segment GAE, per-segment GAE, the outcome
broadcast to every token, and cross-segment GAE in a window that never fills.
Prints a table; writes ablation.json and the learning curves as curves.svg.

Example:
  infinirl ablate --env keytodoor --seeds 1 --set train.steps=2 --run runs/ablation`
}

func (c *ablateCommand) AfterApply() error {
	if c.Seeds < 1 {
		return fmt.Errorf("--seeds %d: want 1 or more", c.Seeds)
	}
	return nil
}

func (c *ablateCommand) Run(ctx context.Context, std streams) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	dir := c.Dir
	if dir == "" {
		dir = filepath.Join("runs", "ablate-"+cfg.Env+"-"+time.Now().Format("20060102-150405"))
	}
	methods := ablation.Methods()
	result, err := ablation.Run(ctx, cfg, methods, c.Seeds, dir, std.progress())
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; what was trained so far is in %s", dir)
	case errors.Is(err, fs.ErrExist), errors.Is(err, train.ErrInput):
		return badInput(err)
	case err != nil:
		return err
	}
	if err := result.Table(std.out, methods); err != nil {
		return err
	}
	_, err = fmt.Fprintln(std.out, filepath.Join(dir, "ablation.json"))
	return err
}
