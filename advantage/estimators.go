package advantage

// The estimators that work on one trajectory at a time.

var (
	_ = Register(Estimator{
		Name: "gae", Summary: "GAE across the cuts, λ decoupled", Values: true,
		Estimate: each(func(tr Trajectory[float32], cfg Config) (float64, error) {
			return GAE(tr, cfg.Gamma, cfg.actorLambda(&tr), cfg.CriticLambda)
		}),
	})
	_ = Register(Estimator{
		Name: "turn-gae", Summary: "GAE across the cuts, one step a turn", Values: true,
		Estimate: each(func(tr Trajectory[float32], cfg Config) (float64, error) {
			return TurnGAE(tr, cfg.Gamma, cfg.actorLambda(&tr), cfg.CriticLambda)
		}),
	})
	_ = Register(Estimator{
		Name: "per-segment", Summary: "GAE with every segment its own trajectory (baseline)", Values: true,
		Estimate: each(func(tr Trajectory[float32], cfg Config) (float64, error) {
			return PerSegmentGAE(tr, cfg.Gamma, cfg.actorLambda(&tr), cfg.CriticLambda)
		}),
	})
	_ = Register(Estimator{
		Name: "compaction-rl", Summary: "outcome at every segment end, discounted by the decisions after it", Values: true,
		Estimate: each(func(tr Trajectory[float32], cfg Config) (float64, error) {
			return 0, CompactionRL(tr, cfg.Gamma, cfg.actorLambda(&tr), cfg.CriticLambda)
		}),
	})
	_ = Register(Estimator{
		Name: "outcome-copy", Summary: "outcome at every segment end, undiscounted (baseline)", Values: true,
		Estimate: each(func(tr Trajectory[float32], cfg Config) (float64, error) {
			return 0, OutcomeCopy(tr, cfg.Gamma, cfg.actorLambda(&tr), cfg.CriticLambda)
		}),
	})
	_ = Register(Estimator{
		Name: "reinforce++", Summary: "discounted returns across the cuts, whitened", Whiten: true,
		Estimate: each(func(tr Trajectory[float32], cfg Config) (float64, error) {
			return DiscountedReturns(tr, cfg.Gamma)
		}),
	})
)

// each runs an estimator on every trajectory by itself. The estimator returns
// the reward that it could credit to no action.
func each(estimate func(Trajectory[float32], Config) (dropped float64, err error)) func([]Trajectory[float32], Config) error {
	return func(trajectories []Trajectory[float32], cfg Config) error {
		for _, tr := range trajectories {
			dropped, err := estimate(tr, cfg)
			if err != nil {
				return err
			}
			if dropped != 0 {
				cfg.warn("trajectory %q: reward %v before the first trainable token follows no action: dropped", tr.ID, dropped)
			}
		}
		return nil
	}
}
