package batch

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/trajectory"
)

// randomBatch has rows of whole trajectories in random order, with a random
// choice of columns. Prompt tokens hold 0 in the float columns, as they must.
func randomBatch(rng *rand.Rand, trajectories int) *Batch {
	b := &Batch{CuSeqLens: []int64{0}, TokenIDs: []int32{}, LossMask: []bool{}}
	for _, c := range b.Columns() {
		if rng.IntN(2) == 0 {
			*c.Data = []float32{}
		}
	}
	names := []string{"plain", `quote " and \ slash`, "tab\tnewline\n", "Fahrrad ü 轨迹 🚲", "<&>", "\u2028"}
	statuses := []trajectory.Status{"", trajectory.Finished, trajectory.Truncated, trajectory.ContextOverflow, trajectory.Failed, trajectory.Aborted}
	var rows []Row
	for j := range trajectories {
		segments := 1 + rng.IntN(4)
		group, status := names[rng.IntN(len(names))], statuses[rng.IntN(len(statuses))]
		if rng.IntN(4) == 0 {
			group = ""
		}
		score, scored := rng.NormFloat64(), rng.IntN(segments+1)
		success, told, failure := rng.IntN(2) == 0, rng.IntN(segments+1), names[rng.IntN(len(names))]
		for k := range segments {
			r := Row{TrajectoryID: fmt.Sprint(names[rng.IntN(len(names))], j), GroupID: group, InvIter: segments - 1 - k, Status: status}
			if k > 0 {
				r.TrajectoryID = rows[len(rows)-1].TrajectoryID
			}
			if k == scored {
				r.Score, r.HasScore = score, true
			}
			if rng.IntN(3) == 0 {
				r.BootstrapValue = rng.NormFloat64()
			}
			if rng.IntN(3) == 0 {
				r.PolicyVersion = rng.Int64N(1 << 40)
				r.OldestPolicyVersion = r.PolicyVersion - int64(rng.IntN(3))
			}
			if k == told {
				r.Success, r.HasSuccess, r.Error = success, true, failure
			}
			if k == segments-1 && rng.IntN(3) == 0 {
				for range 1 + rng.IntN(5) {
					r.NextIDs = append(r.NextIDs, rng.Int32())
				}
			}
			if rng.IntN(3) == 0 {
				r.Condense = json.RawMessage(`{"rule":"tool-fifo","dropped":[1,2,{"a":"} ]\""}],"x":null}`)
			}
			rows = append(rows, r)
		}
	}
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	for _, r := range rows {
		r.PromptLen = rng.IntN(5)
		b.Rows = append(b.Rows, r)
		response := rng.IntN(20)
		for t := range r.PromptLen + response {
			b.TokenIDs = append(b.TokenIDs, rng.Int32()-1<<30)
			b.LossMask = append(b.LossMask, t >= r.PromptLen && rng.IntN(10) < 6)
			for _, c := range b.Columns() {
				if *c.Data != nil {
					*c.Data = append(*c.Data, randomFloat(rng, t >= r.PromptLen))
				}
			}
		}
		b.CuSeqLens = append(b.CuSeqLens, int64(len(b.TokenIDs)))
	}
	return b
}

func randomFloat(rng *rand.Rand, response bool) float32 {
	switch {
	case !response || rng.IntN(4) == 0:
		return 0
	case rng.IntN(20) == 0:
		return []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1)), math.MaxFloat32, math.SmallestNonzeroFloat32, 1e-7, 16777216}[rng.IntN(8)]
	}
	return float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12)-6)))
}

// differ names what differs between two batches, "" for nothing. All NaN are
// the same; everything else is compared by its bits.
func differ(a, b *Batch) string {
	if len(a.Rows) != len(b.Rows) {
		return fmt.Sprintf("%d and %d rows", len(a.Rows), len(b.Rows))
	}
	for i := range a.Rows {
		x, y := a.Rows[i], b.Rows[i]
		if string(x.Condense) != string(y.Condense) || (x.Condense == nil) != (y.Condense == nil) {
			return fmt.Sprintf("row %d: condense %s and %s", i, x.Condense, y.Condense)
		}
		x.Condense, y.Condense = nil, nil
		if fmt.Sprintf("%+v", x) != fmt.Sprintf("%+v", y) {
			return fmt.Sprintf("row %d: %+v and %+v", i, x, y)
		}
	}
	if !slices.Equal(a.CuSeqLens, b.CuSeqLens) || !slices.Equal(a.TokenIDs, b.TokenIDs) || !slices.Equal(a.LossMask, b.LossMask) {
		return "offsets, tokens or mask"
	}
	theirs := b.Columns()
	for k, c := range a.Columns() {
		x, y := *c.Data, *theirs[k].Data
		if (x == nil) != (y == nil) || len(x) != len(y) {
			return fmt.Sprintf("%s: absent in one, or %d and %d entries", c.Name, len(x), len(y))
		}
		for t := range x {
			if math.Float32bits(x[t]) != math.Float32bits(y[t]) && (x[t] == x[t] || y[t] == y[t]) {
				return fmt.Sprintf("%s: token %d: %v and %v", c.Name, t, x[t], y[t])
			}
		}
	}
	return ""
}

func TestSelectAppend(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		b := randomBatch(rng, 1+rng.IntN(6))
		n := len(b.Rows)
		all := rng.Perm(n)
		at := rng.IntN(n + 1)
		joined := b.Select(all[:at])
		if err := joined.Append(b.Select(all[at:])); err != nil {
			t.Fatal(err)
		}
		back := make([]int, n)
		for place, i := range all {
			back[i] = place
		}
		if d := differ(b, joined.Select(back)); d != "" {
			t.Fatalf("selected, appended and put in order again: %s", d)
		}
	}
	a, b := randomBatch(rng, 2), randomBatch(rng, 2)
	a.Values, b.Values = make([]float32, len(a.TokenIDs)), nil
	a.Rewards, b.Rewards = nil, nil
	if err := a.Append(b); err == nil {
		t.Error("batches of different columns were appended")
	}
}

func TestKeepAndSliceAreSelect(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 1))
	for range 50 {
		b := randomBatch(rng, 1+rng.IntN(6))
		from := rng.IntN(len(b.Rows) + 1)
		to := from + rng.IntN(len(b.Rows)-from+1)
		if d := differ(b.Slice(from, to), b.Select(span(from, to))); d != "" {
			t.Fatalf("slice: %s", d)
		}
		var rows []int
		for i := range b.Rows {
			if rng.IntN(2) == 0 {
				rows = append(rows, i)
			}
		}
		want := b.Select(rows)
		if b.Keep(rows); len(rows) > 0 {
			if d := differ(b, want); d != "" {
				t.Fatalf("keep: %s", d)
			}
		}
	}
}

func TestValidateAcceptsRandomBatches(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 1))
	for range 100 {
		if err := randomBatch(rng, 1+rng.IntN(6)).Validate(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrajectories(t *testing.T) {
	t.Parallel()
	b := &Batch{Rows: []Row{
		{TrajectoryID: "b", InvIter: 1, GroupID: "g", Status: trajectory.Truncated, BootstrapValue: 9},
		{TrajectoryID: "a", InvIter: 0, GroupID: "h", Score: 2, HasScore: true, BootstrapValue: 5},
		{TrajectoryID: "b", InvIter: 0, GroupID: "g", BootstrapValue: 3, Score: 1, HasScore: true},
		{TrajectoryID: "b", InvIter: 2, GroupID: "g", Score: 1, HasScore: true},
	}}
	got, err := b.Trajectories()
	if err != nil {
		t.Fatal(err)
	}
	want := []Trajectory{
		{ID: "b", GroupID: "g", Status: trajectory.Truncated, Rows: []int{3, 0, 2}, Score: 1, HasScore: true, BootstrapValue: 3},
		{ID: "a", GroupID: "h", Status: trajectory.Finished, Rows: []int{1}, Score: 2, HasScore: true},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("trajectories %+v: want %+v", got, want)
	}
}

func TestPlaceScores(t *testing.T) {
	t.Parallel()
	b := &Batch{
		Rows:      []Row{{TrajectoryID: "a", InvIter: 1}, {TrajectoryID: "a", Score: 3, HasScore: true}, {TrajectoryID: "b", Score: 4, HasScore: true}},
		CuSeqLens: []int64{0, 2, 3, 4}, TokenIDs: make([]int32, 4), LossMask: []bool{true, true, false, false},
	}
	if err := b.PlaceScores(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Rewards, []float32{0, 3, 0, 0}) {
		t.Errorf("rewards %v: want the score on the last trainable token, in the earlier segment", b.Rewards)
	}
	b.Rewards = []float32{1, 0, 0, 0}
	if err := b.PlaceScores(); err != nil || b.Rewards[1] != 0 {
		t.Errorf("rewards that were there: %v, %v", b.Rewards, err)
	}
}

func TestCheckRanges(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for name, c := range map[string]struct {
		change func(*Batch)
		want   string
	}{
		"nothing":                  {func(*Batch) {}, ""},
		"bootstrap of a finished":  {func(b *Batch) { b.Rows[1].BootstrapValue = nan }, `trajectory "t", inv_iter 0: bootstrap_value NaN`},
		"bootstrap of an earlier":  {func(b *Batch) { b.Rows[0].BootstrapValue = math.Inf(1) }, "inv_iter 1: bootstrap_value +Inf"},
		"version":                  {func(b *Batch) { b.Rows[1].PolicyVersion = -1 }, "policy_version -1"},
		"oldest version":           {func(b *Batch) { b.Rows[1].OldestPolicyVersion = -2 }, "oldest_policy_version -2"},
		"rollout":                  {func(b *Batch) { b.RolloutLogProbs = []float32{0, 0, 0, 0.5} }, "inv_iter 0, response token 1: rollout_log_probs: 0.5"},
		"old":                      {func(b *Batch) { b.OldLogProbs = []float32{0, 2, 0, 0} }, "inv_iter 1, response token 0: old_log_probs: 2"},
		"reference":                {func(b *Batch) { b.RefLogProbs = []float32{0, 2, 0, 0} }, "ref_log_probs: 2"},
		"rounding":                 {func(b *Batch) { b.RolloutLogProbs = []float32{0, 1e-4, 0, 1e-3} }, ""},
		"at tokens not trained":    {func(b *Batch) { b.RolloutLogProbs = []float32{3, -1, 3, -1} }, ""},
		"rewards are no log-probs": {func(b *Batch) { b.Rewards = []float32{0, 2, 0, 0} }, ""},
	} {
		b := &Batch{Rows: []Row{{TrajectoryID: "t", InvIter: 1, PromptLen: 1}, {TrajectoryID: "t"}},
			CuSeqLens: []int64{0, 2, 4}, TokenIDs: make([]int32, 4), LossMask: []bool{false, true, false, true}}
		c.change(b)
		if err := b.CheckRanges(); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
