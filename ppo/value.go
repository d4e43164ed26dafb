package ppo

import (
	"errors"
	"fmt"
)

// ValueTokens is what the value loss needs to know of one row, at its n trainable
// tokens only. All columns have length n.
type ValueTokens[T Float] struct {
	Values    []T // of the current critic
	OldValues []T // before the update; not needed when value_clip is 0
	Returns   []T
	Weights   []T // of the aggregation, see Weights
}

// Value computes the value loss of one row,
//
//	½·Σ_t w_t·max((V−R)², (clip(V, V_old ± ε_v) − R)²)
//
// and writes its gradient with respect to Values. (Schulman et al., PPO2;
// without the maximum when value_clip is 0.) Safe to call for different rows
// at once.
func Value[T Float](cfg *Config, row ValueTokens[T], dValues []T) (Stats, error) {
	n := len(row.Values)
	for _, c := range []namedColumn[T]{
		{"old_values", row.OldValues, cfg.ValueClip != 0},
		{"returns", row.Returns, true},
		{"weights", row.Weights, true},
		{"gradient", dValues, true},
	} {
		if c.needed && len(c.data) != n {
			return Stats{}, fmt.Errorf("%s: %d entries for %d trainable tokens", c.name, len(c.data), n)
		}
	}
	s := Stats{valueTokens: n}
	for t := range n {
		v, r, w := float64(row.Values[t]), float64(row.Returns[t]), float64(row.Weights[t])
		d := v - r
		loss, grad := d*d, 2*d
		if cfg.ValueClip != 0 {
			old := float64(row.OldValues[t])
			clipped := clip(v, old-cfg.ValueClip, old+cfg.ValueClip)
			if e := clipped - r; e*e > loss {
				loss, grad = e*e, 0 // the clip is active: otherwise e = d
				s.valueClipped++
			}
		}
		s.ValueLoss += w * loss / 2
		dValues[t] = T(w * grad / 2)
		s.returns.add(r)
		s.residuals.add(r - v)
		s.sumValues += v
	}
	if !isFinite(s.ValueLoss) {
		for _, c := range []namedColumn[T]{{name: "values", data: row.Values}, {name: "old_values", data: row.OldValues}, {name: "returns", data: row.Returns}} {
			for t, x := range c.data {
				if !isFinite(float64(x)) {
					return Stats{}, &NonFiniteError{c.name, t, float64(x)}
				}
			}
		}
		return Stats{}, errors.New("the value loss overflows")
	}
	return s, nil
}
