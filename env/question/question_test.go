package question

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/envtest"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/tools"
)

type grader func(conversation []chat.Message) (Grade, error)

func (g grader) Grade(_ context.Context, _ env.Task, conversation []chat.Message) (Grade, error) {
	return g(conversation)
}

func tasks(t testing.TB, grade grader) *Tasks {
	t.Helper()
	file, err := taskfile.Read(strings.NewReader(`{"id": "a", "prompt": "x"}`+"\n"+`{"id": "b", "prompt": "y"}`), "tasks", taskfile.Split{Eval: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	echo := tools.Tool{Tool: chat.Tool{Name: "echo"}, Call: func(_ context.Context, c chat.ToolCall) (string, error) {
		if c.Arguments == "break" {
			return "", errors.New("no disk")
		}
		return c.Arguments, nil
	}}
	all, err := New(Config{Name: "test", Tasks: file, System: "Be brief.", Sources: []tools.Source{tools.Fixed{echo}}, Tools: tools.Default(), Grader: grade})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestConformance(t *testing.T) {
	envtest.Run(t, tasks(t, func([]chat.Message) (Grade, error) { return Grade{Reward: 1, Success: true}, nil }))
}

// The grader sees all that was said, in order.
func TestATrajectory(t *testing.T) {
	t.Parallel()
	var seen []string
	all := tasks(t, func(conversation []chat.Message) (Grade, error) {
		for _, m := range conversation {
			seen = append(seen, string(m.Role)+" "+m.Content)
		}
		return Grade{Reward: 0.5, Metrics: map[string]float64{"f1": 0.5}}, nil
	})
	e := all.New(0)
	if o, err := e.Reset(context.Background(), all.Task(env.Train, 0)); err != nil || len(o.Messages) != 2 || o.Tools[0].Name != "echo" {
		t.Fatalf("%+v, error %v", o, err)
	}
	for _, action := range []chat.Message{
		{ToolCalls: []chat.ToolCall{{ID: "1", Name: "echo", Arguments: "one"}, {ID: "2", Name: "echo", Arguments: "two"}}},
		{Content: "<tool_call>{", MalformedCalls: []string{"{"}},
	} {
		action.Role = chat.Assistant
		if o, err := e.Step(context.Background(), action); err != nil || o.Done || o.Reward != 0 {
			t.Fatalf("%+v, error %v", o, err)
		}
	}
	o, err := e.Step(context.Background(), chat.Message{Role: chat.Assistant, Content: "done"})
	if err != nil || !o.Done || o.Success || o.Reward != 0.5 || o.Metrics["f1"] != 0.5 {
		t.Errorf("%+v, error %v", o, err)
	}
	opening, _ := taskfile.Opening(all.Task(env.Train, 0))
	want := "system Be brief.|user " + opening[0].Content + "|assistant |tool one|tool two|assistant <tool_call>{|user error: no tool call, but looks like one: {|assistant done"
	if got := strings.Join(seen, "|"); got != want {
		t.Errorf("the grader saw %q, want %q", got, want)
	}
}

// What fails is an error, never a reward.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grade  grader
		action chat.Message
		want   string
	}{
		"grader":  {func([]chat.Message) (Grade, error) { return Grade{}, errors.New("no model") }, chat.Message{}, "grade the answer to task "},
		"NaN":     {func([]chat.Message) (Grade, error) { return Grade{Reward: math.NaN()}, nil }, chat.Message{}, "reward: NaN"},
		"metrics": {func([]chat.Message) (Grade, error) { return Grade{Metrics: map[string]float64{"f1": math.Inf(1)}}, nil }, chat.Message{}, "metrics: f1"},
		"tool":    {nil, chat.Message{ToolCalls: []chat.ToolCall{{Name: "echo", Arguments: "break"}}}, "tool echo: no disk"},
	} {
		all := tasks(t, test.grade)
		if test.grade == nil {
			all = tasks(t, func([]chat.Message) (Grade, error) { return Grade{}, nil })
		}
		e := all.New(0)
		if _, err := e.Reset(context.Background(), all.Task(env.Train, 0)); err != nil {
			t.Fatal(err)
		}
		if o, err := e.Step(context.Background(), test.action); err == nil || !strings.Contains(err.Error(), test.want) || o.Done {
			t.Errorf("%s: %+v, error %v, want %q", name, o, err, test.want)
		}
		if _, err := e.Step(context.Background(), test.action); err == nil {
			t.Errorf("%s: it goes on", name)
		}
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" Rome\n": "Rome", "I think <answer> Rome </answer>.": "Rome", "<answer>a</answer> no, <answer>b</answer>": "b", "<answer>open": "<answer>open", "": "",
	} {
		if got := Answer(chat.Message{Content: text}); got != want {
			t.Errorf("%q answers %q, want %q", text, got, want)
		}
	}
}

func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	good := tasks(t, func([]chat.Message) (Grade, error) { return Grade{}, nil }).cfg
	bare, err := taskfile.Read(strings.NewReader(`{"id": "a", "answer": "x"}`), "tasks", taskfile.Split{})
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"name":                     func(c *Config) { c.Name = "" },
		"want tasks and a grader":  func(c *Config) { c.Grader = nil },
		"tools.parallel":           func(c *Config) { c.Tools.Parallel = 0 },
		`task "a": want messages,`: func(c *Config) { c.Tasks = bare },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
