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
	const listed = 3 // seeds whose success has room in a line
	bySeed := "by seed"
	if len(r.Seeds) > listed {
		bySeed = "lowest highest"
	}
	table := terminal.Table{Header: []string{r.Env, "base", "success", bySeed, "segments", "learnt from", "time"}, Styles: map[int]terminal.Style{2: terminal.Green}}
	for _, m := range methods {
		success := r.Success[m.Name]
		if len(success) > listed {
			success = []float64{slices.Min(success), slices.Max(success)}
		}
		each := make([]string, len(success))
		for k, s := range success {
			each[k] = fmt.Sprintf("%.3f", s)
		}
		table.Add(m.Name, fmt.Sprintf("%.3f", mean(r.WarmStart[m.Name])), fmt.Sprintf("%.3f", mean(r.Success[m.Name])), strings.Join(each, " "),
			fmt.Sprintf("%.1f", mean(r.Segments[m.Name])), fmt.Sprintf("%.2f M", mean(r.RowTokens[m.Name])/1e6), fmt.Sprintf("%.0f s", mean(r.WallSeconds[m.Name])))
	}
	if err := table.Write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "success on unseen tasks, mean over seeds; learnt from: tokens of all rows")
	if err != nil || over != OverCondense {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	costs := terminal.Table{Header: []string{"a trajectory", "model tokens", "calls", "summaries", "drift", "same boundaries"}}
	for _, m := range methods {
		drift := 0.0
		if all := r.LogProbDrift[m.Name]; len(all) > 0 {
			drift = slices.Max(all)
		}
		costs.Add(m.Name, fmt.Sprintf("%.0f", mean(r.PolicyTokens[m.Name])), fmt.Sprintf("%.1f", mean(r.PolicyCalls[m.Name])),
			fmt.Sprintf("%.1f", mean(r.SummaryCalls[m.Name])), fmt.Sprintf("%.1g", drift), fmt.Sprintf("%.1f%%", 100*mean(r.SameBoundaries[m.Name])))
	}
	if err := costs.Write(w); err != nil {
		return err
	}
	_, err = fmt.Fprint(w, "summaries: calls that write one; drift: the largest of log-probs, nats;\nsame boundaries: share of prompts that come out the same when condensed again\n")
	return err
}

func mean[T float64 | int64](xs []T) float64 {
	var sum float64
	for _, x := range xs {
		sum += float64(x)
	}
	return sum / float64(max(1, len(xs)))
}
