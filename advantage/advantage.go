// Package advantage assigns credit: from rewards, values and outcomes to one
// advantage and one return a trainable token.
//
// An estimator sees whole trajectories. A trajectory comes as the segments
// that a condenser cut it into; every estimator here treats the segments as
// one sequence of decisions, so that a reward in the last segment reaches the
// decisions of the first. What stands between two decisions (tool results,
// prompts, cuts) is no step of the policy: no step of the recursion, no decay.
package advantage

import (
	"errors"
	"fmt"
	"math"

	"github.com/infinirl/infinirl/batch"
)

// Float is the precision of a token column. Running sums are float64 always.
type Float interface{ ~float32 | ~float64 }

// Segment is the response of one row: five columns of one length.
type Segment[T Float] struct {
	Mask       []bool // m_t: token t was sampled by the policy
	Values     []T    // V_t: value of the state before token t
	Rewards    []T    // r_t
	Advantages []T    // written: 0 where m_t is false
	Returns    []T    // written: 0 where m_t is false
}

// Episode is one trajectory.
type Episode[T Float] struct {
	ID      string
	GroupID string
	// Segments in the order of time: the last element is inv_iter 0.
	Segments []Segment[T]
	// Bootstrap is V(s_T) of a truncated trajectory, 0 of a terminated one.
	Bootstrap float64
	// Outcome is a reward that follows the last action: the score when the
	// trajectory has no rewards, else 0.
	Outcome float64
	// Stated is the score of the trajectory if one was given.
	Stated *float64
}

// Score is the trajectory's result as a whole, which group-relative estimators
// compare: the score if one was given, else the sum of the rewards.
func (e *Episode[T]) Score() float64 {
	if e.Stated != nil {
		return *e.Stated
	}
	return e.totalReward()
}

// Trainable returns the number of tokens that the policy sampled.
func (e *Episode[T]) Trainable() int {
	n := 0
	for _, s := range e.Segments {
		for start, end := range spans(s.Mask) {
			n += end - start
		}
	}
	return n
}

func (e *Episode[T]) hasTrainable() bool {
	for _, s := range e.Segments {
		for range spans(s.Mask) {
			return true
		}
	}
	return false
}

// Config chooses and parametrises an estimator.
type Config struct {
	// Estimator is a registered name; see Names.
	Estimator string `yaml:"estimator" json:"estimator"`
	// Gamma is the discount γ a trainable token, in [0, 1].
	Gamma float64 `yaml:"gamma" json:"gamma"`
	// Lambda is λ of the actor's advantages, in [0, 1].
	Lambda float64 `yaml:"lambda" json:"lambda"`
	// CriticLambda is λ of the critic's returns, in [0, 1].
	CriticLambda float64 `yaml:"critic_lambda" json:"critic_lambda"`
	// LambdaAlpha, if above 0, replaces Lambda with max(0, 1 − 1/(α·l)) for a
	// trajectory of l trainable tokens (VAPO, arXiv 2504.05118).
	LambdaAlpha float64 `yaml:"lambda_alpha" json:"lambda_alpha"`
	// Whiten brings the advantages to mean 0 and variance 1 over the
	// trainable tokens of the batch.
	Whiten bool `yaml:"whiten" json:"whiten"`
	// Warn, if set, hears one line about each trajectory that lost something:
	// a reward before the first action, or no action at all.
	Warn func(message string) `yaml:"-" json:"-"`
}

// Defaults returns cross-segment GAE with γ = 1 and decoupled λ
// (VC-PPO, arXiv 2503.01491): .95 for the actor, 1 for the critic.
func Defaults() Config {
	return Config{Estimator: "gae", Gamma: 1, Lambda: 0.95, CriticLambda: 1}
}

// Validate returns an error that names the first field out of range.
func (c Config) Validate() error {
	if _, err := Lookup(c.Estimator); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"gamma", c.Gamma}, {"lambda", c.Lambda}, {"critic_lambda", c.CriticLambda}} {
		if !(f.value >= 0 && f.value <= 1) {
			return fmt.Errorf("%s: %v: want a number from 0 to 1", f.name, f.value)
		}
	}
	if !(c.LambdaAlpha >= 0) || math.IsInf(c.LambdaAlpha, 0) {
		return fmt.Errorf("lambda_alpha: %v: want 0 (off) or more", c.LambdaAlpha)
	}
	return nil
}

// warn tells the caller, if it listens.
func (c Config) warn(format string, args ...any) {
	if c.Warn != nil {
		c.Warn(fmt.Sprintf(format, args...))
	}
}

// actorLambda is λ_actor for a trajectory.
func (c Config) actorLambda(e *Episode[float32]) float64 {
	if c.LambdaAlpha == 0 {
		return c.Lambda
	}
	return LengthAdaptiveLambda(c.LambdaAlpha, e.Trainable())
}

// LengthAdaptiveLambda is max(0, 1 − 1/(α·l)), l the trainable tokens of the
// trajectory; 0 for l = 0 (VAPO, arXiv 2504.05118).
func LengthAdaptiveLambda(alpha float64, l int) float64 {
	if l == 0 {
		return 0
	}
	return math.Max(0, 1-1/(alpha*float64(l)))
}

// Compute fills b.Advantages and b.Returns, at trainable tokens and 0
// everywhere else, reusing the columns when they are there.
//
// It fails, naming the trajectory, on rows that do not make whole
// trajectories, on failed and aborted trajectories, on a column that the
// estimator needs and the batch lacks, and on a NaN or infinity at a trainable
// token; at other tokens those have no effect.
func Compute(b *batch.Batch, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	estimator, err := Lookup(cfg.Estimator)
	if err != nil {
		return err
	}
	trajectories, err := b.Trajectories()
	if err != nil {
		return err
	}
	if estimator.Values && b.Values == nil {
		return fmt.Errorf("estimator %s needs values: the batch has none", cfg.Estimator)
	}
	episodes, err := open(b, trajectories, cfg)
	if err != nil {
		return err
	}
	if err := estimator.Estimate(episodes, cfg); err != nil {
		return err
	}
	if cfg.Whiten {
		Whiten(b.Advantages, b.LossMask)
	}
	return nil
}

// open views the batch as episodes and clears the columns to be written. A
// trajectory without a trainable token is no episode.
func open(b *batch.Batch, trajectories []batch.Trajectory, cfg Config) ([]Episode[float32], error) {
	b.Advantages, b.Returns = sized(b.Advantages, len(b.TokenIDs)), sized(b.Returns, len(b.TokenIDs))
	values, rewards := b.Values, b.Rewards
	if values == nil {
		values = make([]float32, len(b.TokenIDs))
	}
	if rewards == nil {
		rewards = make([]float32, len(b.TokenIDs))
	}
	segments := make([]Segment[float32], 0, len(b.Rows))
	episodes := make([]Episode[float32], 0, len(trajectories))
	for j, t := range trajectories {
		if !t.Status.Trainable() {
			return nil, fmt.Errorf("trajectory %q: status %s: such a trajectory cannot be trained on", t.ID, t.Status)
		}
		if b.Rewards == nil && !t.HasScore {
			return nil, fmt.Errorf("trajectory %q: neither rewards nor a score", t.ID)
		}
		first := len(segments)
		for _, i := range t.Rows {
			prompt, end := b.Span(i)
			start := prompt + b.Rows[i].PromptLen
			clear(b.Advantages[prompt:start])
			clear(b.Returns[prompt:start])
			segments = append(segments, Segment[float32]{
				Mask:       b.LossMask[start:end],
				Values:     values[start:end],
				Rewards:    rewards[start:end],
				Advantages: b.Advantages[start:end],
				Returns:    b.Returns[start:end],
			})
		}
		e := Episode[float32]{ID: t.ID, GroupID: t.GroupID, Segments: segments[first:len(segments):len(segments)], Bootstrap: t.BootstrapValue}
		if t.HasScore {
			e.Stated = &trajectories[j].Score
		}
		if b.Rewards == nil {
			e.Outcome = t.Score
		}
		if !e.hasTrainable() {
			cfg.warn("trajectory %q: no trainable token: no sample", t.ID)
			Broadcast(e, 0)
			continue
		}
		episodes = append(episodes, e)
	}
	return episodes, nil
}

// sized returns a column of n tokens, reusing c if it has that length.
func sized(c []float32, n int) []float32 {
	if len(c) != n {
		return make([]float32, n)
	}
	return c
}

// totalReward sums the rewards; a NaN or infinity counts at trainable tokens
// only.
func (e *Episode[T]) totalReward() float64 {
	sum := e.Outcome
	for _, s := range e.Segments {
		for t, r := range s.Rewards {
			if r != 0 && (s.Mask[t] || isFinite(float64(r))) {
				sum += float64(r)
			}
		}
	}
	return sum
}

func isFinite(x float64) bool { return x-x == 0 }

// checkFinite finds the first value or reward at a trainable token that is not
// a finite number. Estimators call it when their result is not finite.
func (e *Episode[T]) checkFinite() error {
	for k, s := range e.Segments {
		for t, m := range s.Mask {
			if !m {
				continue
			}
			for _, c := range [...]struct {
				name string
				x    T
			}{{"values", s.Values[t]}, {"rewards", s.Rewards[t]}} {
				if !isFinite(float64(c.x)) {
					return fmt.Errorf("trajectory %q, inv_iter %d, response token %d: %s: %v: want a finite number at a trainable token",
						e.ID, len(e.Segments)-1-k, t, c.name, float64(c.x))
				}
			}
		}
	}
	return errors.New("trajectory " + fmt.Sprintf("%q", e.ID) + ": the advantages overflow")
}
