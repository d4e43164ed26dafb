package tinker

import (
	"context"
	"fmt"
	"math"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/tinker"
)

// TokenCritic is a value function on a server that has policies only: a second policy
// whose odds of two tokens, in every state, are those of success,
//
//	V = σ(log p(yes) − log p(no)).
//
// Its values are from 0 to 1: it is for outcomes in that range.
type TokenCritic struct {
	*remote
	yes, no int32
}

var _ learner.Critic = (*TokenCritic)(nil)

// NewTokenCritic makes a critic from a base model. yes and no are ids, best of tokens
// that the base model finds equally likely.
func NewTokenCritic(ctx context.Context, client *tinker.Client, cfg Config, yes, no int32) (*TokenCritic, error) {
	for _, id := range []int32{yes, no} {
		if id < 0 || int(id) >= cfg.Vocabulary {
			return nil, fmt.Errorf("tinker critic: token %d: want an id of the vocabulary of %d", id, cfg.Vocabulary)
		}
	}
	if yes == no {
		return nil, fmt.Errorf("tinker critic: token %d stands for success and for failure", yes)
	}
	r, err := newRemote(ctx, client, cfg, "", "critic")
	return &TokenCritic{r, yes, no}, err
}

// data are the rows with one token, then with the other, as all of their targets.
func (c *TokenCritic) data(rows []row, inputs func(k int, w *row, yes bool) map[string]tinker.Tensor) (data []tinker.Datum, wanted [][]float32) {
	for _, yes := range []bool{true, false} {
		id := c.no
		if yes {
			id = c.yes
		}
		for k := range rows {
			targets := make([]int32, len(rows[k].trainable))
			for t := range targets {
				targets[t] = id
			}
			columns := inputs(k, &rows[k], yes)
			columns[tinker.TargetTokens] = tinker.Ints(targets)
			data, wanted = append(data, rows[k].datum(columns)), append(wanted, rows[k].mask())
		}
	}
	return data, wanted
}

// score returns the log-probs of both tokens.
func (c *TokenCritic) score(ctx context.Context, rows []row) (yes, no [][]float32, err error) {
	data, wanted := c.data(rows, func(_ int, w *row, _ bool) map[string]tinker.Tensor {
		return map[string]tinker.Tensor{tinker.Weights: tinker.Floats(w.mask())}
	})
	columns, err := c.evaluate(ctx, false, tinker.CrossEntropy, nil, data, tinker.LogProbs, wanted)
	if err != nil {
		return nil, nil, err
	}
	if err := checkLogProbs(columns, wanted); err != nil {
		return nil, nil, err
	}
	return columns[:len(rows)], columns[len(rows):], nil
}

func (c *TokenCritic) values(ctx context.Context, rows []row) ([][]float32, error) {
	yes, no, err := c.score(ctx, rows)
	if err != nil {
		return nil, err
	}
	return odds(yes, no), nil
}

// odds takes log-probs of both tokens to values.
func odds(yes, no [][]float32) [][]float32 {
	out := make([][]float32, len(yes))
	for k := range yes {
		out[k] = make([]float32, len(yes[k]))
		for t := range yes[k] {
			out[k][t] = float32(1 / (1 + math.Exp(float64(no[k][t])-float64(yes[k][t]))))
		}
	}
	return out
}

// Values are those of the current weights.
func (c *TokenCritic) Values(ctx context.Context, b *batch.Batch) ([]float32, error) {
	return c.valueColumn(ctx, b, c.values)
}

// StateValues returns the value of each state.
func (c *TokenCritic) StateValues(ctx context.Context, prompts [][]int32) ([]float32, error) {
	return c.stateValues(ctx, prompts, c.values)
}

// Update takes an optimizer step; see Learner.Update.
func (c *TokenCritic) Update(ctx context.Context, mini *batch.Batch, cfg learner.UpdateConfig) (learner.UpdateResult, error) {
	var yes, no [][]float32
	scored := func(ctx context.Context, rows []row) (_ [][]float32, err error) {
		if yes, no, err = c.score(ctx, rows); err != nil {
			return nil, err
		}
		return odds(yes, no), nil
	}
	return c.updateValues(ctx, mini, cfg, scored, func(rows []row, values, gradients [][]float32) error {
		data, wanted := c.data(rows, func(k int, w *row, isYes bool) map[string]tinker.Tensor {
			logProbs, sign := no[k], float32(1)
			if isYes {
				logProbs, sign = yes[k], -1
			}
			mask := w.mask()
			advantages := make([]float32, len(mask))
			scale := c.scale(w.count, 2*len(rows))
			for t, g := range gradients[k] {
				v := values[k][t]
				advantages[t] = sign * g * v * (1 - v) * scale // −dL/dlog p, dV/dlog p(yes) = V·(1 − V)
			}
			return c.weighted(mask, map[string]tinker.Tensor{tinker.LogProbs: tinker.Floats(masked(logProbs, mask)), tinker.Advantages: tinker.Floats(advantages)})
		})
		_, err := c.evaluate(ctx, true, tinker.ImportanceSampling, nil, data, tinker.LogProbs, wanted)
		return err
	})
}
