package trajectory

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/token"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// dialogue is twelve turns: calls, one of them parallel, and a user who answers.
func dialogue() []chat.Message {
	call := func(id string) chat.ToolCall { return chat.ToolCall{ID: id, Name: "find", Arguments: `{"q":"x"}`} }
	messages := []chat.Message{{Role: chat.System, Content: "You find things."}, {Role: chat.User, Content: "Find x, then y."}}
	for turn := 1; turn <= 12; turn++ {
		switch turn {
		case 4:
			messages = append(messages, chat.Message{Role: chat.Assistant, Content: "Here is x. Go on?"}, chat.Message{Role: chat.User, Content: "Yes, with y."})
		case 6:
			messages = append(messages, chat.Message{Role: chat.Assistant, NoContent: true, ToolCalls: []chat.ToolCall{call("1"), call("2")}},
				chat.Message{Role: chat.ToolRole, Content: strings.Repeat("long ", 60)}, chat.Message{Role: chat.ToolRole, Content: "short"})
		case 12:
			messages = append(messages, chat.Message{Role: chat.Assistant, Content: "Here is y."})
		default:
			messages = append(messages, chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{call("1")}},
				chat.Message{Role: chat.ToolRole, Content: strings.Repeat("result ", 12)})
		}
	}
	return messages
}

// cuts are ways to cut the dialogue: names of rules, some with a variant.
var cuts = append(condense.Rules(), "tool-fifo-result", "tool-fifo-tight")

// recutDialogue cuts the dialogue, in bytes.
func recutDialogue(t testing.TB, name string) (tr *Trajectory, reason error) {
	t.Helper()
	renderer, err := chat.NewChatML(token.Bytes{})
	if err != nil {
		t.Fatal(err)
	}
	rule, result := strings.CutSuffix(name, "-result")
	rule, tight := strings.CutSuffix(rule, "-tight")
	c := condense.DefaultFor(rule, 1100)
	c.CutOversize = true
	c.Set("summary_tokens", 60)
	c.Set("summary_request", "Sum up.")
	c.Set("summary_note", "So far: ")
	c.Set("placeholder", "[gone]")
	switch {
	case result:
		c.Set("mode", condense.Result)
	case tight:
		c.High, c.Low = 650, 400
	case rule == condense.ToolClear:
		c.High, c.Low = 2000, 1300
		c.Set("clear_tool_inputs", true)
	case rule == condense.None:
		c.High = 4000
	}
	condenser, err := condense.New(c)
	if err != nil {
		t.Fatal(err)
	}
	summarize := func(prompt []int32, n int) ([]int32, error) {
		return token.Bytes{}.Encode(fmt.Sprintf("x is at %d.<|im_end|>", len(prompt)))
	}
	tr, reason, err = Recut(Recording{ID: name, Messages: recorded(dialogue()), Summarize: summarize}, renderer, condenser)
	if err != nil {
		t.Fatal(err)
	}
	tr.Score, tr.HasScore = 1, true
	return tr, reason
}

// TestDraw draws the dialogue as every rule cuts it.
func TestDraw(t *testing.T) {
	t.Parallel()
	for _, name := range cuts {
		tr, reason := recutDialogue(t, name)
		var b bytes.Buffer
		if err := tr.Draw(&b); err != nil {
			t.Fatal(err)
		}
		if reason != nil {
			fmt.Fprintf(&b, "  %v\n", reason)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s\n got\n%s\nwant\n%s", name, b.String(), want)
		}
	}
}

// recorded are messages without ids of their own.
func recorded(messages []chat.Message) []RecordedMessage {
	out := make([]RecordedMessage, len(messages))
	for i, m := range messages {
		out[i].Message = m
	}
	return out
}
