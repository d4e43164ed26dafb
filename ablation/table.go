package ablation

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/terminal"
)

// Table prints one line a method; over condensing rules a second table, of what each costs.
func (r *Result) Table(w io.Writer, methods []Method, over string) error {
	const listed = 3 // seeds that have room in a line
	bySeed := "by seed"
	if len(r.Seeds) > listed {
		bySeed = "lowest highest"
	}
	to := fmt.Sprintf("to %g", r.Threshold)
	table := terminal.Table{Header: []string{r.Env, "base", short(r.Metric), bySeed, "return", to, "seconds"}, Styles: map[int]terminal.Style{2: terminal.Green}}
	for _, m := range methods {
		reached := r.Reached[m.Name]
		if len(reached) > listed {
			reached = []float64{slices.Min(reached), slices.Max(reached)}
		}
		each := make([]string, len(reached))
		for k, s := range reached {
			each[k] = fmt.Sprintf("%.3f", s)
		}
		table.Add(m.Name, fmt.Sprintf("%.3f", mean(r.WarmStart[m.Name])), fmt.Sprintf("%.3f", mean(r.Reached[m.Name])), strings.Join(each, " "),
			fmt.Sprintf("%.3g", mean(r.Return[m.Name])), until(r.Trajectories[m.Name]), until(r.Seconds[m.Name]))
	}
	if err := table.Write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s and return: on unseen tasks, mean over seeds\nto %g: trajectories played, and seconds, until the mean of three steps was\nthere; k of n: only these seeds arrived\n", r.Metric, r.Threshold)
	if err != nil || over != OverCondense {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	costs := terminal.Table{Header: []string{"a trajectory", "segments", "model tokens", "calls", "summaries", "drift", "same boundaries"}}
	for _, m := range methods {
		drift := 0.0
		if all := r.LogProbDrift[m.Name]; len(all) > 0 {
			drift = slices.Max(all)
		}
		costs.Add(m.Name, fmt.Sprintf("%.1f", mean(r.Segments[m.Name])), fmt.Sprintf("%.0f", mean(r.PolicyTokens[m.Name])), fmt.Sprintf("%.1f", mean(r.PolicyCalls[m.Name])),
			fmt.Sprintf("%.1f", mean(r.SummaryCalls[m.Name])), fmt.Sprintf("%.1g", drift), fmt.Sprintf("%.1f%%", 100*mean(r.SameBoundaries[m.Name])))
	}
	if err := costs.Write(w); err != nil {
		return err
	}
	_, err = fmt.Fprint(w, "summaries: calls that write one; drift: the largest of log-probs, nats;\nsame boundaries: share of prompts that come out the same when condensed again\n")
	return err
}

// short is a metric's name in ten characters at most.
func short(name string) string {
	if runes := []rune(name); len(runes) > 10 {
		return string(runes[:9]) + "…"
	}
	return name
}

// until is the mean of what the seeds that arrived took, and how many these are if not all.
func until(took []*float64) string {
	var arrived []float64
	for _, x := range took {
		if x != nil {
			arrived = append(arrived, *x)
		}
	}
	switch len(arrived) {
	case 0:
		return "never"
	case len(took):
		return fmt.Sprintf("%.0f", mean(arrived))
	}
	return fmt.Sprintf("%.0f (%d of %d)", mean(arrived), len(arrived), len(took))
}

func mean[T float64 | int64](xs []T) float64 {
	var sum float64
	for _, x := range xs {
		sum += float64(x)
	}
	return sum / float64(max(1, len(xs)))
}
