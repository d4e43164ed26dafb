package tinkertest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/tinker"
)

// loss is a loss function with its rows.
type loss struct {
	Data []struct {
		Inputs map[string]struct {
			Data []float64 `json:"data"`
		} `json:"loss_fn_inputs"`
		Model tinker.Input `json:"model_input"`
	} `json:"data"`
	Name   string             `json:"loss_fn"`
	Config map[string]float64 `json:"loss_fn_config"`
}

// column is a loss input, zeros (or ones) where it is missing or too short.
func (l *loss) column(i int, name string, n int, otherwise float64) []float64 {
	column := slices.Clone(l.Data[i].Inputs[name].Data)
	for len(column) < n {
		column = append(column, otherwise)
	}
	return column[:n]
}

// sequence is a row for the engine, or a part of one, and what it scores: positions of
// the row.
type sequence struct {
	row       int
	positions []int
}

// evaluate computes a loss, and adds its gradient to gradients if they are not nil.
func (m *model) evaluate(ctx context.Context, l *loss, gradients *lm.Gradients, rowMean bool) (map[string]any, error) {
	critic := m.weights.IsCritic()
	if critic != (l.Name == tinker.PPOCritic) {
		return nil, fmt.Errorf("loss_fn %s: of a model of another role", l.Name)
	}
	n := make([]int, len(l.Data))
	outputs, losses := make([][]float32, len(l.Data)), make([][]float32, len(l.Data))
	var rows []lm.Sequence
	var of []sequence
	unknown := make([]bool, len(l.Data)) // a token that the vocabulary lacks
	for i := range l.Data {
		input := joined(l.Data[i].Model)
		n[i] = len(input)
		outputs[i], losses[i] = make([]float32, n[i]), make([]float32, n[i])
		targets := make([]int32, n[i])
		for t, id := range l.column(i, tinker.TargetTokens, n[i], 0) {
			targets[t] = int32(id)
		}
		for _, id := range slices.Concat(input, targets) {
			unknown[i] = unknown[i] || id < 0 || int(id) >= m.weights.Config().VocabSize
		}
		if unknown[i] || n[i] == 0 {
			continue
		}
		if critic || slices.Equal(targets[:n[i]-1], input[1:]) { // one pass over the row
			row, s := lm.Sequence{Tokens: append(slices.Clone(input), targets[n[i]-1])}, sequence{row: i}
			for t := range n[i] {
				row.Targets, s.positions = append(row.Targets, int32(t+1)), append(s.positions, t)
			}
			rows, of = append(rows, row), append(of, s)
			continue
		}
		for t := range n[i] { // the engine scores tokens of the row alone
			row := lm.Sequence{Tokens: append(slices.Clone(input[:t+1]), targets[t]), Targets: []int32{int32(t + 1)}}
			rows, of = append(rows, row), append(of, sequence{i, []int{t}})
		}
	}
	token, err := l.token(n, rowMean || critic)
	if err != nil {
		return nil, err
	}
	// Rows are worked on at once, each by one goroutine, and no position twice.
	score := func(k int, scores []float32) []float32 {
		d := make([]float32, len(scores))
		for j, t := range of[k].positions {
			i := of[k].row
			outputs[i][t] = scores[j]
			value, derivative := token(i, t, float64(scores[j]))
			losses[i][t], d[j] = float32(value), float32(derivative)
		}
		return d
	}
	name := tinker.LogProbs
	if critic {
		name = tinker.Values
	}
	if err := m.scores(ctx, rows, score, gradients); err != nil {
		return nil, err
	}
	if gradients != nil && (rowMean || critic) {
		m.rows += len(l.Data)
	}
	var result []map[string]any
	for i := range l.Data {
		var data any = outputs[i]
		if unknown[i] {
			data = make([]*float32, n[i])
		}
		result = append(result, map[string]any{name: tensor(data, n[i]), "elementwise_loss": tensor(losses[i], n[i])})
	}
	return map[string]any{"loss_fn_output_type": "scalar", "loss_fn_outputs": result, "metrics": map[string]float64{}}, nil
}

func tensor(data any, n int) map[string]any {
	return map[string]any{"data": data, "dtype": "float32", "shape": []int{n}}
}

// scores runs the engine forward, and backward if there are gradients to add to.
func (m *model) scores(ctx context.Context, rows []lm.Sequence, score func(k int, scores []float32) []float32, gradients *lm.Gradients) error {
	if gradients != nil && m.weights.IsCritic() {
		return m.weights.AccumulateValue(ctx, rows, score, gradients)
	}
	if gradients != nil {
		return m.weights.AccumulatePolicy(ctx, rows, 1, func(k int, logProbs, _ []float32) (d, _ []float32) { return score(k, logProbs), nil }, gradients)
	}
	out := make([][]float32, len(rows))
	for k := range out {
		out[k] = make([]float32, len(rows[k].Targets))
	}
	var err error
	if m.weights.IsCritic() {
		err = m.weights.Values(ctx, rows, out)
	} else {
		err = m.weights.LogProbs(ctx, rows, 1, out, nil)
	}
	for k := range out {
		score(k, out[k])
	}
	return err
}

// token returns the function that takes the score of a token to its loss and the
// derivative of the total.
func (l *loss) token(n []int, rowMean bool) (func(i, t int, x float64) (value, derivative float64), error) {
	low, high := 0.8, 1.2
	if x, ok := l.Config[tinker.ClipLow]; ok {
		low = x
	}
	if x, ok := l.Config[tinker.ClipHigh]; ok {
		high = x
	}
	var old, advantages, returns, weights [][]float64
	for i := range l.Data {
		name := tinker.LogProbs
		if l.Name == tinker.PPOCritic {
			name = tinker.Values
		}
		old = append(old, l.column(i, name, n[i], 0))
		advantages = append(advantages, l.column(i, tinker.Advantages, n[i], 0))
		returns = append(returns, l.column(i, tinker.Returns, n[i], 0))
		w := l.column(i, tinker.Weights, n[i], 1)
		if rowMean {
			var total float64
			for _, x := range w {
				total += x
			}
			for t := range w {
				w[t] /= max(total, 1e-8)
			}
		}
		weights = append(weights, w)
	}
	var one func(i, t int, x float64) (value, derivative float64)
	switch l.Name {
	case tinker.CrossEntropy:
		one = func(_, _ int, x float64) (float64, float64) { return -x, -1 }
	case tinker.ImportanceSampling:
		one = func(i, t int, x float64) (float64, float64) {
			y := -math.Exp(x-old[i][t]) * advantages[i][t]
			return y, y
		}
	case tinker.PPO:
		one = func(i, t int, x float64) (float64, float64) {
			ratio, a := math.Exp(x-old[i][t]), advantages[i][t]
			if bound := -min(max(ratio, low), high) * a; bound > -ratio*a {
				return bound, 0
			}
			return -ratio * a, -ratio * a
		}
	case tinker.PPOCritic:
		one = func(i, t int, x float64) (float64, float64) {
			const clip = 0.2
			e := x - returns[i][t]
			c := min(max(x, old[i][t]-clip), old[i][t]+clip) - returns[i][t]
			if c*c > e*e {
				return c * c / 2, 0
			}
			return e * e / 2, e
		}
	default:
		return nil, fmt.Errorf("loss_fn %q: not known", l.Name)
	}
	return func(i, t int, x float64) (value, derivative float64) {
		value, derivative = one(i, t, x)
		if weights[i][t] == 0 {
			return 0, 0
		}
		return value, derivative * weights[i][t]
	}, nil
}
