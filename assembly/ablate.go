package assembly

import (
	"context"
	"fmt"
	"runtime"

	"github.com/infinirl/infinirl/ablation"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/train"
)

// Ablate compares methods from one configuration; see ablation.Run.
func Ablate(ctx context.Context, cfg config.Config, plan ablation.Plan, parallel int, dir string, progress *train.Progress) (*ablation.Result, error) {
	if err := settle(&cfg); err != nil {
		return nil, train.BadInput(err)
	}
	text, err := cfg.YAML()
	if err != nil {
		return nil, err
	}
	return ablation.Run(ctx, overriding{cfg.MayIdle()}, plan, ablation.Options{Dir: dir, Parallel: parallel, Threads: threadsOf(cfg, parallel), Description: text, Progress: progress})
}

// ResumeAblation goes on with a comparison that was interrupted.
func ResumeAblation(ctx context.Context, parallel int, dir string, progress *train.Progress) (*ablation.Result, ablation.Plan, error) {
	plan, err := ablation.ReadPlan(dir)
	if err != nil {
		return nil, plan, train.BadInput(fmt.Errorf("resume: %w", err))
	}
	cfg, err := config.ReadRun(dir)
	if err != nil {
		return nil, plan, train.BadInput(fmt.Errorf("resume: %w", err))
	}
	result, err := ablation.Run(ctx, overriding{cfg}, plan, ablation.Options{Dir: dir, Resume: true, Parallel: parallel, Threads: threadsOf(cfg, parallel), Progress: progress})
	return result, plan, err
}

// threadsOf shares the cores among runs, unless the configuration says otherwise.
func threadsOf(cfg config.Config, parallel int) int {
	if cfg.Threads > 0 || parallel <= 1 {
		return cfg.Threads
	}
	return max(1, runtime.GOMAXPROCS(0)/parallel)
}

// overriding trains methods from a configuration.
type overriding struct{ cfg config.Config }

func (o overriding) apply(m ablation.Method) (config.Config, error) {
	cfg := o.cfg
	for _, assignment := range m.Overrides {
		if err := cfg.Set(assignment); err != nil {
			return cfg, train.BadInput(err)
		}
	}
	return cfg, nil
}

func (o overriding) Check(ctx context.Context, m ablation.Method) error {
	cfg, err := o.apply(m)
	if err != nil {
		return err
	}
	return Check(ctx, cfg)
}

func (o overriding) Train(ctx context.Context, m ablation.Method, seed uint64, threads int, dir string, progress *train.Progress) (*train.Summary, error) {
	cfg, err := o.apply(m)
	if err != nil {
		return nil, err
	}
	cfg.Seed, cfg.Threads = seed, threads
	return Train(ctx, cfg, train.Options{Dir: dir, Progress: progress})
}

func (o overriding) Resume(ctx context.Context, dir string, progress *train.Progress) (*train.Summary, error) {
	return Resume(ctx, dir, progress)
}

func (o overriding) Epochs(m ablation.Method) int {
	cfg, err := o.apply(m)
	if err != nil {
		return 0
	}
	return cfg.Train.Epochs
}
