package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/infinirl/infinirl/train"
)

type evalCommand struct {
	settings
	Model       string  `help:"Checkpoint file or directory to evaluate." placeholder:"PATH" type:"path" xor:"model"`
	Dir         string  `help:"Run directory: its newest checkpoint, under its own configuration." placeholder:"DIR" name:"run" type:"path" xor:"model"`
	Tasks       int     `help:"Number of unseen tasks. Default: the configuration's." placeholder:"N"`
	Temperature float64 `help:"Sampling temperature; 0 is greedy." default:"1"`
	JSON        bool    `help:"Print the result as JSON." name:"json"`
}

func (evalCommand) Help() string {
	return `Plays unseen tasks with a model: the base model of the environment, a checkpoint
(--model) or the newest one of a run (--run).

Example:
  infinirl eval --env keytodoor --tasks 64`
}

func (c *evalCommand) AfterApply() error {
	if c.Tasks < 0 {
		return fmt.Errorf("--tasks %d: want 1 or more", c.Tasks)
	}
	if c.Temperature < 0 {
		return fmt.Errorf("--temperature %v: want 0 or more", c.Temperature)
	}
	if c.Dir != "" && (c.Config != "" || c.Env != "") {
		return errors.New("--run brings its own configuration: leave out --config and --env")
	}
	return nil
}

func (c *evalCommand) Run(ctx context.Context, std streams) error {
	model := c.Model
	if c.Dir != "" {
		var err error
		if c.Config, model, err = train.RunFiles(c.Dir); err != nil {
			return badInput(err)
		}
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if model != "" {
		cfg.Base = model
	}
	if c.Tasks > 0 {
		cfg.Eval.Tasks = c.Tasks
	}
	e, err := train.Evaluate(ctx, cfg, c.Temperature, std.progress())
	if errors.Is(err, train.ErrInput) {
		return badInput(err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(std.out).Encode(e)
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "environment\ttasks\ttemperature\tsuccess\tsegments\ttokens\n%s\t%d\t%g\t%.3f\t%.2f\t%.0f\n",
		cfg.Env, e.Tasks, e.Temperature, e.Success, e.SegmentsPerTrajectory, e.TokensPerTrajectory)
	return table.Flush()
}
