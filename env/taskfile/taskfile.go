// Package taskfile reads the user's own tasks: JSON Lines, one task a line.
//
//	{"id": "a1", "prompt": "What is 2 + 3?", "answer": "5", "anything": "else"}
//
// A task opens with its "messages" (the OpenAI form), or with its "prompt" or "question" as
// the user's message. The whole line is the Data of its env.Task.
package taskfile

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
)

const (
	// MaxBytes is the largest file that is read: tasks are held in memory.
	MaxBytes = 8 << 30
	// maxLine is the longest line.
	maxLine = 64 << 20
)

// Split tells which tasks belong to which split.
type Split struct {
	// Field is the field of a line that names its split: train, eval (or validation, valid,
	// dev, test) or clone. With a field there are no shares.
	Field string
	// Eval and Clone are the shares of the tasks that are held out, 0 to 1 together, and
	// Train has the rest. Which tasks they are follows from the ids, not from the order of
	// the lines. A share above 0 has at least one task.
	Eval, Clone float64
}

// Validate says what is wrong.
func (s Split) Validate() error {
	switch {
	case s.Field != "" && (s.Eval != 0 || s.Clone != 0):
		return fmt.Errorf("split: field %q and shares: want one of them", s.Field)
	case !(s.Eval >= 0) || !(s.Clone >= 0) || !(s.Eval+s.Clone < 1): // NaN too
		return fmt.Errorf("split: shares eval %v and clone %v: want 0 or more, below 1 together", s.Eval, s.Clone)
	}
	return nil
}

// File holds the tasks of a file. It is safe for concurrent use.
type File struct{ tasks map[env.Split][]env.Task }

// Open reads a file; see Read.
func Open(path string, split Split) (*File, error) {
	f, _, err := bounded.Open(path, MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	defer f.Close()
	return Read(f, path, split)
}

// Read reads one task a line, and checks each, so that no run finds a bad one after hours.
// A task without an id has "line N". name is the file's in errors.
func Read(r io.Reader, name string, split Split) (*File, error) {
	if err := split.Validate(); err != nil {
		return nil, err
	}
	file, seen := &File{tasks: map[env.Split][]env.Task{}}, map[string]int{}
	var all []env.Task
	err := Lines(r, name, func(line int, data []byte) error {
		task, of, err := read(data, line, split.Field)
		if err != nil {
			return err
		}
		if first, taken := seen[task.ID]; taken {
			return fmt.Errorf("id: %q: line %d has it too", chat.Excerpt(task.ID), first)
		}
		seen[task.ID] = line
		if split.Field == "" {
			all = append(all, task)
		} else {
			file.tasks[of] = append(file.tasks[of], task)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("%s: no task: want one a line", name)
	}
	if split.Field == "" {
		file.share(all, split)
	}
	if len(file.tasks[env.Train]) == 0 {
		return nil, fmt.Errorf("%s: none of %d tasks is one to train on: want a smaller share for eval and clone, or more tasks", name, len(seen))
	}
	return file, nil
}

// Lines calls each with every line that is not blank, from 1, and says in which line what
// it returned was wrong. Lines are UTF-8, of at most 64 MiB.
func Lines(r io.Reader, name string, each func(line int, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	line := 0
	for lines.Scan() {
		line++
		data := lines.Bytes()
		if line == 1 {
			data = bytes.TrimPrefix(data, []byte("\ufeff"))
		}
		if data = bytes.TrimSpace(data); len(data) == 0 {
			continue
		}
		if !utf8.Valid(data) {
			return fmt.Errorf("%s: line %d: not UTF-8", name, line)
		}
		if err := each(line, data); err != nil {
			return fmt.Errorf("%s: line %d: %w", name, line, err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s: line %d: %w: more than %d bytes", name, line+1, bounded.ErrTooLarge, maxLine)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: line %d: %w", name, line+1, err)
	}
	return nil
}

// read returns the task of a line and the split its field names.
func read(data []byte, line int, field string) (env.Task, env.Split, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return env.Task{}, "", fmt.Errorf("%q: want one JSON object: %w", chat.Excerpt(string(data)), err)
	}
	if fields == nil { // null
		return env.Task{}, "", errors.New("null: want one JSON object")
	}
	id, err := ID(fields["id"], line)
	if err != nil {
		return env.Task{}, "", err
	}
	task := env.Task{ID: id, Data: slices.Clone(data)}
	if _, err := Opening(task); err != nil {
		return env.Task{}, "", err
	}
	if field == "" {
		return task, "", nil
	}
	var name string
	if err := json.Unmarshal(fields[field], &name); err != nil {
		return env.Task{}, "", fmt.Errorf("%s: %q: want the name of a split", field, chat.Excerpt(string(fields[field])))
	}
	switch name {
	case "train":
		return task, env.Train, nil
	case "eval", "validation", "valid", "dev", "test":
		return task, env.Eval, nil
	case "clone":
		return task, env.Clone, nil
	}
	return env.Task{}, "", fmt.Errorf("%s: %q: want train, eval (validation, valid, dev, test) or clone", field, chat.Excerpt(name))
}

// ID reads an id, a string or an integer, of line number line; "line N" if it is absent.
func ID(raw json.RawMessage, line int) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return fmt.Sprintf("line %d", line), nil
	}
	var text string
	var number int64
	if json.Unmarshal(raw, &text) == nil && text != "" {
		return text, nil
	}
	if json.Unmarshal(raw, &number) == nil {
		return string(raw), nil
	}
	return "", fmt.Errorf("id: %s: want a string or an integer", chat.Excerpt(string(raw)))
}

// share gives the tasks to splits by rank of the hash of their ids.
func (f *File) share(all []env.Task, split Split) {
	rank := func(t env.Task) string { sum := sha256.Sum256([]byte(t.ID)); return string(sum[:]) }
	ranks := make(map[string]string, len(all))
	for _, t := range all {
		ranks[t.ID] = rank(t)
	}
	slices.SortFunc(all, func(a, b env.Task) int { return cmp.Compare(ranks[a.ID], ranks[b.ID]) })
	count := func(share float64) int {
		if share == 0 {
			return 0
		}
		return min(len(all), max(1, int(math.Round(share*float64(len(all))))))
	}
	evaluated := count(split.Eval)
	cloned := min(len(all)-evaluated, count(split.Clone))
	f.tasks[env.Eval], f.tasks[env.Clone], f.tasks[env.Train] = all[:evaluated], all[evaluated:evaluated+cloned], all[evaluated+cloned:]
}

// Len returns the number of tasks of a split.
func (f *File) Len(split env.Split) int { return len(f.tasks[split]) }

// Task returns task i of a split.
func (f *File) Task(split env.Split, i int) env.Task { return f.tasks[split][i] }

// Opening returns the messages that a task opens with, none if it has none.
func Opening(task env.Task) ([]chat.Message, error) {
	var data struct {
		Messages []chat.Message  `json:"messages"`
		Prompt   json.RawMessage `json:"prompt"`
		Question json.RawMessage `json:"question"`
	}
	if err := json.Unmarshal(task.Data, &data); err != nil {
		return nil, err
	}
	if len(data.Messages) > 0 {
		for i, m := range data.Messages {
			if m.Role != chat.System && m.Role != chat.User {
				return nil, fmt.Errorf("messages[%d]: role %q: want system or user", i, chat.Excerpt(m.Role))
			}
		}
		return data.Messages, nil
	}
	for _, field := range []struct {
		name string
		raw  json.RawMessage
	}{{"prompt", data.Prompt}, {"question", data.Question}} {
		if len(field.raw) == 0 || string(field.raw) == "null" {
			continue
		}
		if strings.HasPrefix(string(field.raw), "[") { // as many data sets have it
			return Opening(env.Task{ID: task.ID, Data: []byte(`{"messages":` + string(field.raw) + `}`)})
		}
		var text string
		if err := json.Unmarshal(field.raw, &text); err != nil || strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("%s: %s: want a text", field.name, chat.Excerpt(string(field.raw)))
		}
		return []chat.Message{{Role: chat.User, Content: text}}, nil
	}
	return nil, nil
}
