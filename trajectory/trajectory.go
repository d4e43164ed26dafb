package trajectory

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Versions are those of the policy that sampled a reply: weights may change while it
// is being sampled.
type Versions struct{ First, Last int64 }

// Entry is one message of the log with its token ids, encoded or sampled once.
type Entry struct {
	Message chat.Message
	IDs     []int32
	// Start and End bound the ids that the policy sampled; equal if it did not.
	// Before them stands the generation prefix, after them the suffix.
	Start, End int
	LogProbs   []float32 // one a sampled id; nil if they are not known
	Versions   Versions  // of the policy that sampled
	Reward     float64   // that the message earned at once
	Summary    bool      // written by or for a condenser that asks for summaries
	// Task marks the user messages before the first assistant message, and any other that
	// states the task.
	Task bool
	// Round is the index of the call message of the entry's tool round, -1 if none.
	Round int
	// Tools names the tools that the entry calls, or the one whose result it is.
	Tools []string
}

// Sampled reports whether the policy wrote the entry.
func (e *Entry) Sampled() bool { return e.End > e.Start }

// Segment is a stretch of the log that one context window held.
type Segment struct {
	// Record tells what the window showed of the log before Start.
	Record condense.Record
	// Start and End bound the log entries that came after: the first is a reply.
	Start, End int
	// InvIter counts the segments from the end, the last being 0; set on closing.
	InvIter int
	// Untrained segments have no trainable tokens: summaries, if not learnt.
	Untrained bool
}

// Trajectory is one task as it was played: the message log and its segments.
type Trajectory struct {
	ID      string
	GroupID string
	// Tools are the schemas of the tools that could be called. The JSON form leaves them
	// out: its entries have the ids of all that was shown.
	Tools   []chat.Tool
	Entries []Entry
	// Segments are in order of time.
	Segments []Segment
	Status   Status
	Score    float64 // the outcome, if HasScore
	HasScore bool
	// Success tells whether the task was solved, if HasSuccess.
	Success, HasSuccess bool
	// Metrics are what the environment counted beside the reward, by name; nil if nothing.
	Metrics map[string]float64
	// Next is the prompt that a truncated trajectory would have gone on from: the state
	// s_T whose value is the bootstrap. Nil if the window itself ended it.
	Next []int32
	// Error is why the status is failed, aborted or context_overflow, or why the
	// condenser truncated the trajectory; "" for none.
	Error string
}

// Len returns the number of messages of the log.
func (t *Trajectory) Len() int { return len(t.Entries) }

// IDs returns the ids of message i.
func (t *Trajectory) IDs(i int) []int32 { return t.Entries[i].IDs }

// OldestVersion is that of the first weights that sampled any of it, the newest that
// there can be if nothing was sampled.
func (t *Trajectory) OldestVersion() int64 {
	oldest := int64(math.MaxInt64)
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Sampled() {
			oldest = min(oldest, e.Versions.First)
		}
	}
	return oldest
}

var _ condense.Log = (*Trajectory)(nil)

// Prompt derives the prompt of segment k, generation prefix included, from the
// log and the segment's record: the ids that the sampler saw.
func (t *Trajectory) Prompt(k int) ([]int32, error) {
	s := &t.Segments[k]
	first := &t.Entries[s.Start]
	prompt := make([]int32, 0, s.Record.TokensAfter+first.Start)
	prompt, err := s.Record.Prompt(prompt, t)
	if err != nil {
		return nil, fmt.Errorf("trajectory %s, segment %d: %w", t.ID, k, err)
	}
	return append(prompt, first.IDs[:first.Start]...), nil
}

// Sample is one segment as a training sample. Slices over the response have the
// length of Response.
type Sample struct {
	TrajectoryID string
	GroupID      string
	InvIter      int
	Status       Status
	Score        float64
	HasScore     bool
	Success      bool
	HasSuccess   bool
	Error        string
	// Next is that of the trajectory, on its last segment.
	Next []int32

	Prompt   []int32
	Response []int32
	// Mask is true on the tokens that the policy sampled in this segment. The
	// response ends with the last of them.
	Mask     []bool
	LogProbs []float32 // 0 where Mask is false; nil if any reply of the row has none
	Rewards  []float32 // on the last token of the replies that earned them; nil if none did

	// OldestVersion and NewestVersion are those of the policies that sampled.
	OldestVersion, NewestVersion int64
	Condense                     json.RawMessage
}

// Samples returns the segments of a closed trajectory in order of time. Each sampled
// token has Mask true in exactly one row, the one in which it was sampled.
func (t *Trajectory) Samples() ([]Sample, error) {
	rows := make([]Sample, 0, len(t.Segments))
	rewarded := slices.ContainsFunc(t.Entries, func(e Entry) bool { return e.Reward != 0 })
	for k := range t.Segments {
		prompt, err := t.Prompt(k)
		if err != nil {
			return nil, err
		}
		row := t.response(&t.Segments[k], rewarded)
		row.Prompt = prompt
		rows = append(rows, row)
	}
	return rows, nil
}

// response returns the row of a segment but for its prompt.
func (t *Trajectory) response(s *Segment, rewarded bool) Sample {
	row := Sample{TrajectoryID: t.ID, GroupID: t.GroupID, InvIter: s.InvIter, Status: t.Status,
		Score: t.Score, HasScore: t.HasScore, Success: t.Success, HasSuccess: t.HasSuccess, Error: t.Error, Condense: s.Record.JSON()}
	if s.InvIter == 0 {
		row.Next = t.Next
	}
	entries := t.Entries[s.Start:s.End]
	known, length := true, -entries[0].Start
	for i := range entries {
		e := &entries[i]
		length += len(e.IDs)
		known = known && (!e.Sampled() || e.LogProbs != nil)
	}
	row.Response = make([]int32, 0, length)
	row.Mask = make([]bool, length)
	if known {
		row.LogProbs = make([]float32, length)
	}
	if rewarded {
		row.Rewards = make([]float32, length)
	}
	last := 0 // response length up to the last sampled token
	for i := range entries {
		e := &entries[i]
		at := len(row.Response) // of the sampled ids
		if i == 0 {
			row.Response = append(row.Response, e.IDs[e.Start:]...)
		} else {
			at += e.Start
			row.Response = append(row.Response, e.IDs...)
		}
		if !e.Sampled() {
			continue
		}
		last = at + e.End - e.Start
		if !s.Untrained {
			for j := at; j < last; j++ {
				row.Mask[j] = true
			}
		}
		if known {
			copy(row.LogProbs[at:last], e.LogProbs)
		}
		if rewarded {
			row.Rewards[last-1] += float32(e.Reward)
		}
		if i == 0 || e.Versions.First < row.OldestVersion {
			row.OldestVersion = e.Versions.First
		}
		row.NewestVersion = max(row.NewestVersion, e.Versions.Last)
	}
	row.Response, row.Mask = row.Response[:last], row.Mask[:last]
	if known {
		row.LogProbs = row.LogProbs[:last]
	}
	if rewarded {
		row.Rewards = row.Rewards[:last]
	}
	return row
}
