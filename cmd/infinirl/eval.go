package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

type evalCommand struct {
	settings
	Model       string   `help:"Checkpoint file or directory to evaluate." placeholder:"PATH" type:"path" xor:"model"`
	Dir         string   `help:"Run directory: its newest checkpoint, under its own configuration." placeholder:"DIR" name:"run" type:"path" xor:"model"`
	Tasks       *int     `help:"Number of unseen tasks. Default: the configuration's." placeholder:"N"`
	Temperature *float64 `help:"Sampling temperature; 0 is greedy. Default: the configuration's." placeholder:"T"`
	JSON        bool     `help:"Print the result as JSON." name:"json"`
}

func (evalCommand) Help() string {
	return `Plays unseen tasks with a model: the base model of the environment, a checkpoint
(--model) or the newest one of a run (--run).

Example:
  infinirl eval --env keytodoor --tasks 64`
}

func (c *evalCommand) AfterApply() error {
	if c.Temperature != nil {
		if err := train.ValidTemperature(*c.Temperature); err != nil {
			return fmt.Errorf("--temperature %w", err)
		}
	}
	if c.Dir != "" && (c.Config != "" || c.Env != "") {
		return errors.New("--run brings its own configuration: leave out --config and --env")
	}
	return nil
}

func (c *evalCommand) Run(ctx context.Context, std streams) error {
	cfg, err := c.config()
	if err != nil {
		return badInput(err)
	}
	temperature := cfg.Eval.Temperature
	if c.Temperature != nil {
		temperature = *c.Temperature
	}
	progress := std.progress()
	e, err := assembly.Evaluate(ctx, cfg, temperature, progress)
	progress.Close()
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
	fmt.Fprint(table, "environment\ttasks\ttemperature\tsuccess\treturn\tsegments\ttokens")
	names := slices.Sorted(maps.Keys(e.Environment))
	for _, name := range names {
		fmt.Fprint(table, "\t", name)
	}
	fmt.Fprintf(table, "\n%s\t%d\t%g\t%.3f\t%.3f\t%.2f\t%.0f",
		cfg.Env, e.Tasks, e.Temperature, e.Success, e.ReturnMean, e.SegmentsPerTrajectory, e.TokensPerTrajectory)
	for _, name := range names {
		fmt.Fprintf(table, "\t%.3f", e.Environment[name])
	}
	fmt.Fprintln(table)
	return table.Flush()
}

// config returns what is evaluated: the environment's base model, a checkpoint, or
// the newest one of a run under its own configuration.
func (c *evalCommand) config() (cfg config.Config, err error) {
	if c.Dir != "" {
		if cfg, err = config.ReadRun(c.Dir); err != nil {
			return cfg, err
		}
		if cfg.Base, err = assembly.LatestActor(c.Dir); err != nil {
			return cfg, err
		}
		for _, assignment := range c.Set {
			if err := cfg.Set(assignment); err != nil {
				return cfg, err
			}
		}
		if c.Seed != nil {
			cfg.Seed = *c.Seed
		}
	} else if cfg, err = c.load(); err != nil {
		return cfg, err
	}
	if c.Model != "" {
		cfg.Base = c.Model
	}
	if c.Tasks != nil {
		cfg.Eval.Tasks = *c.Tasks
	}
	return cfg, cfg.Validate()
}
