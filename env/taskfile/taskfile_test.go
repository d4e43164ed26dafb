package taskfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
)

func TestSplitByField(t *testing.T) {
	t.Parallel()
	const lines = "\ufeff" + `{"id": "a", "split": "train", "prompt": "x"}

{"id": 7, "split": "test", "question": "y", "answer": 3}
{"split": "validation", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}
{"id": null, "split": "clone", "prompt": [{"role": "user", "content": "p"}], "more": {"a": [1]}}
`
	file, err := Read(strings.NewReader(lines), "tasks", Split{Field: "split"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		split   env.Split
		ids     []string
		opening string
	}{{env.Train, []string{"a"}, "user x"}, {env.Eval, []string{"7", "line 4"}, "user y"}, {env.Clone, []string{"line 5"}, "user p"}} {
		var ids []string
		for i := range file.Len(test.split) {
			ids = append(ids, file.Task(test.split, i).ID)
		}
		opening, err := Opening(file.Task(test.split, 0))
		if err != nil || !slices.Equal(ids, test.ids) || len(opening) != 1 || fmt.Sprint(opening[0].Role, " ", opening[0].Content) != test.opening {
			t.Errorf("%s: %q, %+v, error %v", test.split, ids, opening, err)
		}
	}
	if opening, err := Opening(file.Task(env.Eval, 1)); err != nil || len(opening) != 2 || opening[0].Role != chat.System {
		t.Errorf("%+v, error %v", opening, err)
	}
	if got := string(file.Task(env.Eval, 0).Data); got != `{"id": 7, "split": "test", "question": "y", "answer": 3}` {
		t.Errorf("data %s", got)
	}
}

// Shares do not depend on the order of lines, and no task is lost or in two splits.
func TestSplitByShare(t *testing.T) {
	t.Parallel()
	read := func(n int, backwards bool, split Split) *File {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf(`{"id": "t%d", "prompt": "x"}`, i))
		}
		if backwards {
			slices.Reverse(lines)
		}
		file, err := Read(strings.NewReader(strings.Join(lines, "\n")), "tasks", split)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, test := range []struct {
		n                  int
		split              Split
		train, eval, clone int
	}{{10, Split{}, 10, 0, 0}, {10, Split{Eval: 0.2}, 8, 2, 0}, {10, Split{Eval: 0.01, Clone: 0.3}, 6, 1, 3}, {1000, Split{Eval: 0.5, Clone: 0.25}, 250, 500, 250}} {
		file, again := read(test.n, false, test.split), read(test.n, true, test.split)
		seen := map[string]bool{}
		for split, want := range map[env.Split]int{env.Train: test.train, env.Eval: test.eval, env.Clone: test.clone} {
			if file.Len(split) != want {
				t.Errorf("%+v of %d: %d in %s, want %d", test.split, test.n, file.Len(split), split, want)
			}
			for i := range file.Len(split) {
				id := file.Task(split, i).ID
				if seen[id] || again.Task(split, i).ID != id {
					t.Errorf("task %s of %s is twice there, or %s in another order of lines", id, split, again.Task(split, i).ID)
				}
				seen[id] = true
			}
		}
		if len(seen) != test.n {
			t.Errorf("%d of %d tasks", len(seen), test.n)
		}
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	const good = `{"id": "a", "prompt": "x", "split": "train"}` + "\n"
	for _, test := range []struct {
		text  string
		split Split
		want  string
	}{
		{"", Split{}, "tasks: no task"},
		{good + "nonsense", Split{}, `tasks: line 2: "nonsense": want one JSON object`},
		{good + "[]", Split{}, "tasks: line 2: "},
		{good + "null", Split{}, "tasks: line 2: null"},
		{good + `{"id": "b"} {}`, Split{}, "tasks: line 2: "},
		{good + "\n" + good, Split{}, `tasks: line 3: id: "a": line 1 has it too`},
		{good + `{"id": {}}`, Split{}, "tasks: line 2: id: {}: want a string or an integer"},
		{good + `{"id": ""}`, Split{}, "tasks: line 2: id: "},
		{good + `{"id": 1.5}`, Split{}, "tasks: line 2: id: 1.5"},
		{good + `{"prompt": " "}`, Split{}, "tasks: line 2: prompt: "},
		{good + `{"question": 7}`, Split{}, "tasks: line 2: question: 7: want a text"},
		{good + `{"messages": [{"role": "assistant", "content": "x"}]}`, Split{}, `messages[0]: role "assistant"`},
		{good + `{"messages": [{"role": "user", "content": [{"type": "image"}]}]}`, Split{}, `a part of type "image"`},
		{good + "{\"prompt\": \"\xff\"}", Split{}, "tasks: line 2: not UTF-8"},
		{good + `{"prompt": "x", "split": "later"}`, Split{Field: "split"}, `line 2: split: "later": want train`},
		{good + `{"prompt": "x"}`, Split{Field: "split"}, "line 2: split: "},
		{strings.ReplaceAll(good, "train", "eval"), Split{Field: "split"}, "none of 1 tasks is one to train on"},
		{good, Split{Eval: 0.1}, "none of 1 tasks is one to train on"},
		{good, Split{Field: "split", Eval: 0.1}, "want one of them"},
		{good, Split{Eval: 0.6, Clone: 0.4}, "below 1 together"},
		{good, Split{Eval: -1}, "below 1 together"},
		{good + `{"prompt": "` + strings.Repeat("x", maxLine), Split{}, "tasks: line 2: too large"},
	} {
		_, err := Read(strings.NewReader(test.text), "tasks", test.split)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
			t.Errorf("%q: error %v, want %q", chat.Excerpt(test.text), err, test.want)
		}
	}
	if _, err := Open(t.TempDir(), Split{}); err == nil || !strings.Contains(err.Error(), "it is a folder") {
		t.Errorf("error %v", err)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.jsonl")
	if err := os.WriteFile(path, []byte(`{"prompt": "x"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	file, err := Open(path, Split{})
	if err != nil || file.Len(env.Train) != 1 {
		t.Errorf("%+v, error %v", file, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"id": "a", "prompt": "x"}`)
	f.Add(`{"messages": [{"role": "user", "content": "x"}]}` + "\n\n" + `{"question": "y"}`)
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read(strings.NewReader(text), "tasks", Split{Clone: 0.3})
		if err != nil {
			return
		}
		for i := range file.Len(env.Train) {
			if task := file.Task(env.Train, i); task.ID == "" {
				t.Error("a task without an id")
			} else if _, err := Opening(task); err != nil {
				t.Errorf("task %s: %v", task.ID, err)
			}
		}
	})
}
