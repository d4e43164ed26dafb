package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/toolcall"
)

// errorRate is how often the demonstrator leaves the path at a hop.
const errorRate = 0.25

// situation is what the window tells: the task, which step is next, and the last
// result.
type situation struct {
	name string
	keys []string // by step: keys[0] belongs to the highest label
	// label of the next step; 0 before the search
	label int
	lines []line
	// said, if not nil, is decided by the window alone: a summary that is asked for,
	// or the page that a summary says was open last.
	said *chat.Message
}

// line is a key in a result with the entity that follows it.
type line struct{ key, entity string }

// read understands a window.
func read(messages []chat.Message) (situation, error) {
	window, err := toolcall.Read(messages)
	if err != nil {
		return situation{}, err
	}
	task := strings.Fields(window.Task) // find the occupation first last : label key … ?
	if len(task) < 9 || task[0] != "find" || task[5] != ":" {
		return situation{}, fmt.Errorf("task %q: want find the … : … ?", window.Task)
	}
	s := situation{name: task[3] + " " + task[4], lines: readLines(window.Result)}
	for i := 7; i < len(task)-1; i += 2 {
		s.keys = append(s.keys, task[i])
	}
	if window.Summary != "" {
		reopened, err := reopen(window.Summary)
		s.said = &reopened
		return s, err
	}
	if !window.HasCall {
		return s, nil
	}
	s.label = len(s.keys)
	if window.Call.Name != "search" {
		var last stepArguments
		if err := toolcall.Arguments(window.Call, &last); err != nil {
			return situation{}, err
		}
		s.label = last.Step - 1
		if window.Summarise {
			s.said = &chat.Message{Role: chat.Assistant, Content: fmt.Sprint(last.Step, " ", last.Key, " ", last.Entity)}
			return s, nil
		}
	}
	if s.label < 1 || s.label > len(s.keys) {
		return situation{}, fmt.Errorf("the task has no step %d", s.label)
	}
	if len(s.lines) == 0 {
		return situation{}, fmt.Errorf("result %q: nothing to go on from", window.Result)
	}
	return s, nil
}

// reopen reads a summary, "step key entity" of the page that was open, and opens it
// again.
func reopen(summary string) (chat.Message, error) {
	words := strings.Fields(summary)
	if len(words) == 3 {
		if step, err := strconv.Atoi(words[0]); err == nil {
			return stepCall(step, line{words[1], words[2]}), nil
		}
	}
	return chat.Message{}, fmt.Errorf("summary %q: want step, key and entity", summary)
}

// readLines finds the keys of a result.
func readLines(result string) []line {
	var lines []line
	words := strings.Fields(result)
	for i := 1; i < len(words); i++ {
		if strings.HasPrefix(words[i], "Q") && isKey(words[i-1]) {
			lines = append(lines, line{words[i-1], words[i]})
		}
	}
	return lines
}

func isKey(word string) bool {
	return slices.Contains(occupations, word) ||
		slices.ContainsFunc(relations, func(r relation) bool { return r.name == word })
}

// choosesBearer tells whether the next step is the first.
func (s situation) choosesBearer() bool { return s.label == len(s.keys) }

// right returns the index of the line that the task asks for, -1 if there is none.
func (s situation) right() int {
	key := s.keys[len(s.keys)-s.label]
	return slices.IndexFunc(s.lines, func(l line) bool { return l.key == key })
}

// take returns the call that follows a line.
func (s situation) take(l line) chat.Message { return stepCall(s.label, l) }

func searchCall(name string) chat.Message {
	return toolcall.New("search", searchArguments{name})
}

// stepCall opens an entity, or answers with it at the last step.
func stepCall(label int, l line) chat.Message {
	verb := "open"
	if label == 1 {
		verb = "answer"
	}
	return toolcall.New(verb, stepArguments{label, l.key, l.entity})
}

// expert always takes the line that the task asks for.
type expert struct{}

var _ curriculum.Actor = expert{}

func (expert) Act(window []chat.Message) (chat.Message, error) {
	s, err := read(window)
	if err != nil {
		return chat.Message{}, fmt.Errorf("search: expert: %w", err)
	}
	if s.said != nil {
		return *s.said, nil
	}
	if s.label == 0 {
		return searchCall(s.name), nil
	}
	i := s.right()
	if i < 0 {
		return chat.Message{}, fmt.Errorf("search: expert: the key of step %d is not in the result", s.label)
	}
	return s.take(s.lines[i]), nil
}

// demonstrator knows the form of every call. It takes any bearer, and at one hop
// in four another fact than the one asked for; where a page lacks that one, any.
type demonstrator struct{ rng *rand.Rand }

func newDemonstrator(seed uint64) *demonstrator {
	return &demonstrator{rand.New(rand.NewPCG(seed, 0))}
}

var _ curriculum.Actor = (*demonstrator)(nil)

func (d *demonstrator) Act(window []chat.Message) (chat.Message, error) {
	s, err := read(window)
	if err != nil {
		return chat.Message{}, fmt.Errorf("search: demonstrator: %w", err)
	}
	if s.said != nil {
		return *s.said, nil
	}
	if s.label == 0 {
		return searchCall(s.name), nil
	}
	return s.take(s.lines[d.choose(s)]), nil
}

func (d *demonstrator) choose(s situation) int {
	right := s.right()
	if s.choosesBearer() || right < 0 {
		return d.rng.IntN(len(s.lines))
	}
	if len(s.lines) == 1 || d.rng.Float64() >= errorRate {
		return right
	}
	other := d.rng.IntN(len(s.lines) - 1)
	if other >= right {
		other++
	}
	return other
}
