package tools

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/envtest"
	"github.com/infinirl/infinirl/env/search"
)

func tool(name string, call func(ctx context.Context, call chat.ToolCall) (string, error)) Tool {
	return Tool{chat.Tool{Name: name}, call}
}

func open(t testing.TB, cfg Config, all ...Tool) *Set {
	t.Helper()
	set, err := Open(context.Background(), cfg, Fixed(all))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func calls(name string, n int) []chat.ToolCall {
	var all []chat.ToolCall
	for i := range n {
		all = append(all, chat.ToolCall{ID: fmt.Sprint(i), Name: name, Arguments: fmt.Sprint(i)})
	}
	return all
}

// Calls run at once: the first wait until as many as may have begun. No more run than
// may, and the results are in the order of the calls.
func TestCallsRunInParallel(t *testing.T) {
	t.Parallel()
	const parallel, n = 3, 9
	cfg := Default()
	cfg.Parallel = parallel
	var begun atomic.Int64
	all, running := make(chan struct{}), make(chan struct{}, parallel)
	set := open(t, cfg, tool("meet", func(ctx context.Context, call chat.ToolCall) (string, error) {
		select {
		case running <- struct{}{}:
		default:
			return "", errors.New("more run than may")
		}
		defer func() { <-running }()
		if begun.Add(1) == parallel {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return "result " + call.Arguments, nil
	}))
	results, err := set.Run(context.Background(), calls("meet", n))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Content != fmt.Sprintf("result %d", i) || r.ToolCallID != fmt.Sprint(i) || r.Role != chat.ToolRole || r.Name != "meet" {
			t.Errorf("result %d: %+v", i, r)
		}
	}
}

func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	cfg := Default()
	cfg.Timeout = time.Millisecond
	wait := tool("wait", func(ctx context.Context, _ chat.ToolCall) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	broken := tool("broken", func(context.Context, chat.ToolCall) (string, error) { return "", errors.New("no disk") })
	set := open(t, cfg, wait, broken)
	results, err := set.Run(context.Background(), []chat.ToolCall{{Name: "wait"}, {Name: "dance"}})
	if err != nil || results[0].Content != "error: wait: no result within 1ms" || results[1].Content != `error: unknown tool "dance": want wait, broken` {
		t.Errorf("%+v, error %v", results, err)
	}
	if _, err := set.Run(context.Background(), []chat.ToolCall{{Name: "wait"}, {Name: "broken"}, {Name: "broken"}}); err == nil || err.Error() != "tool broken: no disk" {
		t.Errorf("error %v", err)
	}
	cfg.Timeout = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() { _, err := open(t, cfg, wait).Run(ctx, calls("wait", 20)); failed <- err }()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// source counts what is open.
type source struct {
	tools []Tool
	open  int
	err   error
}

func (s *source) Open(context.Context) ([]Tool, func() error, error) {
	if s.err != nil {
		return nil, nil, s.err
	}
	s.open++
	return s.tools, func() error { s.open--; return nil }, nil
}

func TestSourcesAreClosed(t *testing.T) {
	t.Parallel()
	a, b := &source{tools: []Tool{tool("a", nil)}}, &source{tools: []Tool{tool("b", nil)}}
	set, err := Open(context.Background(), Default(), a, b)
	if err != nil || a.open+b.open != 2 || !set.Has("a") || set.Has("c") {
		t.Fatalf("%d open, error %v", a.open+b.open, err)
	}
	for range 2 {
		if err := set.Close(); err != nil || a.open+b.open != 0 {
			t.Errorf("%d open, error %v", a.open+b.open, err)
		}
	}
	for want, second := range map[string]Source{
		"tool a: two have this name":     &source{tools: []Tool{tool("a", nil)}},
		"tools: no server":               &source{err: errors.New("no server")},
		"tool: no name":                  Fixed{tool("", nil)},
		"tool x: parameters: [1]: want":  Fixed{{chat.Tool{Name: "x", Parameters: []byte("[1]")}, nil}},
		"tool x: parameters: {\"a\": wa": Fixed{{chat.Tool{Name: "x", Parameters: []byte(`{"a"`)}, nil}},
	} {
		if _, err := Open(context.Background(), Default(), a, second); err == nil || !strings.HasPrefix(err.Error(), want) || a.open != 0 {
			t.Errorf("%d open, error %v, want %q", a.open, err, want)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	words := func(s string) (int, error) { return len(strings.Fields(s)), nil }
	for _, test := range []struct {
		budget Budget
		text   string
		want   string
	}{
		{Budget{}, strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20)},
		{Budget{Most: 64}, strings.Repeat("é", 64), strings.Repeat("é", 64)},
		{Budget{Most: 64}, strings.Repeat("é", 65), strings.Repeat("é", 33) + "\n[32 of 65 characters left out]"},
		{Budget{Most: 64, Count: words}, strings.Repeat("x ", 100), strings.Repeat("x ", 58) + "\n[84 of 200 characters left out]"},
		{Budget{Most: 64, Count: words}, strings.Repeat("x", 100_000), strings.Repeat("x", 100_000)},
		{Budget{Most: 64}, "", ""},
		{Budget{}, "a\xffb", "a�b"},
	} {
		got, err := test.budget.Cut(test.text)
		if err != nil || got != test.want {
			t.Errorf("%q cut to %+v: %q, error %v, want %q", chat.Excerpt(test.text), test.budget.Most, got, err, test.want)
		}
	}
	failing := Budget{Most: 64, Count: func(string) (int, error) { return 0, errors.New("no such word") }}
	if _, err := failing.Cut("x"); err == nil || !strings.Contains(err.Error(), "no such word") {
		t.Errorf("error %v", err)
	}
}

// What is cut fits, is a start of the text, and says what is missing.
func TestCutFits(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"word ", "é", "中", "\n", "🙂", "x"}
	bytes := func(s string) (int, error) { return len(s), nil }
	for range 2000 {
		var b strings.Builder
		for range random.IntN(300) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		text, budget := b.String(), Budget{Most: 64 + random.IntN(200)}
		size := utf8.RuneCountInString
		if random.IntN(2) == 0 {
			budget.Count = bytes
			size = func(s string) int { return len(s) }
		}
		got, err := budget.Cut(text)
		if err != nil || size(got) > budget.Most {
			t.Fatalf("%d of at most %d, error %v", size(got), budget.Most, err)
		}
		if got == text {
			continue
		}
		at := strings.LastIndex(got, "\n[")
		var out, of int
		if _, err := fmt.Sscanf(got[at:], "\n[%d of %d characters left out]", &out, &of); err != nil || !strings.HasPrefix(text, got[:at]) ||
			of != utf8.RuneCountInString(text) || of-out != utf8.RuneCountInString(got[:at]) || size(text) <= budget.Most {
			t.Fatalf("%q becomes %q", text, got)
		}
	}
}

// talker answers its own calls, and counts the steps it hears of.
type talker struct{ env.Tasks }

func (t talker) New(seed uint64) env.Environment { return &talk{Environment: t.Tasks.New(seed)} }

type talk struct {
	env.Environment
	steps int
}

func (e *talk) Step(_ context.Context, action chat.Message) (env.Observation, error) {
	e.steps++
	var o env.Observation
	for _, c := range action.ToolCalls {
		o.Messages = append(o.Messages, chat.Message{Role: chat.ToolRole, Content: "inner " + c.Name, ToolCallID: c.ID})
	}
	o.Messages = append(o.Messages, chat.Message{Role: chat.User, Content: "and now?"})
	o.Reward = 0.5
	return o, nil
}

func TestWith(t *testing.T) {
	t.Parallel()
	world := search.World().Tasks
	outer := &source{tools: []Tool{tool("outer", func(_ context.Context, c chat.ToolCall) (string, error) { return "outer " + c.ID, nil })}}
	with, err := With(talker{world}, Default(), outer)
	if err != nil {
		t.Fatal(err)
	}
	e := with.New(1)
	o, err := e.Reset(context.Background(), with.Task(env.Train, 0))
	if err != nil || o.Tools[len(o.Tools)-1].Name != "outer" || len(o.Tools) < 2 {
		t.Fatalf("%+v, error %v", o, err)
	}
	for _, test := range []struct {
		names, want string
		steps       int
		reward      float64
	}{
		{"outer a outer", "outer 0|inner a|outer 2|and now?", 1, 0.5},
		{"outer", "outer 0", 1, 0},
		{"a b outer", "inner a|inner b|outer 2|and now?", 2, 0.5},
		{"", "and now?", 3, 0.5},
	} {
		action := chat.Message{Role: chat.Assistant}
		for i, name := range strings.Fields(test.names) {
			action.ToolCalls = append(action.ToolCalls, chat.ToolCall{ID: fmt.Sprint(i), Name: name})
		}
		o, err := e.Step(context.Background(), action)
		var got []string
		for _, m := range o.Messages {
			got = append(got, m.Content)
		}
		inner := e.(*environment).inner.(*talk)
		if err != nil || strings.Join(got, "|") != test.want || inner.steps != test.steps || o.Reward != test.reward {
			t.Errorf("%s: %q, %d steps, reward %v, error %v, want %q", test.names, got, inner.steps, o.Reward, err, test.want)
		}
	}
	if err := e.Close(); err != nil || outer.open != 0 {
		t.Errorf("%d open, error %v", outer.open, err)
	}
	taken, err := With(world, Default(), Fixed{tool("search", nil)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := taken.New(0).Reset(context.Background(), world.Task(env.Train, 0)); err == nil || !strings.Contains(err.Error(), "tool search: the environment has one") {
		t.Errorf("error %v", err)
	}
	if err := envtest.Check(must(With(world, Default(), Fixed{tool("outer", nil)}))); err != nil {
		t.Error(err)
	}
}

func must(tasks env.Tasks, err error) env.Tasks {
	if err != nil {
		panic(err)
	}
	return tasks
}

func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"tools.parallel": func(c *Config) { c.Parallel = 0 },
		"tools.timeout":  func(c *Config) { c.Timeout = 0 },
		"tools.budget":   func(c *Config) { c.Budget.Most = 63 },
	} {
		cfg := Default()
		change(&cfg)
		if _, err := With(nil, cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
