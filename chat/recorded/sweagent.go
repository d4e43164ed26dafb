package recorded

import (
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// matchSWEAgent accepts .traj files of SWE-agent: trajectory and history.
func matchSWEAgent(d document) bool { return d.object.has("trajectory", "history") }

func readSWEAgent(d document) ([]Run, error) {
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	list, err := d.object.need("history")
	if err != nil {
		return nil, err
	}
	run.Messages, err = messageList(list)
	if err != nil {
		return nil, err
	}
	markObservations(run.Messages)
	return []Run{run}, nil
}

// matchMiniSWEAgent accepts trajectories of mini-swe-agent: messages that say so,
// or a list of messages in which users report return codes.
func matchMiniSWEAgent(d document) bool {
	if form, _ := d.object.text("trajectory_format"); strings.HasPrefix(form, "mini-swe-agent") {
		return true
	}
	if !d.first.has("role") {
		return false
	}
	for _, item := range d.items {
		if item.kind() != '{' {
			return false
		}
		o, _ := item.object()
		content, _ := o.text("content")
		if role, _ := o.text("role"); role == "user" && strings.HasPrefix(content, "<returncode>") {
			return true
		}
	}
	return false
}

func readMiniSWEAgent(d document) ([]Run, error) {
	runs, err := readMessages(d)
	if err == nil {
		markObservations(runs[0].Messages)
	}
	return runs, err
}

// markObservations marks the user messages after the first assistant message: in
// these forms the environment speaks as the user.
func markObservations(messages []Message) {
	answered := false
	for i := range messages {
		switch messages[i].Role {
		case chat.Assistant:
			answered = true
		case chat.User:
			messages[i].Observation = answered
		}
	}
}
