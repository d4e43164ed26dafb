package advantage

import (
	"fmt"
	"math"

	"github.com/infinirl/infinirl/batch"
)

// Comparison is what an estimator says of a batch, and how that differs from what the first
// of those compared says, over the trainable tokens.
type Comparison struct {
	Estimator string
	Mean, Std float64
	// Correlation is Pearson's, NaN where either says the same of every token.
	Correlation float64
	// OtherSign is the share of tokens that one reinforces and the other does not: whose
	// advantages differ in their sign, 0 being a sign of its own.
	OtherSign float64
	// Differs is the share of tokens whose advantages differ by more than a thousandth of
	// the first estimator's standard deviation.
	Differs float64
}

// Compare computes the advantages of a batch with each of the estimators, the rest of the
// configuration being the same, and compares them with the first. The batch stays as it is.
func Compare(b *batch.Batch, cfg Config, estimators []string) ([]Comparison, error) {
	const tolerance = 1e-3
	var out []Comparison
	var first []float32
	for _, name := range estimators {
		plain := *b
		plain.Advantages, plain.Returns = nil, nil
		cfg.Estimator = name
		if err := Compute(&plain, cfg); err != nil {
			return nil, fmt.Errorf("estimator %s: %w", name, err)
		}
		if first == nil {
			first = plain.Advantages
		}
		c := Comparison{Estimator: name}
		var n, mean, mean0, squares, squares0, product float64
		each := func(visit func(a, a0 float64)) {
			for t, trainable := range b.LossMask {
				if trainable {
					visit(float64(plain.Advantages[t]), float64(first[t]))
				}
			}
		}
		each(func(a, a0 float64) { n, mean, mean0 = n+1, mean+a, mean0+a0 })
		if n == 0 {
			return nil, fmt.Errorf("estimator %s: no trainable token: nothing to compare", name)
		}
		mean, mean0 = mean/n, mean0/n
		each(func(a, a0 float64) {
			squares, squares0, product = squares+(a-mean)*(a-mean), squares0+(a0-mean0)*(a0-mean0), product+(a-mean)*(a0-mean0)
		})
		std0 := math.Sqrt(squares0 / n)
		each(func(a, a0 float64) {
			if sign(a) != sign(a0) {
				c.OtherSign += 1 / n
			}
			if math.Abs(a-a0) > tolerance*std0 {
				c.Differs += 1 / n
			}
		})
		c.Mean, c.Std, c.Correlation = mean, math.Sqrt(squares/n), product/math.Sqrt(squares*squares0)
		out = append(out, c)
	}
	return out, nil
}

func sign(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
