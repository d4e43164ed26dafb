package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/terminal"
	"github.com/infinirl/infinirl/train"
)

type evalCommand struct {
	settings
	Model       modelName    `help:"What to evaluate: a checkpoint, the folder of a Hugging Face model, or with --learner tinker the name of a model on the server." placeholder:"PATH" xor:"model"`
	Dir         absolutePath `help:"Run directory: its newest checkpoint, under its own configuration." placeholder:"DIR" name:"run" xor:"model"`
	Count       *int         `help:"Number of unseen tasks. Default: the configuration's." placeholder:"N"`
	Temperature *float64     `help:"Sampling temperature; 0 is greedy. Default: the configuration's." placeholder:"T"`
	JSON        bool         `help:"Print the result as one JSON object instead of a table." name:"json"`
}

func (evalCommand) Help() string {
	return `Plays unseen tasks with a model: the base model of the environment, a checkpoint
(--model) or the newest one of a run (--run).

Example:
  infinirl eval --env keytodoor --count 64`
}

func (c *evalCommand) AfterApply() error {
	if c.Temperature != nil {
		if err := train.ValidTemperature(*c.Temperature); err != nil {
			return fmt.Errorf("--temperature %w", err)
		}
	}
	if c.Dir != "" && (c.Config != "" || c.Env != "" || len(c.assignments()) > 0) {
		return errors.New("--run brings its own configuration: leave out all flags but --set, --seed, --count, --temperature and --json")
	}
	return nil
}

func (c *evalCommand) Run(ctx context.Context, std streams) error {
	cfg, checkpoint, err := c.config()
	if err != nil {
		return badInput(err)
	}
	temperature := cfg.Eval.Temperature
	if c.Temperature != nil {
		temperature = *c.Temperature
	}
	progress := std.progress()
	e, err := assembly.Evaluate(ctx, cfg, checkpoint, temperature, progress)
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
	table := terminal.Table{Header: []string{"environment", "tasks", "failed", "temperature", "success", "return", "segments", "tokens"},
		Styles: map[int]terminal.Style{4: terminal.Green}}
	if e.Failed > 0 {
		table.Styles[2] = terminal.Red
	}
	table.Add(cfg.Env, fmt.Sprint(e.Tasks), fmt.Sprint(e.Failed), fmt.Sprintf("%g", e.Temperature), fmt.Sprintf("%.3f", e.Success),
		fmt.Sprintf("%.3f", e.ReturnMean), fmt.Sprintf("%.2f", e.SegmentsPerTrajectory), fmt.Sprintf("%.0f", e.TokensPerTrajectory))
	if err := table.Write(std.out); err != nil || len(e.Environment) == 0 {
		return err
	}
	var counted []string // by the environment, beside the reward
	for _, name := range slices.Sorted(maps.Keys(e.Environment)) {
		counted = append(counted, fmt.Sprintf("%s %.3f", name, e.Environment[name]))
	}
	_, err = fmt.Fprintln(std.out, strings.Join(counted, ", "))
	return err
}

// config returns what is evaluated: the environment's base model, a checkpoint, or
// the newest one of a run under its own configuration.
func (c *evalCommand) config() (cfg config.Config, checkpoint string, err error) {
	if c.Dir != "" {
		if cfg, err = config.ReadRun(string(c.Dir)); err != nil {
			return cfg, "", err
		}
		if cfg, checkpoint, err = assembly.Newest(cfg, string(c.Dir)); err != nil {
			return cfg, "", err
		}
		for _, assignment := range c.Set {
			if err := override(&cfg, assignment); err != nil {
				return cfg, "", err
			}
		}
		if c.Seed != nil {
			cfg.Seed = *c.Seed
		}
	} else if cfg, err = c.merge(c.Set); err != nil {
		return cfg, "", err
	}
	if c.Model != "" {
		if cfg.Learner.Engine == config.EngineTinker {
			cfg.Learner.Tinker.Model = string(c.Model)
		} else {
			cfg.Base = kong.ExpandPath(string(c.Model))
		}
	}
	if c.Count != nil {
		cfg.Eval.Tasks = *c.Count
	}
	cfg, err = c.validated(cfg, nil)
	return cfg, checkpoint, err
}
