package train

import (
	"fmt"
	"time"
)

// stepHeader and stepLine are the columns of the progress table.
const stepHeader = " step  success  return  segments      KL   clip  expl.var  rollout tok/s  train tok/s  time left"

func stepLine(m StepMetrics, left time.Duration) string {
	return fmt.Sprintf("%5d  %7.3f  %6.3f  %8.2f  %6.4f  %5.3f  %8.3f  %13.0f  %11.0f  %9s", m.Step, m.Success, m.ReturnMean,
		m.SegmentsPerTrajectory, m.Update.ApproxKL, m.Update.ClipFraction, m.Update.ExplainedVariance,
		m.Timing.RolloutTokensPerSecond, m.Timing.TrainTokensPerSecond, left)
}
