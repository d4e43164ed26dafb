package assembly

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/embedded"
	learnertinker "github.com/infinirl/infinirl/learner/tinker"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	policytinker "github.com/infinirl/infinirl/policy/tinker"
	"github.com/infinirl/infinirl/tinker"
	"github.com/infinirl/infinirl/train"
)

// embedded adds the engine of this machine to parts.
func (r *Run) embedded(base *lm.Model, p played, trains bool, parts *train.Parts) error {
	cfg := r.cfg
	if err := fits(cfg, base, p); err != nil {
		return train.BadInput(err)
	}
	base.Threads = cfg.Threads
	settings := embedded.Config{Threads: cfg.Threads, Temperature: cfg.Rollout.Temperature, WeightDecay: cfg.Train.WeightDecay, MaxGradNorm: cfg.Train.MaxGradNorm, LoRA: cfg.Learner.LoRA}
	settings.LoRA.Seed = cfg.Seed
	var err error
	if trains && readsValues(cfg) { // before anything is trained: it starts from the trunk of the base
		if parts.Critic, err = embedded.NewCritic(base, settings); err != nil {
			return err
		}
	}
	newActor := embedded.TakeActor // in its place: nobody else needs the base
	if settings.LoRA.Enabled() || cfg.PPO.KLCoef != 0 {
		newActor = embedded.NewActor
		parts.Reference = embedded.NewReference(base, settings)
	}
	actor, err := newActor(base, settings)
	if err != nil {
		return err
	}
	parts.Learner = actor
	const cacheBytes = 128 << 20 // forgotten sessions are kept only within this
	sampler, err := actor.Sampler(lm.Options{Threads: cfg.Threads, MaxBatch: cfg.Rollout.Concurrency, CacheBytes: cacheBytes})
	if err != nil {
		return err
	}
	r.closes(sampler.Close)
	parts.Sampler = sampler
	r.vocabulary, r.model = p.vocabulary, fmt.Sprintf("%d parameters", base.NumParameters())
	if trained := actor.Model().NumTrained(); settings.LoRA.Enabled() {
		r.model += fmt.Sprintf(", %d of an adapter trained", trained)
	}
	return nil
}

// fits tells whether a model can play.
func fits(cfg config.Config, model *lm.Model, p played) error {
	got, want := model.Config().VocabSize, p.vocabulary
	switch {
	case p.words && got != want:
		return fmt.Errorf("base: a vocabulary of %d tokens: environment %s has %d", got, cfg.Env, want)
	case got < want: // more is padding
		return fmt.Errorf("base: an embedding of %d tokens: the tokenizer %s has %d", got, cfg.Chat.Tokenizer, want)
	}
	if most := model.Config().MaxPositionEmbeddings; cfg.Condense.High > most {
		return fmt.Errorf("condense.high: %d: the base model has %d positions", cfg.Condense.High, most)
	}
	return nil
}

// tinkerKey is the environment variable of the key. It is never a setting: those are
// written into run directories.
const tinkerKey = "TINKER_API_KEY"

// remote adds a server that speaks the Tinker protocol to parts.
func (r *Run) remote(ctx context.Context, p played, trains bool, parts *train.Parts) error {
	cfg, server := r.cfg, r.cfg.Learner.Tinker
	profile, err := learnertinker.Lookup(server.Profile)
	if err != nil {
		return train.BadInput(fmt.Errorf("learner.tinker.profile: %w", err))
	}
	if err := learnertinker.CheckLoss(cfg.PPO); err != nil {
		return train.BadInput(err)
	}
	if cfg.PPO.KLCoef != 0 && !profile.Reference {
		return train.BadInput(fmt.Errorf("ppo.kl_coef: %v: want 0: %s has no room for a reference policy", cfg.PPO.KLCoef, profile.Name))
	}
	client, err := dial(ctx, server.URL)
	if err != nil {
		return refused(err)
	}
	r.closes(client.Close)
	capabilities, err := client.Capabilities(ctx)
	if err != nil {
		return refused(err)
	}
	for _, m := range capabilities.SupportedModels {
		if m.ModelName == server.Model && m.MaxContextLength > 0 && cfg.Condense.High > m.MaxContextLength {
			return train.BadInput(fmt.Errorf("condense.high: %d: %s has %d positions on the server", cfg.Condense.High, server.Model, m.MaxContextLength))
		}
	}
	settings := learnertinker.Config{
		Profile: profile, BaseModel: server.Model, Rank: server.Rank, Seed: int64(cfg.Seed & (1<<31 - 1)),
		Temperature: cfg.Rollout.Temperature, WeightDecay: cfg.Train.WeightDecay, MaxGradNorm: cfg.Train.MaxGradNorm,
		Vocabulary: p.vocabulary, Positions: cfg.Condense.High,
	}
	if parts.Learner, err = learnertinker.NewLearner(ctx, client, settings); err != nil {
		if policy.IsTransient(err) || ctx.Err() != nil {
			return err
		}
		return train.BadInput(err)
	}
	if trains && readsValues(cfg) {
		if parts.Critic, err = remoteCritic(ctx, client, settings, p, server.CriticTokens); err != nil {
			return err
		}
	}
	if trains && cfg.PPO.KLCoef != 0 {
		if parts.Reference, err = learnertinker.NewReference(ctx, client, settings); err != nil {
			return err
		}
	}
	parts.Sampler, err = policytinker.New(client, policytinker.Config{Vocabulary: p.vocabulary, Positions: cfg.Condense.High})
	r.vocabulary, r.model = p.vocabulary, fmt.Sprintf("%s on %s", server.Model, server.URL)
	return err
}

// dial opens a session. Whoever starts a run waits for it: a server that does not answer
// is told of soon, not after the minutes that one is given within a run.
func dial(ctx context.Context, url string) (*tinker.Client, error) {
	const patience = 20 * time.Second
	opening, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v: is the server up, and is this its address?", patience))
	defer cancel()
	client, err := tinker.Dial(opening, tinker.Config{URL: url, Key: os.Getenv(tinkerKey)})
	if status := (*tinker.StatusError)(nil); errors.As(err, &status) && status.Status == http.StatusNotFound {
		err = train.BadInput(fmt.Errorf("%w: want the address of a Tinker server, without its /api/v1", err))
	}
	if err != nil {
		return nil, fmt.Errorf("learner.tinker.url: %s: %w", url, err)
	}
	return client, nil
}

// refused says what to do about a key that the server does not take.
func refused(err error) error {
	var status *tinker.StatusError
	if errors.As(err, &status) && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden) {
		if os.Getenv(tinkerKey) == "" {
			return train.BadInput(fmt.Errorf("%w: the environment variable %s is not set", err, tinkerKey))
		}
		return train.BadInput(fmt.Errorf("%w: it is the environment variable %s", err, tinkerKey))
	}
	return err
}

// remoteCritic is a critic by its role where the server has that, else the odds of two tokens.
func remoteCritic(ctx context.Context, client *tinker.Client, settings learnertinker.Config, p played, tokens []string) (learner.Critic, error) {
	if settings.Profile.CriticRole {
		return learnertinker.NewCritic(ctx, client, settings)
	}
	var ids [2]int32
	for i, text := range tokens {
		id, err := p.renderer.EncodeText(text)
		if err == nil && len(id) != 1 {
			err = fmt.Errorf("%d tokens: want one", len(id))
		}
		if err != nil {
			return nil, train.BadInput(fmt.Errorf("learner.tinker.critic_tokens: %q: %w", text, err))
		}
		ids[i] = id[0]
	}
	return learnertinker.NewTokenCritic(ctx, client, settings, ids[0], ids[1])
}

// start hands the weights of a checkpoint to the sampler, or those of the base model if
// none is named. An embedded sampler has these from the start.
func (r *Run) start(ctx context.Context, checkpoint string) error {
	if checkpoint != "" {
		if err := r.Learner.Load(ctx, checkpoint); err != nil {
			return train.BadInput(err)
		}
	} else if r.cfg.Learner.Engine == config.EngineEmbedded {
		return nil
	}
	weights, err := r.Learner.Publish(ctx)
	if err != nil {
		return err
	}
	return r.Sampler.(policy.WeightTaker).TakeWeights(ctx, weights)
}

// TinkerProfiles names the kinds of servers that learner.tinker.profile can be.
func TinkerProfiles() (names []string) {
	for _, p := range learnertinker.Profiles() {
		names = append(names, p.Name)
	}
	return names
}
