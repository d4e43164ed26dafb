package advantage

import (
	"fmt"
	"math"
)

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
func (c Config) actorLambda(tr *Trajectory[float32]) float64 {
	if c.LambdaAlpha == 0 {
		return c.Lambda
	}
	return LengthAdaptiveLambda(c.LambdaAlpha, tr.Trainable())
}

// LengthAdaptiveLambda is max(0, 1 − 1/(α·l)), l the trainable tokens of the
// trajectory; 0 for l = 0 (VAPO, arXiv 2504.05118).
func LengthAdaptiveLambda(alpha float64, l int) float64 {
	if l == 0 {
		return 0
	}
	return math.Max(0, 1-1/(alpha*float64(l)))
}
