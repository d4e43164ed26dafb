// Package batch holds segments as training rows: one row a segment, every token
// column flat over the concatenated rows, the rows of a trajectory together.
package batch

import (
	"encoding/json"

	"github.com/infinirl/infinirl/trajectory"
)

// Row is one segment: prompt ++ response.
type Row struct {
	TrajectoryID string
	GroupID      string
	// InvIter numbers the segments of a trajectory from its end: the last is 0.
	InvIter int
	// PromptLen is the number of prompt tokens; the rest of the row is response.
	PromptLen int
	Status    trajectory.Status
	// Score is the outcome of the trajectory, given on any of its rows.
	Score    float64
	HasScore bool
	// Success tells whether the trajectory solved its task, if HasSuccess; given
	// on any of its rows.
	Success    bool
	HasSuccess bool
	// Error is why the trajectory ended early, given on any of its rows; "" if
	// nothing went wrong.
	Error string
	// BootstrapValue is V(s_T) of a truncated trajectory, on its last segment.
	BootstrapValue float64
	// NextIDs is the prompt that a truncated trajectory would have gone on from,
	// on its last segment: the state that BootstrapValue is the value of.
	NextIDs []int32
	// PolicyVersion is the newest policy version that sampled a token of the row,
	// OldestPolicyVersion the oldest. A file that names no oldest one means that
	// both are the same.
	PolicyVersion, OldestPolicyVersion int64
	// Condense is the canonical JSON of the record that made the prompt (nil: none).
	Condense json.RawMessage
}

// Batch is a set of rows over flat token columns. A nil column is absent; a
// present one has one entry a token, prompt tokens included (0 there).
type Batch struct {
	Rows []Row
	// CuSeqLens are the row offsets: row i spans [CuSeqLens[i], CuSeqLens[i+1]).
	CuSeqLens []int64

	TokenIDs []int32
	// LossMask is true only on tokens the policy sampled in that segment.
	LossMask []bool

	RolloutLogProbs []float32 // under the sampling distribution, by the sampler
	OldLogProbs     []float32 // by the learner, before the update
	RefLogProbs     []float32 // by the frozen reference policy
	Values          []float32 // V_t: value of the state before token t
	Rewards         []float32 // r_t; where present, scores without rewards are in it
	Advantages      []float32
	Returns         []float32
}

// columns is the table of the float columns, from which reading, writing, copying
// and showing derive: a new column is a field of Batch and a line here.
var columns = [...]struct {
	name  string // in files
	label string // of one entry, in summaries; "" if they leave it out
	of    func(*Batch) *[]float32
}{
	{"rollout_log_probs", "", func(b *Batch) *[]float32 { return &b.RolloutLogProbs }},
	{"old_log_probs", "", func(b *Batch) *[]float32 { return &b.OldLogProbs }},
	{"ref_log_probs", "", func(b *Batch) *[]float32 { return &b.RefLogProbs }},
	{"values", "value", func(b *Batch) *[]float32 { return &b.Values }},
	{columnRewards, "reward", func(b *Batch) *[]float32 { return &b.Rewards }},
	{"advantages", "advantage", func(b *Batch) *[]float32 { return &b.Advantages }},
	{"returns", "return", func(b *Batch) *[]float32 { return &b.Returns }},
}

// columnRewards names the column that any trajectory may do without: its score
// stands for it.
const columnRewards = "rewards"

// Column is a float column of a batch.
type Column struct {
	Name  string // in files
	Label string // of one entry, in summaries; may be empty
	Data  *[]float32
}

// Columns lists the float columns, absent ones too, always in the same order.
func (b *Batch) Columns() (list [len(columns)]Column) {
	for k, c := range columns {
		list[k] = Column{c.name, c.label, c.of(b)}
	}
	return list
}

// Span returns the token range of row i.
func (b *Batch) Span(i int) (start, end int) { return int(b.CuSeqLens[i]), int(b.CuSeqLens[i+1]) }

// Tokens returns the number of tokens of all rows.
func (b *Batch) Tokens() int { return len(b.TokenIDs) }
