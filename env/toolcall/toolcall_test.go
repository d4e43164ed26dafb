package toolcall

import (
	"testing"

	"github.com/infinirl/infinirl/chat"
)

type point struct {
	X int    `json:"x"`
	Y string `json:"y"`
}

func TestArgumentsReadWhatNewWrites(t *testing.T) {
	t.Parallel()
	m := New("move", point{3, "up"})
	if got, want := m.ToolCalls[0].Arguments, `{"x":3,"y":"up"}`; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	var p point
	if err := Arguments(m.ToolCalls[0], &p); err != nil || p != (point{3, "up"}) {
		t.Errorf("read %v, %v", p, err)
	}
}

func TestArgumentsAreStrict(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `[]`, `{"x":"3"}`, `{"x":3,"z":1}`, `{"x":3} {}`, `{"x":3`} {
		var p point
		if err := Arguments(chat.ToolCall{Name: "move", Arguments: text}, &p); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestReadFindsTheLastCall(t *testing.T) {
	t.Parallel()
	first, last := New("move", point{1, "up"}), New("move", point{2, "down"})
	task := chat.Message{Role: chat.User, Content: "go"}
	w, err := Read([]chat.Message{task, first, Result(first.ToolCalls[0], "a"), last, Result(last.ToolCalls[0], "b")})
	if err != nil {
		t.Fatal(err)
	}
	if w.Task != "go" || w.Result != "b" || w.Call != last.ToolCalls[0] {
		t.Errorf("read %+v", w)
	}
	for name, window := range map[string][]chat.Message{
		"no task":     {first, Result(first.ToolCalls[0], "a")},
		"no result":   {task, first},
		"no call":     {task, {Role: chat.Assistant, Content: "hello"}},
		"several":     {task, {Role: chat.Assistant, ToolCalls: make([]chat.ToolCall, 2)}},
		"no messages": nil,
	} {
		if _, err := Read(window); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReadUnderstandsSummaries(t *testing.T) {
	t.Parallel()
	call := New("move", point{1, "up"})
	task := chat.Message{Role: chat.User, Content: "go"}
	user := func(text string) chat.Message { return chat.Message{Role: chat.User, Content: text} }
	w, err := Read([]chat.Message{task, call, Result(call.ToolCalls[0], "a"), user(SummaryRequest)})
	if err != nil || !w.Summarise || w.Task != "go" || w.Call != call.ToolCalls[0] {
		t.Errorf("asked for a summary: %+v, %v", w, err)
	}
	w, err = Read([]chat.Message{task, user(SummaryNote + "1 up")})
	if err != nil || w.Summarise || w.Summary != "1 up" || w.Task != "go" || w.HasCall {
		t.Errorf("after a summary: %+v, %v", w, err)
	}
	w, err = Read([]chat.Message{task, user(SummaryNote + "1 up"), call, Result(call.ToolCalls[0], "a")})
	if err != nil || w.Summary != "" || !w.HasCall {
		t.Errorf("a call after a summary: %+v, %v", w, err)
	}
}
