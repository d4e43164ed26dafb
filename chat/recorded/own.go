package recorded

import (
	"encoding/json"
	"slices"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/trajectory"
)

// matchTrajectory accepts the trajectories of this project.
func matchTrajectory(d document) bool {
	form, _ := d.object.text("form")
	return form == trajectory.Form
}

// readTrajectory takes the log of a trajectory, with its ids; what a summary rule
// wrote is left out. Generation prefixes go to the message before the reply, and
// what completes a reply to the message after it.
func readTrajectory(d document) ([]Run, error) {
	var t trajectory.Trajectory
	if err := json.Unmarshal(d.file.data[d.start:d.end], &t); err != nil {
		return nil, d.errorf("%v", err)
	}
	run := Run{ID: t.ID, Group: t.GroupID, Score: t.Score, HasScore: t.HasScore}
	var suffix []int32
	for _, e := range t.Entries {
		if e.Summary {
			continue
		}
		m := Message{Message: e.Message, IDs: slices.Concat(suffix, e.IDs), at: d.value}
		m.NotSampled = e.Message.Role == chat.Assistant && !e.Sampled()
		suffix = nil
		if e.Sampled() {
			if n := len(run.Messages); n > 0 {
				run.Messages[n-1].IDs = slices.Concat(run.Messages[n-1].IDs, m.IDs[:len(m.IDs)-len(e.IDs)], e.IDs[:e.Start])
			}
			m.IDs, suffix = e.IDs[e.Start:e.End], e.IDs[e.End:]
			m.LogProbs = e.LogProbs
		}
		run.Messages = append(run.Messages, m)
	}
	return []Run{run}, nil
}
