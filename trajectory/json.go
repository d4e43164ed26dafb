package trajectory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
)

// Form names the JSON form of a trajectory in its field "form".
const Form = "infinirl-trajectory"

// wireTrajectory is the JSON form: log and records, from which every prompt can be
// derived again.
type wireTrajectory struct {
	Form         string             `json:"form"`
	Version      int                `json:"version"`
	TrajectoryID string             `json:"trajectory_id"`
	GroupID      string             `json:"group_id"`
	Status       Status             `json:"status"`
	Score        *float64           `json:"score,omitempty"`
	Success      *bool              `json:"success,omitempty"`
	Metrics      map[string]float64 `json:"metrics,omitempty"`
	Error        string             `json:"error,omitempty"`
	Next         []int32            `json:"next_ids,omitempty"`
	Entries      []wireEntry        `json:"entries"`
	Segments     []wireSegment      `json:"segments"`
}

type wireEntry struct {
	Message chat.Message `json:"message"`
	IDs     []int32      `json:"ids"`
	// Sampled is [start,end) of the ids that the policy sampled.
	Sampled       *[2]int   `json:"sampled,omitempty"`
	LogProbs      []float32 `json:"log_probs,omitempty"`
	PolicyVersion int64     `json:"policy_version,omitempty"`
	// FirstVersion is stated where the weights changed while the policy sampled.
	FirstVersion *int64  `json:"first_policy_version,omitempty"`
	Reward       float64 `json:"reward,omitempty"`
	Summary      bool    `json:"summary,omitempty"`
	// Task is stated where the order of the messages does not tell it.
	Task bool `json:"task,omitempty"`
}

type wireSegment struct {
	Start     int             `json:"start"`
	End       int             `json:"end"`
	InvIter   int             `json:"inv_iter"`
	Untrained bool            `json:"untrained,omitempty"`
	Condense  json.RawMessage `json:"condense"`
}

// MarshalJSON writes the trajectory with its log and records on one line.
func (t *Trajectory) MarshalJSON() ([]byte, error) {
	w := wireTrajectory{Form: Form, Version: 1, TrajectoryID: t.ID, GroupID: t.GroupID, Status: t.Status, Metrics: t.Metrics, Error: t.Error, Next: t.Next,
		Entries: make([]wireEntry, len(t.Entries)), Segments: make([]wireSegment, len(t.Segments))}
	if t.HasScore {
		w.Score = &t.Score
	}
	if t.HasSuccess {
		w.Success = &t.Success
	}
	answered := false
	for i, e := range t.Entries {
		w.Entries[i] = wireEntry{Message: e.Message, IDs: e.IDs, LogProbs: e.LogProbs, PolicyVersion: e.Versions.Last, Reward: e.Reward, Summary: e.Summary}
		w.Entries[i].Task = e.Task && answered
		answered = answered || e.Message.Role == chat.Assistant
		if e.Versions.First != e.Versions.Last {
			w.Entries[i].FirstVersion = &e.Versions.First
		}
		if w.Entries[i].IDs == nil {
			w.Entries[i].IDs = []int32{}
		}
		if e.Sampled() {
			w.Entries[i].Sampled = &[2]int{e.Start, e.End}
		}
	}
	for k, s := range t.Segments {
		w.Segments[k] = wireSegment{Start: s.Start, End: s.End, InvIter: s.InvIter, Untrained: s.Untrained, Condense: s.Record.JSON()}
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote and validates it.
func (t *Trajectory) UnmarshalJSON(data []byte) error {
	var w wireTrajectory
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return err
	}
	if w.Form != Form || w.Version != 1 {
		return fmt.Errorf("form: %q version %d, want %q version 1", chat.Excerpt(w.Form), w.Version, Form)
	}
	*t = Trajectory{ID: w.TrajectoryID, GroupID: w.GroupID, Status: w.Status, Metrics: w.Metrics, Error: w.Error, Next: w.Next}
	if w.Score != nil {
		t.Score, t.HasScore = *w.Score, true
	}
	if w.Success != nil {
		t.Success, t.HasSuccess = *w.Success, true
	}
	var log logger
	for i, from := range w.Entries {
		e := Entry{Message: from.Message, IDs: from.IDs, LogProbs: from.LogProbs, Versions: Versions{from.PolicyVersion, from.PolicyVersion}, Reward: from.Reward, Summary: from.Summary, Task: from.Task}
		if from.FirstVersion != nil {
			e.Versions.First = *from.FirstVersion
		}
		if from.Sampled != nil {
			e.Start, e.End = from.Sampled[0], from.Sampled[1]
			if e.Start < 0 || e.End <= e.Start || e.End > len(e.IDs) {
				return fmt.Errorf("entries[%d].sampled: [%d,%d) of %d ids", i, e.Start, e.End, len(e.IDs))
			}
		}
		if e.LogProbs != nil && len(e.LogProbs) != e.End-e.Start {
			return fmt.Errorf("entries[%d].log_probs: %d for %d sampled ids", i, len(e.LogProbs), e.End-e.Start)
		}
		log.append(t, e)
	}
	for k, from := range w.Segments {
		record, err := condense.ParseRecord(from.Condense)
		if err != nil {
			return fmt.Errorf("segments[%d].condense: %w", k, err)
		}
		t.Segments = append(t.Segments, Segment{Record: record, Start: from.Start, End: from.End, InvIter: from.InvIter, Untrained: from.Untrained})
	}
	return t.Validate()
}

// Validate names the first thing that contradicts the form: an unknown status,
// segments that do not follow one another, records that speak of another log.
func (t *Trajectory) Validate() error {
	if err := t.Status.Validate(); err != nil {
		return err
	}
	for k, s := range t.Segments {
		end := t.Len()
		if k+1 < len(t.Segments) {
			end = t.Segments[k+1].Start
		}
		switch {
		case s.Start < 0 || s.End <= s.Start || s.End != end:
			return fmt.Errorf("segments[%d]: entries [%d,%d) of %d, want them to end at %d where the next segment starts", k, s.Start, s.End, t.Len(), end)
		case s.InvIter != len(t.Segments)-1-k:
			return fmt.Errorf("segments[%d].inv_iter: %d, want %d", k, s.InvIter, len(t.Segments)-1-k)
		case s.Record.Messages != s.Start:
			return fmt.Errorf("segments[%d].condense.messages: %d, want %d, the start of the segment", k, s.Record.Messages, s.Start)
		}
	}
	return nil
}

// ReadAll reads trajectories as JSON Lines; name is for errors, which name the line.
func ReadAll(name string, r io.Reader) ([]*Trajectory, error) {
	var all []*Trajectory
	lines := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark, as some editors write
		}
		if len(bytes.TrimSpace(line)) > 0 {
			t := new(Trajectory)
			if err := json.Unmarshal(line, t); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, number, err)
			}
			all = append(all, t)
		}
		if err != nil {
			return all, nil
		}
	}
}

// WriteAll writes trajectories as JSON Lines.
func WriteAll(w io.Writer, all []*Trajectory) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, t := range all {
		if err := e.Encode(t); err != nil {
			return fmt.Errorf("trajectory %s: %w", t.ID, err)
		}
	}
	return nil
}
