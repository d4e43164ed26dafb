// Command train is an example of a training run of own parts: tasks from a file, an own
// condensing rule and an own estimator, with the embedded engine as model, sampler and
// learner. Importing a rule or an estimator registers it; all else is handed in.
//
//	go run ./examples/train -tasks examples/environment/numbers.jsonl -o runs/numbers
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/examples/condenser"
	"github.com/infinirl/infinirl/examples/environment"
	"github.com/infinirl/infinirl/examples/estimator"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/ppo"
	"github.com/infinirl/infinirl/rollout"
	"github.com/infinirl/infinirl/token"
	"github.com/infinirl/infinirl/train"
)

func main() {
	file := flag.String("tasks", "examples/environment/numbers.jsonl", "JSON Lines, a task a line")
	dir := flag.String("o", "runs/numbers", "run directory, which must not exist")
	steps := flag.Int("steps", 40, "training steps")
	flag.Parse()
	summary, err := run(context.Background(), *file, *steps, train.Options{Dir: *dir, Progress: train.NewProgress(os.Stderr, false)})
	if err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
	fmt.Printf("success on unseen tasks: %.3f before, %.3f after %d steps\n", summary.WarmStartSuccess, summary.EvalSuccess, summary.Steps)
}

// settings are what differs from the defaults of configs/search.yaml. A registered rule
// and its options, and a registered estimator, are named as those that are built in.
var settings = []string{
	"condense.rule=" + condenser.Rule, "condense.latest=[guess]", "condense.high=64", "condense.low=48",
	"advantage.estimator=" + estimator.Name, "advantage.gamma=0.9",
	"rollout.groups=32", "rollout.group_size=8", "rollout.max_reply=4", "rollout.max_turns=8",
	"train.actor_lr=0.002", "eval.tasks=64",
}

// run builds the parts and trains.
func run(ctx context.Context, file string, steps int, opts train.Options) (summary *train.Summary, err error) {
	cfg, err := config.Shipped(config.DefaultEnv)
	if err != nil {
		return nil, err
	}
	for _, s := range append(settings, fmt.Sprint("train.steps=", steps)) {
		if err := cfg.Set(s); err != nil {
			return nil, err
		}
	}
	tasks, err := open(file)
	if err != nil {
		return nil, err
	}
	vocabulary, err := token.NewVocabulary(append(chat.WordControls(), tasks.Words()...))
	if err != nil {
		return nil, err
	}
	renderer, err := chat.NewWords(vocabulary, environment.Tools())
	if err != nil {
		return nil, err
	}
	condenser, err := condense.New(cfg.Condenser(cfg.Condense.Rule))
	if err != nil {
		return nil, err
	}
	model, err := lm.NewActor(lm.Config{VocabSize: vocabulary.Size(), HiddenSize: 32, IntermediateSize: 96, NumHiddenLayers: 2, NumAttentionHeads: 2,
		MaxPositionEmbeddings: 128, InitializerRange: 0.08, EmbeddingInit: 0.5}, cfg.Seed)
	if err != nil {
		return nil, err
	}
	actor, err := embedded.NewActor(model, embedded.Config{Temperature: cfg.Rollout.Temperature, MaxGradNorm: cfg.Train.MaxGradNorm})
	if err != nil {
		return nil, err
	}
	parts := train.Parts{Tasks: tasks, Renderer: renderer, Condenser: condenser, Learner: actor}
	// A policy that never makes a call never finds a number: it starts from one that knows how.
	if err := clone(ctx, parts, renderer); err != nil {
		return nil, fmt.Errorf("clone: %w", err)
	}
	sampler, err := actor.Sampler(lm.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sampler.Close()) }()
	parts.Sampler = sampler
	trainer, err := train.New(parts, cfg.Loop())
	if err != nil {
		return nil, err
	}
	if opts.Description, err = cfg.YAML(); err != nil {
		return nil, err
	}
	return trainer.Run(ctx, opts)
}

func open(file string) (*environment.Tasks, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tasks, err := environment.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return tasks, nil
}

// guesser knows how to guess, and heeds no answer.
type guesser struct{ rng *rand.Rand }

func (g guesser) Act([]chat.Message) (chat.Message, error) {
	return toolcall.New("guess", environment.Guess{Number: 1 + g.rng.IntN(12)}), nil
}

// clone has the learner imitate the guesser. Cross-entropy is the policy gradient of an
// advantage of 1, so that any learner can do it.
func clone(ctx context.Context, parts train.Parts, renderer scripted.Renderer) error {
	teacher := scripted.New(renderer, func(seed uint64) curriculum.Actor { return guesser{rand.New(rand.NewPCG(seed, 0))} })
	engine, err := rollout.New(parts.Tasks, parts.Renderer, teacher, parts.Condenser, rollout.Config{
		MaxReply: 4, MaxTurns: 8, Temperature: 1, Concurrency: 1, Backoff: policy.DefaultBackoff,
	})
	if err != nil {
		return err
	}
	const updates, rows = 60, 16
	how := learner.UpdateConfig{LearningRate: 0.003,
		Loss: ppo.Config{Loss: ppo.LossPG, Aggregation: ppo.TokenMean, RolloutCorrection: ppo.CorrectionNone}}
	for step := range updates {
		jobs := make([]rollout.Job, rows)
		for i := range jobs {
			k := step*rows + i
			task := parts.Tasks.Task(env.Clone, k%parts.Tasks.Len(env.Clone))
			jobs[i] = rollout.Job{Task: task, TrajectoryID: fmt.Sprint(k), Seed: uint64(k)}
		}
		played, err := engine.Collect(ctx, jobs, nil)
		if err != nil {
			return err
		}
		shown, err := batch.FromTrajectories(played)
		if err != nil {
			return err
		}
		shown.OldLogProbs, shown.Advantages = make([]float32, shown.Tokens()), make([]float32, shown.Tokens())
		for t, said := range shown.LossMask {
			if said {
				shown.Advantages[t] = 1
			}
		}
		if _, err := parts.Learner.Update(ctx, shown, how); err != nil {
			return err
		}
	}
	return nil
}
