package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/terminal"
	"github.com/infinirl/infinirl/train"
)

type trainCommand struct {
	settings
	Base   absolutePath `help:"Model to start from instead of the embedded base model: a checkpoint, or the folder of a Hugging Face model." placeholder:"PATH"`
	Model  modelName    `help:"Model to start from on a server, as the server names it (learner.tinker.model)." placeholder:"NAME"`
	Dir    absolutePath `help:"Run directory; it must not exist. Default: runs/ENV-TIME." placeholder:"DIR" name:"run"`
	Resume bool         `help:"Go on with the run in --run, with its own configuration."`
	JSON   bool         `help:"Print summary.json on one line instead of a table." name:"json"`
}

func (trainCommand) Help() string {
	return `Trains an agent past its context window: rollouts cut by the condenser, credit
carried across the cuts, PPO. Starts from a cloned base model and evaluates on
unseen tasks before and after.

Example:
  infinirl train --env keytodoor --set train.steps=2 --run runs/first`
}

func (c *trainCommand) AfterApply() error {
	if c.Resume && c.Dir == "" {
		return errors.New("--resume: which run? name its directory with --run DIR")
	}
	if c.Resume && (c.given() || c.Base != "" || c.Model != "") {
		return errors.New("--resume: the run goes on with its own configuration: leave out --config, --set and all other flags but --run and --json")
	}
	return nil
}

func (c *trainCommand) Run(ctx context.Context, std streams) error {
	var overrides []string
	if c.Base != "" {
		overrides = append(overrides, assign("base", c.Base))
	}
	if c.Model != "" {
		overrides = append(overrides, assign("learner.tinker.model", c.Model))
	}
	cfg, err := c.load(overrides...)
	if err != nil {
		return err
	}
	dir := string(c.Dir)
	if dir == "" {
		dir = filepath.Join("runs", cfg.Env+"-"+time.Now().Format("20060102-150405"))
	}
	progress := std.progress()
	var summary *train.Summary
	if c.Resume {
		summary, err = assembly.Resume(ctx, dir, progress)
	} else {
		summary, err = assembly.Train(ctx, cfg, train.Options{Dir: dir, Progress: progress})
	}
	progress.Close()
	switch {
	case errors.Is(err, context.Canceled) && train.IsRun(dir):
		return fmt.Errorf("interrupted; go on with: infinirl train --resume --run %s", dir)
	case errors.Is(err, train.ErrInput):
		return badInput(err)
	case err != nil:
		return err
	}
	if c.JSON {
		return json.NewEncoder(std.out).Encode(summary)
	}
	return printSummary(std.out, summary, dir)
}

func printSummary(w io.Writer, s *train.Summary, dir string) error {
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	table := terminal.Table{Header: []string{fmt.Sprintf("%s, %d unseen tasks", s.Env, s.EvalTasks), "success"}, Styles: map[int]terminal.Style{1: terminal.Green}}
	table.Add("base model, sampled", fmt.Sprintf("%.3f", s.WarmStartSuccess))
	table.Add("base model, greedy", fmt.Sprintf("%.3f", s.WarmStartGreedy))
	table.Add("trained, sampled", fmt.Sprintf("%.3f", s.EvalSuccess))
	table.Add("trained, greedy", fmt.Sprintf("%.3f", s.GreedySuccess))
	if err := table.Write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%.0f tokens a trajectory in %.1f segments of at most %d; %d steps in %.0f s, %d MiB\n%s\n",
		s.TokensPerTrajectory, s.SegmentsPerTrajectory, s.ContextWindow, s.Steps, s.WallSeconds, s.PeakRSSBytes>>20,
		filepath.Join(dir, "summary.json"))
	return err
}
