package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Sequence is a row of tokens and the ones of them that matter.
type Sequence struct {
	Tokens []int32 // [T]
	// Targets are indices t ≥ 1 into Tokens, ascending. An actor gives
	// log π(token_t | tokens_<t), a critic V_t, the value of the state before
	// token_t; both are read at position t−1.
	Targets []int32
}

// PolicyLoss takes the log-probs and entropies (in nats) of the targets of a row to
// the gradients of the loss with respect to each; a nil gradient is zero. The
// arguments are valid during the call. It is called from several goroutines at
// once, for different rows in no particular order.
//
// Cross-entropy over N targets is dLogProb_t = −1/N, dEntropy = nil.
type PolicyLoss func(row int, logProb, entropy []float32) (dLogProb, dEntropy []float32)

// ValueLoss is the same for the values of a row.
type ValueLoss func(row int, value []float32) (dValue []float32)

// LogProbs computes the log-probs of the targets under softmax(logits/temperature)
// and, if entropies is not nil, the entropy of that distribution at each target,
// both in nats. logProbs[i] and entropies[i] have the length of rows[i].Targets.
func (m *Model) LogProbs(ctx context.Context, rows []Sequence, temperature float32, logProbs, entropies [][]float32) error {
	scale, err := m.checkPolicy(rows, temperature)
	if err != nil {
		return err
	}
	if err := checkOutput("logProbs", rows, logProbs); err != nil {
		return err
	}
	if entropies != nil {
		if err := checkOutput("entropies", rows, entropies); err != nil {
			return err
		}
	}
	return m.eachRow(ctx, rows, func(ws *workspace, i int) {
		targets := ws.forwardRows(rows[i:i+1], false)
		ws.headForward(targets, scale)
		copy(logProbs[i], ws.logProb)
		if entropies != nil {
			copy(entropies[i], ws.entropy)
		}
	})
}

// Values computes the values at the targets; values[i] has the length of
// rows[i].Targets.
func (m *Model) Values(ctx context.Context, rows []Sequence, values [][]float32) error {
	if err := m.checkValue(rows); err != nil {
		return err
	}
	if err := checkOutput("values", rows, values); err != nil {
		return err
	}
	return m.eachRow(ctx, rows, func(ws *workspace, i int) {
		ws.forwardRows(rows[i:i+1], false)
		ws.valueForward(len(rows[i].Targets))
		copy(values[i], ws.value)
	})
}

// AccumulatePolicy adds to gradients those of the sum over rows of a loss that
// is given by its gradients with respect to log-probs and entropies, see
// [LogProbs] and [PolicyLoss]. On an error gradients are undefined.
func (m *Model) AccumulatePolicy(ctx context.Context, rows []Sequence, temperature float32, loss PolicyLoss, gradients *Gradients) error {
	scale, err := m.checkPolicy(rows, temperature)
	if err != nil {
		return err
	}
	return m.accumulate(ctx, rows, gradients, func(ws *workspace, first, end int, grad *weights) error {
		targets := ws.forwardRows(rows[first:end], true)
		ws.headForward(targets, scale)
		dp, dh, at := zeroed(&ws.gradient.dLogProb, len(targets)), zeroed(&ws.gradient.dEntropy, len(targets)), 0
		entropies := false
		for i := first; i < end; i++ {
			M := len(rows[i].Targets)
			if M == 0 {
				continue
			}
			p, h := loss(i, ws.logProb[at:at+M:at+M], ws.entropy[at:at+M:at+M])
			if p != nil && len(p) != M || h != nil && len(h) != M {
				return fmt.Errorf("lm: row %d: loss gave %d and %d gradients for %d targets", i, len(p), len(h), M)
			}
			copy(dp[at:], p)
			copy(dh[at:], h)
			entropies = entropies || h != nil
			at += M
		}
		if !entropies {
			dh = nil
		}
		dHidden := grow(&ws.gradient.dHidden, len(ws.hidden))
		ws.headBackward(targets, scale, dp, dh, dHidden, grad.head)
		ws.backward(&ws.step, grad)
		return nil
	})
}

// AccumulateValue adds to gradients those of the sum over rows of a loss that is
// given by its gradient with respect to each value.
func (m *Model) AccumulateValue(ctx context.Context, rows []Sequence, loss ValueLoss, gradients *Gradients) error {
	if err := m.checkValue(rows); err != nil {
		return err
	}
	return m.accumulate(ctx, rows, gradients, func(ws *workspace, first, end int, grad *weights) error {
		M := len(ws.forwardRows(rows[first:end], true))
		ws.valueForward(M)
		dv, at := zeroed(&ws.gradient.dLogProb, M), 0
		for i := first; i < end; i++ {
			M := len(rows[i].Targets)
			if M == 0 {
				continue
			}
			d := loss(i, ws.value[at:at+M:at+M])
			if d != nil && len(d) != M {
				return fmt.Errorf("lm: row %d: loss gave %d gradients for %d targets", i, len(d), M)
			}
			copy(dv[at:], d)
			at += M
		}
		ws.valueBackward(dv, grow(&ws.gradient.dHidden, len(ws.hidden)), grad.head)
		ws.backward(&ws.step, grad)
		return nil
	})
}

// forwardRows runs the trunk over rows, each up to the last position that a target asks
// for, and returns the target tokens.
func (ws *workspace) forwardRows(rows []Sequence, keep bool) []int32 {
	st := &ws.step
	st.tokens, st.positions, st.outputs, st.spans = st.own[:0], st.positions[:0], st.outputs[:0], st.spans[:0]
	targets := ws.targets[:0]
	for len(ws.caches) < len(rows) {
		ws.caches = append(ws.caches, kvCache{})
	}
	for i, row := range rows {
		M := len(row.Targets)
		if M == 0 {
			continue
		}
		R, start := int(row.Targets[M-1]), len(st.tokens)
		ws.caches[i].reserve(&ws.m.config, R)
		st.spans = append(st.spans, span{row: start, rows: R, out: len(st.outputs), outs: M, cache: &ws.caches[i]})
		st.tokens = append(st.tokens, row.Tokens[:R]...)
		for position := range R {
			st.positions = append(st.positions, int32(position))
		}
		for _, t := range row.Targets {
			st.outputs = append(st.outputs, int32(start)+t-1)
			targets = append(targets, row.Tokens[t])
		}
	}
	st.own, ws.targets = st.tokens, targets
	ws.forward(st, keep)
	return targets
}

// eachRow calls do for every row that has targets, on one goroutine per thread.
func (m *Model) eachRow(ctx context.Context, rows []Sequence, do func(ws *workspace, row int)) error {
	rope := m.prepareForward(longest(rows))
	work := withTargets(rows)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(m.threads(), len(work)) {
		group.Go(func() {
			ws := m.takeWorkspace(rope)
			defer m.giveWorkspace(ws)
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(work) {
					return
				}
				do(ws, work[i])
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("lm: %w", context.Cause(ctx))
	}
	return nil
}

// withTargets lists the rows that have targets.
func withTargets(rows []Sequence) []int {
	work := make([]int, 0, len(rows))
	for i, row := range rows {
		if len(row.Targets) > 0 {
			work = append(work, i)
		}
	}
	return work
}

func longest(rows []Sequence) int {
	n := 0
	for _, row := range rows {
		n = max(n, len(row.Tokens))
	}
	return n
}

func (m *Model) checkPolicy(rows []Sequence, temperature float32) (scale float32, err error) {
	if m.layout.critic {
		return 0, errors.New("lm: a critic has no log-probs")
	}
	if !(temperature > 0) || math.IsInf(float64(temperature), 1) {
		return 0, fmt.Errorf("lm: temperature is %g, want a positive number", temperature)
	}
	return m.logitScale(temperature), m.checkRows(rows)
}

// logitScale is the factor that takes hidden·headᵀ to the logits of a softmax.
func (m *Model) logitScale(temperature float32) float32 {
	return float32(m.config.LogitScale / float64(temperature))
}

func (m *Model) checkValue(rows []Sequence) error {
	if !m.layout.critic {
		return errors.New("lm: an actor has no values")
	}
	return m.checkRows(rows)
}

func (m *Model) checkRows(rows []Sequence) error {
	for i, row := range rows {
		if err := m.checkTokens(row.Tokens); err != nil {
			return fmt.Errorf("lm: row %d: %w", i, err)
		}
		previous := int32(0)
		for _, t := range row.Targets {
			if t <= previous || int(t) >= len(row.Tokens) {
				return fmt.Errorf("lm: row %d: target %d after %d: want ascending indices 1…%d", i, t, previous, len(row.Tokens)-1)
			}
			previous = t
		}
	}
	return nil
}

func (m *Model) checkTokens(tokens []int32) error {
	if n := m.config.MaxPositionEmbeddings; len(tokens) > n {
		return fmt.Errorf("%d tokens exceed max_position_embeddings %d", len(tokens), n)
	}
	for i, token := range tokens {
		if token < 0 || int(token) >= m.config.VocabSize {
			return fmt.Errorf("token %d at position %d is outside the vocabulary of %d", token, i, m.config.VocabSize)
		}
	}
	return nil
}

func checkOutput(name string, rows []Sequence, output [][]float32) error {
	if len(output) != len(rows) {
		return fmt.Errorf("lm: %s for %d rows, want %d", name, len(output), len(rows))
	}
	for i, row := range rows {
		if len(output[i]) != len(row.Targets) {
			return fmt.Errorf("lm: %s[%d] has length %d, the row has %d targets", name, i, len(output[i]), len(row.Targets))
		}
	}
	return nil
}
