package train_test

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/policy/policytest"
	"github.com/infinirl/infinirl/train"
)

// translated is a renderer of another tokenizer.
type translated struct {
	chat.Renderer
	tokens policytest.Permutation
}

func (t translated) Start(messages []chat.Message, tools []chat.Tool) ([]int32, error) {
	ids, err := t.Renderer.Start(messages, tools)
	return t.tokens.To(ids), err
}

func (t translated) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	ids, err := t.Renderer.Extend(nil, messages)
	return append(seen, t.tokens.To(ids)...), err
}

func (t translated) EncodeText(text string) ([]int32, error) {
	ids, err := t.Renderer.EncodeText(text)
	return t.tokens.To(ids), err
}

func (t translated) GenerationPrefix() []int32 { return t.tokens.To(t.Renderer.GenerationPrefix()) }

func (t translated) GenerationSuffix(sampled []int32) []int32 {
	return t.tokens.To(t.Renderer.GenerationSuffix(t.tokens.From(sampled)))
}

func (t translated) Parse(ids []int32) chat.Message { return t.Renderer.Parse(t.tokens.From(ids)) }

func (t translated) Stop() [][]int32 {
	var stop [][]int32
	for _, ids := range t.Renderer.Stop() {
		stop = append(stop, t.tokens.To(ids))
	}
	return stop
}

// The loop knows its parts by their interfaces alone: with a sampler of another
// tokenizer that answers late, out of order, fails one time in twenty and is aborted as
// often, and with a learner and a critic behind a slow connection, a run ends at the
// same metrics.
func TestHostilePartsEndAtTheSameMetrics(t *testing.T) {
	t.Parallel()
	overrides := []string{"train.steps=2", "train.old_log_probs=learner", "ppo.kl_coef=0.01", "rollout.max_turns=12"}
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := assembly.Train(context.Background(), small(t, overrides...), train.Options{Dir: whole}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "hostile")
	synctest.Test(t, func(t *testing.T) { // waiting takes no time here
		cfg := small(t, overrides...)
		run, err := assembly.Open(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		tokens := policytest.NewPermutation(run.VocabularySize(), 7)
		wire := learnertest.Wire{Latency: 30 * time.Millisecond, Ids: tokens.From}
		hostile := policytest.NewHostile(policytest.Translated{Inside: run.Sampler, Tokens: tokens}, 1)
		parts := run.Parts
		parts.Renderer = translated{parts.Renderer, tokens}
		parts.Sampler = hostile
		parts.Learner = learnertest.Remote{Learner: parts.Learner, Wire: wire}
		parts.Critic = learnertest.RemoteCritic{Critic: parts.Critic, Wire: wire}
		parts.Reference = learnertest.RemoteScorer{Scorer: parts.Reference, Wire: wire}
		trainer, err := train.New(parts, cfg.Loop())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trainer.Run(context.Background(), train.Options{Dir: dir, Description: []byte("{}\n")}); err != nil {
			t.Fatal(err)
		}
		if hostile.Failed < 10 || hostile.Aborted < 10 {
			t.Errorf("%d requests failed and %d were aborted, want ten of each or more", hostile.Failed, hostile.Aborted)
		}
	})
	steps, summary := untimed(t, whole)
	hostileSteps, hostileSummary := untimed(t, dir)
	if !reflect.DeepEqual(steps, hostileSteps) || !reflect.DeepEqual(summary, hostileSummary) {
		t.Errorf("over hostile parts the run differs:\n%+v\n%+v\n%+v\n%+v", steps, hostileSteps, summary, hostileSummary)
	}
}
