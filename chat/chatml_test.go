package chat

import (
	"reflect"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/token"
)

// controlled is Bytes with two control tokens.
type controlled struct{ token.Bytes }

func (controlled) Control(name string) (int32, bool) {
	switch name {
	case "<|im_end|>":
		return 256, true
	case "<tool_call>":
		return 257, true
	}
	return 0, false
}

func (c controlled) Decode(ids []int32) string {
	var text strings.Builder
	for _, id := range ids {
		switch id {
		case 256:
			text.WriteString("<|im_end|>")
		case 257:
			text.WriteString("<tool_call>")
		default:
			text.WriteString(c.Bytes.Decode([]int32{id}))
		}
	}
	return text.String()
}

func TestChatML(t *testing.T) {
	t.Parallel()
	for _, tokenizer := range []token.Tokenizer{token.Bytes{}, controlled{}} {
		c, err := NewChatML(tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			m    Message
			want string
		}{
			{Message{Role: System, Content: "be brief"}, "<|im_start|>system\nbe brief<|im_end|>\n"},
			{Message{Role: User, Content: ""}, "<|im_start|>user\n<|im_end|>\n"},
			{Message{Role: ToolRole, Content: "r"}, "<|im_start|>user\n<tool_response>\nr\n</tool_response><|im_end|>\n"},
			{Message{Role: Assistant, Content: "hi"}, "<|im_start|>assistant\nhi<|im_end|>\n"},
			{Message{Role: Assistant, Reasoning: "hm", Content: "look", ToolCalls: []ToolCall{{Name: "f", Arguments: `{"b": 1, "a": "<"}`}, {Name: "g", Arguments: `{}`}}},
				"<|im_start|>assistant\n<think>\nhm\n</think>\n\nlook\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": \"<\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call><|im_end|>\n"},
			{Message{Role: Assistant, ToolCalls: []ToolCall{{Name: "f", Arguments: "{}"}}}, "<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><|im_end|>\n"},
		} {
			ids, err := c.encode(x.m)
			if err != nil || tokenizer.Decode(ids) != x.want {
				t.Errorf("%+v\n got %q, %v\nwant %q", x.m, tokenizer.Decode(ids), err, x.want)
			}
			if x.m.Role != Assistant {
				continue
			}
			sampled := ids[len(c.GenerationPrefix()) : len(ids)-1]
			if back := c.Parse(sampled); !reflect.DeepEqual(back, x.m) {
				t.Errorf("decoded %+v, want %+v", back, x.m)
			}
			if suffix := tokenizer.Decode(c.GenerationSuffix(sampled)); suffix != "\n" {
				t.Errorf("suffix %q of a whole reply", suffix)
			}
			if suffix := tokenizer.Decode(c.GenerationSuffix(sampled[:1])); suffix != "<|im_end|>\n" {
				t.Errorf("suffix %q of a reply cut short", suffix)
			}
		}
		if _, err := c.encode(Message{Role: "king"}); err == nil {
			t.Error("no error of an unknown role")
		}
	}
	// Text that spells a control token does not become one.
	c, err := NewChatML(controlled{})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []Role{User, Assistant, ToolRole} {
		ids, err := c.encode(Message{Role: role, Content: "<|im_end|>"})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, id := range ids {
			if id == 256 {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d end tokens, want 1", role, n)
		}
	}
}

func TestParseToolCalls(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":                                         0,
		"no call":                                  0,
		"<tool_call>":                              0,
		"<tool_call></tool_call>":                  0,
		"<tool_call>{}</tool_call>":                0,
		"<tool_call>[1]</tool_call>":               0,
		`<tool_call>{"name":"f"}</tool_call>`:      1,
		`<tool_call>{"name":"f"} x</tool_call>`:    0,
		`a<tool_call>{"name":"f"}</tool_call> `:    1,
		`<tool_call>{"name":"f"}</tool_call> then`: 0,
		`<tool_call>{"name":"f"}</tool_call>` + `<tool_call>{"name":"g"}</tool_call>`: 2,
		`<tool_call>{"name":"f"}</tool_call>` + `<tool_call>{"name":"g"}`:             0,
	} {
		if _, calls, ok := ParseToolCalls(text); len(calls) != want && ok || ok != (want > 0) {
			t.Errorf("%q: %d calls, %v; want %d", text, len(calls), ok, want)
		}
	}
}
