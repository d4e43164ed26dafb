package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/question"
	"github.com/infinirl/infinirl/env/taskfile"
)

// The rewards there are.
const (
	RewardF1         = "f1"
	RewardExactMatch = "exact_match"
)

// Grader compares answers with the "answer" of a task, a text or a list of texts of which
// each is right. Success is an exact match.
type Grader struct {
	// Reward is RewardF1 or RewardExactMatch.
	Reward string
}

var _ question.Grader = Grader{}

// Check tells whether all tasks of a file can be graded.
func (g Grader) Check(file *taskfile.File) error {
	if g.Reward != RewardF1 && g.Reward != RewardExactMatch {
		return fmt.Errorf("reward: %q: want %s or %s", g.Reward, RewardF1, RewardExactMatch)
	}
	for _, split := range []env.Split{env.Train, env.Eval, env.Clone} {
		for i := range file.Len(split) {
			if _, err := right(file.Task(split, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Grade grades the last message; see question.Answer.
func (g Grader) Grade(_ context.Context, task env.Task, conversation []chat.Message) (question.Grade, error) {
	answers, err := right(task)
	if err != nil {
		return question.Grade{}, err
	}
	if len(conversation) == 0 {
		return question.Grade{}, errors.New("no answer in the conversation")
	}
	answer := question.Answer(conversation[len(conversation)-1])
	f1, exact := F1(answer, answers), 0.0
	grade := question.Grade{Success: ExactMatch(answer, answers)}
	if grade.Success {
		exact = 1
	}
	grade.Metrics = map[string]float64{RewardF1: f1, RewardExactMatch: exact}
	grade.Reward = grade.Metrics[g.Reward]
	return grade, nil
}

// right returns the answers that are right.
func right(task env.Task) ([]string, error) {
	var data struct {
		Answer json.RawMessage `json:"answer"`
	}
	if err := json.Unmarshal(task.Data, &data); err != nil {
		return nil, fmt.Errorf("task %q: %w", chat.Excerpt(task.ID), err)
	}
	var one *string
	var many []string
	if json.Unmarshal(data.Answer, &one) == nil && one != nil {
		return []string{*one}, nil
	}
	if json.Unmarshal(data.Answer, &many) == nil && len(many) > 0 {
		return many, nil
	}
	return nil, fmt.Errorf("task %q: answer: %s: want a text or a list of texts", chat.Excerpt(task.ID), chat.Excerpt(string(data.Answer)))
}
