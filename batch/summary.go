package batch

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// WriteSummary describes the batch for people: its size, columns and
// trajectories, and of the first most trajectories every segment with its runs
// of tokens, +n trainable and -n not:
//
//	trajectory "t0"  group "g0"  finished  score 1
//	  inv_iter 2  prompt 12  response +24 -130 +18  advantage 0.41 to 0.52
func (b *Batch) WriteSummary(w io.Writer, most int) error {
	trajectories, err := b.Trajectories()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, b.totals(trajectories))
	for k := 0; k < len(trajectories) && err == nil; k++ {
		if k == most {
			_, err = fmt.Fprintf(w, "\nand %d more trajectories\n", len(trajectories)-most)
			break
		}
		_, err = io.WriteString(w, "\n"+b.describeTrajectory(trajectories[k]))
	}
	return err
}

// totals are the lines about the batch as a whole.
func (b *Batch) totals(trajectories []Trajectory) string {
	var out strings.Builder
	groups, statuses := map[string]bool{}, map[string]int{}
	most := 0
	for _, t := range trajectories {
		groups[t.GroupID] = true
		statuses[string(t.Status)]++
		most = max(most, len(t.Rows))
	}
	trainable, prompt := 0, 0
	lengths := make([]int, len(b.Rows))
	for i := range b.Rows {
		start, end := b.Span(i)
		lengths[i] = end - start
		prompt += b.Rows[i].PromptLen
		trainable += b.Trainable(i)
	}
	slices.Sort(lengths)
	share := 0.0
	if b.Tokens() > 0 {
		share = 100 * float64(trainable) / float64(b.Tokens())
	}
	fmt.Fprintf(&out, "rows          %d (%d tokens shortest, %d median, %d longest)\n", len(b.Rows), lengths[0], lengths[len(lengths)/2], lengths[len(lengths)-1])
	fmt.Fprintf(&out, "trajectories  %d in %d groups, up to %d segments\n", len(trajectories), len(groups), most)
	var list []string
	for _, s := range slices.Sorted(keys(statuses)) {
		list = append(list, fmt.Sprintf("%d %s", statuses[s], s))
	}
	fmt.Fprintf(&out, "status        %s\n", strings.Join(list, ", "))
	fmt.Fprintf(&out, "tokens        %d: %d prompt, %d trainable (%.1f%%)\n", b.Tokens(), prompt, trainable, share)
	list = nil
	for _, c := range b.Columns() {
		if *c.Data != nil {
			list = append(list, c.Name)
		}
	}
	if list == nil {
		list = []string{"none"}
	}
	fmt.Fprintf(&out, "columns       %s\n", strings.Join(list, ", "))
	return out.String()
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (b *Batch) describeTrajectory(t Trajectory) string {
	var out strings.Builder
	fmt.Fprintf(&out, "trajectory %q", t.ID)
	if t.GroupID != "" {
		fmt.Fprintf(&out, "  group %q", t.GroupID)
	}
	fmt.Fprintf(&out, "  %s", t.Status)
	if t.HasScore {
		fmt.Fprintf(&out, "  score %.4g", t.Score)
	}
	if t.HasSuccess {
		fmt.Fprintf(&out, "  success %v", t.Success)
	}
	if t.BootstrapValue != 0 {
		fmt.Fprintf(&out, "  bootstrap value %.4g", t.BootstrapValue)
	}
	if t.Error != "" {
		fmt.Fprintf(&out, "  error %q", chat.Excerpt(t.Error))
	}
	out.WriteByte('\n')
	for _, i := range t.Rows {
		fmt.Fprintf(&out, "  inv_iter %d  prompt %d  response %s", b.Rows[i].InvIter, b.Rows[i].PromptLen, b.runs(i))
		for _, c := range b.Columns() {
			if low, high, any := b.rangeOf(*c.Data, i); any && c.Label != "" {
				fmt.Fprintf(&out, "  %s %.4g", c.Label, low)
				if high != low {
					fmt.Fprintf(&out, " to %.4g", high)
				}
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// runs lists the runs of the response, the middle left out if there are many.
func (b *Batch) runs(i int) string {
	start, end := b.Span(i)
	mask := b.LossMask[start+b.Rows[i].PromptLen : end]
	var list []string
	for t := 0; t < len(mask); {
		k := t
		for k < len(mask) && mask[k] == mask[t] {
			k++
		}
		sign := "-"
		if mask[t] {
			sign = "+"
		}
		list = append(list, fmt.Sprint(sign, k-t))
		t = k
	}
	if len(list) == 0 {
		return "empty"
	}
	if n := len(list); n > 12 {
		list = slices.Concat(list[:6], []string{fmt.Sprintf("… %d more …", n-9)}, list[n-3:])
	}
	return strings.Join(list, " ")
}

// rangeOf is the least and the greatest entry of a column at the trainable
// tokens of row i.
func (b *Batch) rangeOf(column []float32, i int) (low, high float32, any bool) {
	if column == nil {
		return 0, 0, false
	}
	start, end := b.Span(i)
	for t := start; t < end; t++ {
		if !b.LossMask[t] {
			continue
		}
		if x := column[t]; !any {
			low, high, any = x, x, true
		} else {
			low, high = min(low, x), max(high, x)
		}
	}
	return low, high, any
}

// CheckFinite returns an error that names column, trajectory, segment and
// token if a column holds a NaN or infinity at a trainable token.
func (b *Batch) CheckFinite() error {
	for _, c := range b.Columns() {
		for i := range b.Rows {
			start, end := b.Span(i)
			for t := start; t < end && *c.Data != nil; t++ {
				if x := (*c.Data)[t]; b.LossMask[t] && x-x != 0 {
					return fmt.Errorf("%s, response token %d: %s: %v: want a finite number at a trainable token", b.Describe(i), t-start-b.Rows[i].PromptLen, c.Name, x)
				}
			}
		}
	}
	return nil
}
