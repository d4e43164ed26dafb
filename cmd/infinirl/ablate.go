package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/infinirl/infinirl/ablation"
	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

type ablateCommand struct {
	settings
	Over      string       `help:"What is compared: credit (ways to assign it) or condense (rules that cut)." default:"credit" enum:"credit,condense"`
	Methods   methodNames  `help:"Methods to compare, of the list above. Default: all." placeholder:"NAME"`
	Grid      []string     `help:"Alternatives that each method is tried with, between bars, each one or more KEY=VALUE: every --grid multiplies the methods." placeholder:"ALTERNATIVES" sep:"none"`
	Seeds     *int         `help:"Number of seeds, counted up from the configuration's. Default: 3." placeholder:"N"`
	Threshold *float64     `help:"What train.success_metric must reach for a method to have learnt. Default: 0.9." placeholder:"VALUE"`
	Parallel  int          `help:"Runs at once, each on its share of the cores; 1 shows each step of each run." default:"1"`
	Dir       absolutePath `help:"Directory for the runs; it must not exist. Default: runs/ablate-ENV-TIME." placeholder:"DIR" name:"run"`
	Resume    bool         `help:"Go on with the comparison in --run, with its own configuration: runs that have ended stay as they are."`
	JSON      bool         `help:"Print ablation.json on one line instead of a table." name:"json"`
}

func (ablateCommand) Help() string {
	return `Trains from one base model under several methods and prints a table; writes
ablation.json and the learning curves as curves.svg. Methods over credit:

  carry          GAE across the cuts, λ 0.95
  carry-1        the same, λ 1
  verl-v1        the outcome on every row, GAE within it, λ 0.95
  compaction-rl  the same, discounted by the decisions after the row
  turn-gae       carry with one step a turn
  grpo, rloo     the outcome compared within a group, a vote a trajectory
  reinforce++    returns across the cuts, whitened, no critic
  terminal       GAE with every row a trajectory of its own (baseline)
  full-context   carry in a window that never fills

With --over condense: none, tool-fifo, tool-clear, discard-all and summary, the
condensing rules. What each method was found to need on an environment is set
for it, unless --set or --config say otherwise; find it with --grid, on other
seeds: --seed 101 --grid 'train.actor_lr=0.001 | train.actor_lr=0.003'.

Example:
  infinirl ablate --env keytodoor --methods carry,grpo --seeds 1 --set train.steps=2 --run runs/ablation`
}

func (c *ablateCommand) AfterApply() error {
	if n := c.seeds(); n < 1 || n > 10_000 {
		return fmt.Errorf("--seeds %d: want 1 to 10000", n)
	}
	if x := c.threshold(); math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("--threshold %v: want a number", x)
	}
	if c.Parallel < 1 || c.Parallel > 1024 {
		return fmt.Errorf("--parallel %d: want 1 to 1024", c.Parallel)
	}
	if c.Resume && c.Dir == "" {
		return errors.New("--resume: which comparison? name its directory with --run DIR")
	}
	if c.Resume && (c.given() || c.Over != ablation.OverCredit || len(c.Methods) > 0 || len(c.Grid) > 0 || c.Seeds != nil || c.Threshold != nil) {
		return errors.New("--resume: the comparison goes on with its own configuration: leave out all flags but --run, --parallel and --json")
	}
	return nil
}

func (c *ablateCommand) seeds() int {
	if c.Seeds == nil {
		return 3
	}
	return *c.Seeds
}

func (c *ablateCommand) threshold() float64 {
	if c.Threshold == nil {
		return 0.9
	}
	return *c.Threshold
}

// plan is what the flags ask for.
func (c *ablateCommand) plan(cfg config.Config) (ablation.Plan, error) {
	if x := c.threshold(); cfg.Train.SuccessMetric == train.Success && !(x > 0 && x <= 1) {
		return ablation.Plan{}, fmt.Errorf("--threshold %v: want more than 0 and at most 1: train.success_metric is a share of trajectories", x)
	}
	methods, err := ablation.Methods(c.Over)
	if err != nil {
		return ablation.Plan{}, err
	}
	if methods, err = ablation.Select(methods, c.Methods); err != nil {
		return ablation.Plan{}, err
	}
	methods = ablation.Tune(methods, cfg.Env, cfg.Chosen)
	for _, dimension := range c.Grid {
		if methods, err = ablation.Expand(methods, dimension); err != nil {
			return ablation.Plan{}, err
		}
	}
	return ablation.Plan{Env: cfg.Env, Over: c.Over, Methods: methods, First: cfg.Seed, Seeds: c.seeds(), Metric: cfg.Train.SuccessMetric, Threshold: c.threshold()}, nil
}

func (c *ablateCommand) Run(ctx context.Context, std streams) error {
	cfg, err := c.loadForAll()
	if err != nil {
		return err
	}
	dir := string(c.Dir)
	if dir == "" {
		dir = filepath.Join("runs", "ablate-"+cfg.Env+"-"+time.Now().Format("20060102-150405"))
	}
	plan, err := c.plan(cfg)
	if err != nil {
		return badInput(err)
	}
	progress := std.progress()
	var result *ablation.Result
	if c.Resume {
		result, plan, err = assembly.ResumeAblation(ctx, c.Parallel, dir, progress)
	} else {
		result, err = assembly.Ablate(ctx, cfg, plan, c.Parallel, dir, progress)
	}
	progress.Close()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; go on with: infinirl ablate --resume --run %s", dir)
	case errors.Is(err, fs.ErrExist), errors.Is(err, train.ErrInput):
		return badInput(err)
	case err != nil:
		return err
	}
	if c.JSON {
		return json.NewEncoder(std.out).Encode(result)
	}
	if err := result.Table(std.out, plan.Methods, plan.Over); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s\n%s\n", filepath.Join(dir, "ablation.json"), filepath.Join(dir, "curves.svg"))
	return err
}
