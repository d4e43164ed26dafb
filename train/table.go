package train

import (
	"fmt"
	"time"

	"github.com/infinirl/infinirl/terminal"
)

// stepHeader and stepLine are the columns of the progress table, 80 in all. Rates are in
// tokens a second.
var stepHeader = terminal.Line{{Style: terminal.Bold, Text: "" +
	"                                                            tokens/second\n" +
	"step  success  return  segments       KL   clip  expl.var  rollout  train   left"}}

// stepLine has a second line where trajectories were lost or cut short.
func stepLine(m StepMetrics, left time.Duration) terminal.Line {
	line := terminal.Line{
		{Text: fmt.Sprintf("%4d  ", m.Step)},
		{Text: fmt.Sprintf("%7.3f", m.Success), Style: terminal.Green},
		{Text: fmt.Sprintf("  %s  %s  %s  %5.3f  %s  %7s  %5s %6s", fit(m.ReturnMean, 6, 3), fit(m.SegmentsPerTrajectory, 8, 2), fit(m.Update.ApproxKL, 7, 4),
			m.Update.ClipFraction, fit(m.Credit.ExplainedVariance, 8, 3), short(m.Timing.RolloutTokensPerSecond), short(m.Timing.TrainTokensPerSecond), clock(left))},
	}
	if lost := lostLine(m); lost != nil {
		line = append(append(line, terminal.Span{Text: "\n      "}), lost...)
	}
	return line
}

// lostLine counts, in words, what did not end by itself; nil if nothing.
func lostLine(m StepMetrics) terminal.Line {
	var line terminal.Line
	for _, c := range []struct {
		n     int
		what  string
		style terminal.Style
	}{
		{m.Failed, "failed", terminal.Red},
		{m.Overflowed, "overflowed", terminal.Yellow},
		{m.Truncated - m.Overflowed, "truncated", terminal.Yellow},
		{m.Stale, "stale", terminal.Yellow},
	} {
		if c.n == 0 {
			continue
		}
		if line != nil {
			line = append(line, terminal.Span{Text: ", "})
		}
		line = append(line, terminal.Span{Text: fmt.Sprintf("%d %s", c.n, c.what), Style: c.style})
	}
	if line != nil {
		line = append(line, terminal.Span{Text: fmt.Sprintf(" of %d trajectories", m.Trajectories)})
	}
	return line
}

// fit writes a number in a width, with at most so many decimals.
func fit(x float64, width, decimals int) string {
	for ; decimals >= 0; decimals-- {
		if text := fmt.Sprintf("%*.*f", width, decimals, x); len(text) <= width {
			return text
		}
	}
	return fmt.Sprintf("%*.0e", width, x)
}

// short is a rate in at most five characters.
func short(x float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		if x < 9.995 && unit != "" {
			return fmt.Sprintf("%.2f%s", x, unit)
		}
		if x < 999.5 {
			return fmt.Sprintf("%.0f%s", x, unit)
		}
		x /= 1000
	}
	return fmt.Sprintf("%.0fT", x)
}

// clock is a duration in at most six characters: 45s, 1m07s, 3h20m, 12d03h.
func clock(d time.Duration) string {
	d = d.Round(time.Second)
	switch minutes, hours := int(d.Minutes()), int(d.Hours()); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", minutes, int(d.Seconds())%60)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", hours, minutes%60)
	default:
		return fmt.Sprintf("%dd%02dh", hours/24, hours%24)
	}
}
