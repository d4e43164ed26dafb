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
	// BootstrapValue is V(s_T) of a truncated trajectory, on its last segment.
	BootstrapValue float64
	// PolicyVersion is the newest policy version that sampled a token of the row.
	PolicyVersion int64
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
	Rewards         []float32
	Advantages      []float32
	Returns         []float32
}

// Span returns the token range of row i.
func (b *Batch) Span(i int) (start, end int) { return int(b.CuSeqLens[i]), int(b.CuSeqLens[i+1]) }

// Tokens returns the number of tokens of all rows.
func (b *Batch) Tokens() int { return len(b.TokenIDs) }
