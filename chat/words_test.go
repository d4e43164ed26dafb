package chat

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/token"
)

func testWords(t testing.TB) *Words {
	t.Helper()
	words := append(WordControls(), strings.Fields("you search a world who is ada vale kemp open answer 1 2 3 true said not found ?")...)
	v, err := token.NewVocabulary(words)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWords(v, []Tool{
		{Name: "search", Parameters: json.RawMessage(`{"type":"object","properties":{"step":{"type":"integer"},"name":{"x-words":2}}}`)},
		{Name: "open", Parameters: json.RawMessage(`{"properties":{"who":{"type":"string"},"deep":{"type":"boolean"}}}`)},
		{Name: "answer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWordsRoundTrip(t *testing.T) {
	t.Parallel()
	w := testWords(t)
	messages := []Message{
		{Role: System, Content: "you search a world"},
		{Role: User, Content: "who is ada vale ?"},
		{Role: Assistant, ToolCalls: []ToolCall{{Name: "search", Arguments: `{"step":1,"name":"ada vale"}`}}},
		{Role: ToolRole, Content: "ada kemp"},
		{Role: Assistant, ToolCalls: []ToolCall{{Name: "open", Arguments: `{"who":"kemp","deep":true}`}}},
		{Role: ToolRole, Content: ""},
		{Role: Assistant, Content: "open ada vale", MalformedCalls: []string{"open ada vale"}},
		{Role: Assistant, ToolCalls: []ToolCall{{Name: "answer", Arguments: `{}`}}},
	}
	var ids []int32
	for _, m := range messages {
		encoded, err := w.encode(m)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, encoded...)
	}
	got := w.vocabulary.Decode(ids)
	want := "<|system|> you search a world <|end|> <|user|> who is ada vale ? <|end|> " +
		"<|assistant|> search 1 ada vale <|end|> <|tool|> ada kemp <|end|> <|assistant|> open kemp true <|end|> <|tool|> <|end|> " +
		"<|assistant|> open ada vale <|end|> <|assistant|> answer <|end|>"
	if got != want {
		t.Errorf("prompt\n got %s\nwant %s", got, want)
	}
	decoded, err := w.DecodeMessages(append(ids, w.GenerationPrefix()...))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(decoded, messages) {
		t.Errorf("messages\n got %+v\nwant %+v", decoded, messages)
	}
}

func TestWordsNoCallIsContent(t *testing.T) {
	t.Parallel()
	w := testWords(t)
	for _, text := range []string{"", "search", "search 1 ada", "search ada ada vale", "search 1 ada vale vale", "kemp 1", "open ada 1", "answer 1"} {
		ids, err := w.vocabulary.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		if m := w.Parse(append(ids, w.end)); len(m.ToolCalls) > 0 || m.Content != text {
			t.Errorf("%q: got %+v, want it as content", text, m)
		}
		if suffix := w.GenerationSuffix(ids); len(suffix) != 1 || suffix[0] != w.end {
			t.Errorf("%q: suffix %v, want <|end|>", text, suffix)
		}
		if suffix := w.GenerationSuffix(append(ids, w.end)); suffix != nil {
			t.Errorf("%q: suffix %v after <|end|>, want none", text, suffix)
		}
	}
	// A control token in the arguments is no call.
	search, _ := w.vocabulary.Encode("search 1 ada")
	if m := w.Parse(append(search, w.roles[Assistant], w.end)); len(m.ToolCalls) > 0 {
		t.Errorf("call with a control token: %+v", m)
	}
}

func TestWordsEncodeErrors(t *testing.T) {
	t.Parallel()
	w := testWords(t)
	call := func(name, arguments string) Message {
		return Message{Role: Assistant, ToolCalls: []ToolCall{{Name: name, Arguments: arguments}}}
	}
	for _, c := range []struct {
		m    Message
		want string
	}{
		{Message{Role: "critic"}, `unknown role "critic"`},
		{Message{Role: User, Content: "who is zoe"}, `word "zoe"`},
		{Message{Role: User, Content: "found <|end|>"}, "control token"},
		{call("fly", `{}`), `unknown tool "fly"`},
		{call("search", `{"step":1}`), `argument "name" is missing`},
		{call("search", `{"step":1,"name":"ada"}`), "want 2 words"},
		{call("search", `{"step":"1","name":"ada vale"}`), "want integer"},
		{call("search", `{"step":1.5,"name":"ada vale"}`), "want integer"},
		{call("search", `{"step":1,"name":"ada vale","x":1}`), `unknown argument "x"`},
		{call("search", `{`), "arguments"},
		{Message{Role: Assistant, Content: "found", ToolCalls: call("answer", "{}").ToolCalls}, "text beside its call"},
		{Message{Role: Assistant, ToolCalls: []ToolCall{{Name: "answer"}, {Name: "answer"}}}, "2 parallel calls"},
	} {
		if _, err := w.encode(c.m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.m, err, c.want)
		}
	}
}
