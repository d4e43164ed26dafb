package estimator

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/advantage"
	"github.com/infinirl/infinirl/batch"
)

// rows returns a batch of rows of prompt 1 and three response tokens, the second of
// which was not sampled. The score stands on every row of its trajectory.
func rows(trajectories ...[]batch.Row) *batch.Batch {
	b := &batch.Batch{CuSeqLens: []int64{0}}
	for _, segments := range trajectories {
		for k, row := range segments {
			row.InvIter, row.PromptLen, row.HasScore = len(segments)-1-k, 1, true
			b.Rows = append(b.Rows, row)
			b.TokenIDs, b.LossMask = append(b.TokenIDs, 1, 2, 3, 4), append(b.LossMask, false, true, false, true)
			b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
		}
	}
	return b
}

func row(id, group string, score float64) batch.Row {
	return batch.Row{TrajectoryID: id, GroupID: group, Score: score}
}

// The case on paper: scores 1, 0 and 0.5 of one group, so that advantages are
// 1 − 0.25, 0 − 0.75 and 0.5 − 0.5; γ = ½; cut twice, not at all, and once.
func TestOnPaper(t *testing.T) {
	t.Parallel()
	a, b, c := row("a", "g", 1), row("b", "g", 0), row("c", "g", 0.5)
	of := rows([]batch.Row{a, a, a}, []batch.Row{b}, []batch.Row{c, c})
	if err := advantage.Compute(of, advantage.Config{Estimator: Name, Gamma: 0.5}); err != nil {
		t.Fatal(err)
	}
	want := []float32{
		0, 0.1875, 0, 0.1875, // two cuts before the end, and yet the score arrives
		0, 0.375, 0, 0.375,
		0, 0.75, 0, 0.75,
		0, -0.75, 0, -0.75,
		0, 0, 0, 0,
		0, 0, 0, 0,
	}
	if !reflect.DeepEqual(of.Advantages, want) || !reflect.DeepEqual(of.Returns, want) {
		t.Errorf("advantages %v, returns %v, want %v", of.Advantages, of.Returns, want)
	}
}

// With γ = 1 cuts make no difference: it is RLOO.
func TestWithoutDiscountItIsRLOO(t *testing.T) {
	t.Parallel()
	of := func(estimator string) []float32 {
		var all [][]batch.Row
		for i, score := range []float64{1, 0, 3, -2, 0.5} {
			r := row(string(rune('a'+i)), string(rune('p'+i%2)), score)
			all = append(all, []batch.Row{r, r, r}[:1+i%3])
		}
		b := rows(all...)
		if err := advantage.Compute(b, advantage.Config{Estimator: estimator, Gamma: 1}); err != nil {
			t.Fatal(err)
		}
		return b.Advantages
	}
	if got, want := of(Name), of("rloo"); !reflect.DeepEqual(got, want) {
		t.Errorf("advantages %v, want %v", got, want)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, want string
		of         *batch.Batch
	}{
		{"no group", "no group_id", rows([]batch.Row{row("a", "", 1)})},
		{"groups of one", "nothing to compare", rows([]batch.Row{row("a", "g", 1)}, []batch.Row{row("b", "h", 1)})},
		{"an infinite score", "score +Inf", rows([]batch.Row{row("a", "g", math.Inf(1))}, []batch.Row{row("b", "g", 1)})},
		{"a score that is none", "score NaN", rows([]batch.Row{row("a", "g", math.NaN())}, []batch.Row{row("b", "g", 1)})},
	} {
		err := advantage.Compute(test.of, advantage.Config{Estimator: Name, Gamma: 1})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}
