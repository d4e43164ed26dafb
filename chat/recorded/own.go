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

// readTrajectory takes the log of a trajectory as it stands: ids, what of them was
// sampled, tasks, and how it ended. What a summary rule wrote is left out. The schemas
// of tools are among the ids of the first message.
func readTrajectory(d document) ([]Run, error) {
	var t trajectory.Trajectory
	if err := json.Unmarshal(d.file.data[d.start:d.end], &t); err != nil {
		return nil, d.errorf("%v", err)
	}
	run := Run{ID: t.ID, Group: t.GroupID, Score: t.Score, HasScore: t.HasScore,
		Outcome: Outcome{Status: t.Status, Error: t.Error, Success: t.Success, HasSuccess: t.HasSuccess}}
	if err := run.options(d.object); err != nil {
		return nil, err
	}
	told := len(t.Entries) // a message with ids that stands before no reply
	for i := len(t.Entries) - 1; i >= 0; i-- {
		e := &t.Entries[i]
		if e.Sampled() || len(e.IDs) > 0 {
			told = i
		}
		// ids of messages that were told at once may all stand with the last of them
		if m := e.Message; len(e.IDs) == 0 && said(Message{Message: m}) && (told == len(t.Entries) || t.Entries[told].Sampled()) {
			return nil, d.errorf("entries[%d].ids: no token ids of a message that says something", i)
		}
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		if !slices.Contains([]chat.Role{chat.System, chat.User, chat.Assistant, chat.ToolRole}, e.Message.Role) {
			return nil, d.errorf("entries[%d]: unknown role %q", i, chat.Excerpt(e.Message.Role))
		}
		if e.Summary {
			continue
		}
		if k := slices.IndexFunc(e.IDs, func(id int32) bool { return id < 0 }); k >= 0 {
			return nil, d.errorf("entries[%d].ids[%d]: token id %d, want 0 or more", i, k, e.IDs[k])
		}
		m := Message{Message: e.Message, IDs: e.IDs, Versions: e.Versions, Reward: e.Reward, Task: e.Task && e.Message.Role == chat.User, at: d.value}
		if m.IDs == nil {
			m.IDs = []int32{}
		}
		if e.Message.Role == chat.Assistant {
			m.Start, m.End, m.LogProbs, m.NotSampled = e.Start, e.End, e.LogProbs, !e.Sampled()
		}
		run.Messages = append(run.Messages, m)
	}
	return []Run{run}, nil
}
