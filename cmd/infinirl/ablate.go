package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/infinirl/infinirl/ablation"
	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/train"
)

type ablateCommand struct {
	settings
	Over   string       `help:"What is compared: credit (ways to assign it) or condense (rules that cut)." default:"credit" enum:"credit,condense"`
	Seeds  int          `help:"Number of seeds, counted up from the configuration's." default:"3"`
	Dir    absolutePath `help:"Directory for the runs; it must not exist. Default: runs/ablate-ENV-TIME." placeholder:"DIR" name:"run"`
	Resume bool         `help:"Go on with the comparison in --run, with its own configuration: runs that have ended stay as they are."`
	JSON   bool         `help:"Print ablation.json on one line instead of a table." name:"json"`
}

func (ablateCommand) Help() string {
	return `Trains from one base model with cross-segment GAE, per-segment GAE, GRPO,
and cross-segment GAE in a window that never fills; with
--over condense, under the condensing rules none, tool-fifo, tool-clear,
discard-all and summary. Prints a table; writes ablation.json and the learning
curves as curves.svg. Three seeds take about as long as twelve runs of train.

Example:
  infinirl ablate --env keytodoor --seeds 1 --set train.steps=2 --run runs/ablation`
}

func (c *ablateCommand) AfterApply() error {
	if c.Seeds < 1 {
		return fmt.Errorf("--seeds %d: want 1 or more", c.Seeds)
	}
	if c.Resume && c.Dir == "" {
		return errors.New("--resume: which comparison? name its directory with --run DIR")
	}
	if c.Resume && c.given() {
		return errors.New("--resume: the comparison goes on with its own configuration: leave out --config, --env, --set, --seed and all that stands for a key")
	}
	return nil
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
	plan, err := ablation.NewPlan(cfg.Env, c.Over, cfg.Seed, c.Seeds)
	if err != nil {
		return badInput(err)
	}
	progress := std.progress()
	var result *ablation.Result
	if c.Resume {
		result, plan, err = assembly.ResumeAblation(ctx, dir, progress)
	} else {
		result, err = assembly.Ablate(ctx, cfg, plan, dir, progress)
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
