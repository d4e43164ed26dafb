package lm

import (
	"errors"
	"math"
	"slices"

	"github.com/infinirl/infinirl/policy"
)

// sample draws the next token of each sequence from its hidden state in
// ws.hidden [M, D].
func (ws *workspace) sample(sequences []*continuation) {
	V, D := ws.m.config.VocabSize, ws.m.config.HiddenSize
	block := ws.headBlock()
	for from := 0; from < len(sequences); from += block {
		to := min(len(sequences), from+block)
		logits := ws.logitsOf(ws.hidden[from*D:to*D], 1)
		for i, q := range sequences[from:to] {
			q.extend(ws, logits[i*V:(i+1)*V])
		}
	}
}

// extend draws a token from hidden·headᵀ [V] and tells whether it is the last.
func (q *continuation) extend(ws *workspace, logits []float32) {
	r, c := &q.request, &q.completion
	token, logProb, err := ws.draw(logits, r.Temperature, q.rng.Float64())
	if err != nil {
		q.err = err
		return
	}
	q.tokens = append(q.tokens, token)
	c.Tokens = append(c.Tokens, token)
	c.LogProbs = append(c.LogProbs, logProb)
	switch {
	case slices.ContainsFunc(r.Stop, func(stop []int32) bool { return hasSuffix(c.Tokens, stop) }):
		c.FinishReason = policy.FinishStop
	case len(c.Tokens) == r.MaxTokens, len(q.tokens) == ws.m.config.MaxPositionEmbeddings:
		c.FinishReason = policy.FinishLength
	}
}

func hasSuffix(tokens, suffix []int32) bool {
	return len(tokens) >= len(suffix) && slices.Equal(tokens[len(tokens)-len(suffix):], suffix)
}

// errLogits tells that the weights have diverged.
var errLogits = errors.New("the model's logits are not finite; its weights have diverged")

// draw takes uniform u in [0, 1) to a token of softmax(logits·scale) and its log-prob.
// At temperature 0 it is the most probable token, with its log-prob at temperature 1.
// It overwrites logits.
func (ws *workspace) draw(z []float32, temperature, u float64) (token int32, logProb float32, err error) {
	greedy := temperature == 0
	if greedy {
		temperature = 1
	}
	if scale := ws.m.logitScale(float32(temperature)); scale != 1 {
		ws.k.Scale(scale, z)
	}
	e := grow(&ws.team[0].probs, len(z)) // exp(z − max z)
	logSum, _ := ws.logSumExp(z, e)
	if math.IsNaN(float64(logSum)) || math.IsInf(float64(logSum), 0) {
		return 0, 0, errLogits
	}
	if greedy {
		best := 0
		for i, x := range z {
			if x > z[best] {
				best = i
			}
		}
		return int32(best), z[best] - logSum, nil
	}
	var mass float64
	for _, x := range e {
		mass += float64(x)
	}
	at := pick(e, u*mass)
	return int32(at), z[at] - logSum, nil
}

// pick returns the first index at which the running sum of the weights exceeds
// target, or else the last with a weight.
func pick(weights []float32, target float64) int {
	last, sum := 0, 0.0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		last = i
		if sum += float64(w); sum > target {
			break
		}
	}
	return last
}
