package callformat

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
)

var tools = []chat.Tool{{Name: "f", Parameters: json.RawMessage(`{"type":"object","properties":{
	"text":{"type":"string"},"count":{"type":"integer"},"share":{"type":"number"},"sure":{"type":"boolean"},
	"list":{"type":"array"},"object":{"type":"object"},"perhaps":{"type":["integer","null"]},"either":{"type":["string","integer"]},"any":{}}}`)}}

func format(t testing.TB, name string) Format {
	t.Helper()
	f, err := ByName(name, tools)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name() != name {
		t.Fatalf("the format %s calls itself %s", name, f.Name())
	}
	return f
}

func call(name, arguments string) chat.ToolCall {
	return chat.ToolCall{Name: name, Arguments: arguments}
}

func coder(body string) string {
	return "<tool_call>\n<function=f>\n" + body + "</function>\n</tool_call>"
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format, text, content string
		calls                 []chat.ToolCall
		malformed             []string
	}{
		{"none", `<tool_call>{"name":"f"}</tool_call>`, `<tool_call>{"name":"f"}</tool_call>`, nil, nil},

		{"hermes", "so", "so", nil, nil},
		{"hermes", "look\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": \"<\"}}\n</tool_call>", "look", []chat.ToolCall{call("f", `{"b": 1, "a": "<"}`)}, nil},
		{"hermes", `<tool_call>{"name":"f"}</tool_call><tool_call>{"name":"g","arguments":{}}</tool_call>`, "", []chat.ToolCall{call("f", "{}"), call("g", "{}")}, nil},
		{"hermes", `<tool_call>{"name":"f"}</tool_call> <tool_call>{"na`, `<tool_call>{"name":"f"}</tool_call> <tool_call>{"na`, nil, []string{`{"name":"f"}`, `{"na`}},
		{"hermes", `<tool_call>{"name":"f"}</tool_call> so`, `<tool_call>{"name":"f"}</tool_call> so`, nil, []string{`{"name":"f"}`}},

		{"qwen3-coder", "so", "so", nil, nil},
		{"qwen3-coder", "look\n\n" + coder("<parameter=text>\n7\n</parameter>\n<parameter=count>\n7\n</parameter>\n"), "look", []chat.ToolCall{call("f", `{"text": "7", "count": 7}`)}, nil},
		{"qwen3-coder", coder("<parameter=text>\n\ntwo\nlines <b>\n\n</parameter>\n"), "", []chat.ToolCall{call("f", `{"text": "\ntwo\nlines <b>\n"}`)}, nil},
		{"qwen3-coder", coder("<parameter=sure>\nTrue\n</parameter>\n<parameter=share>\n-0.5e3\n</parameter>\n<parameter=list>\n[1, \"a\"]\n</parameter>\n<parameter=object>\n{\"a\": {}}\n</parameter>\n"), "",
			[]chat.ToolCall{call("f", `{"sure": true, "share": -0.5e3, "list": [1, "a"], "object": {"a": {}}}`)}, nil},
		{"qwen3-coder", coder("<parameter=count>\n7.5\n</parameter>\n<parameter=sure>\nyes\n</parameter>\n<parameter=perhaps>\nNone\n</parameter>\n"), "",
			[]chat.ToolCall{call("f", `{"count": "7.5", "sure": "yes", "perhaps": null}`)}, nil},
		{"qwen3-coder", coder("<parameter=either>\n7\n</parameter>\n<parameter=any>\n7\n</parameter>\n<parameter=unknown>\n7\n</parameter>\n"), "",
			[]chat.ToolCall{call("f", `{"either": "7", "any": "7", "unknown": "7"}`)}, nil},
		{"qwen3-coder", coder("") + "\n" + coder(""), "", []chat.ToolCall{call("f", "{}"), call("f", "{}")}, nil},
		{"qwen3-coder", coder("") + " so", coder("") + " so", nil, []string{"<function=f>\n</function>"}},
		{"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a", "<tool_call>\n<function=f>\n<parameter=a", nil, []string{"<function=f>\n<parameter=a"}},
		{"qwen3-coder", coder("") + coder("<parameter=a>1</parameter><parameter=a>2</parameter>"), coder("") + coder("<parameter=a>1</parameter><parameter=a>2</parameter>"), nil,
			[]string{"<function=f>\n<parameter=a>1</parameter><parameter=a>2</parameter></function>"}},
		{"qwen3-coder", `<tool_call>{"name":"f"}</tool_call>`, `<tool_call>{"name":"f"}</tool_call>`, nil, []string{`{"name":"f"}`}},

		{"llama3-json", `{"name": "f", "parameters": {"a": 1}}`, "", []chat.ToolCall{call("f", `{"a": 1}`)}, nil},
		{"llama3-json", ` <|python_tag|>{"name": "f", "arguments": {}}; {"name": "g"} `, "", []chat.ToolCall{call("f", `{}`), call("g", "{}")}, nil},
		{"llama3-json", `{"answer": 7}`, `{"answer": 7}`, nil, nil},
		{"llama3-json", `I call {"name": "f"}`, `I call {"name": "f"}`, nil, nil},
		{"llama3-json", `{"name": "f", "parameters": {`, `{"name": "f", "parameters": {`, nil, []string{`{"name": "f", "parameters": {`}},
		{"llama3-json", `{"name": "f"} {"name": "g"}`, `{"name": "f"} {"name": "g"}`, nil, []string{`{"name": "f"} {"name": "g"}`}},
		{"llama3-json", `{"name": "f"};`, `{"name": "f"};`, nil, []string{`{"name": "f"};`}},
		{"llama3-json", `{"name": "", "parameters": {}}`, `{"name": "", "parameters": {}}`, nil, []string{`{"name": "", "parameters": {}}`}},
		{"llama3-json", `<|python_tag|>f.call()`, `<|python_tag|>f.call()`, nil, []string{"f.call()"}},

		{"search-r1", "so", "so", nil, nil},
		{"search-r1", "look\n<search> who \"is\" it </search>", "look", []chat.ToolCall{call("search", `{"query": "who \"is\" it"}`)}, nil},
		{"search-r1", "<answer>Ada</answer>\n", "", []chat.ToolCall{call("answer", `{"answer": "Ada"}`)}, nil},
		{"search-r1", "<search>a", "<search>a", nil, []string{"a"}},
		{"search-r1", "<search>a</search> and", "<search>a</search> and", nil, []string{"a"}},
		{"search-r1", "<search>a</search><answer>b</answer>", "<search>a</search><answer>b</answer>", nil, []string{"a", `{"answer": "b"}`}},
	} {
		content, calls, malformed := format(t, c.format).Parse(c.text)
		if content != c.content || !reflect.DeepEqual(calls, c.calls) || !reflect.DeepEqual(malformed, c.malformed) {
			t.Errorf("%s: %q\n got %q %q %q\nwant %q %q %q", c.format, c.text, content, calls, malformed, c.content, c.calls, c.malformed)
		}
	}
}

func TestReasoning(t *testing.T) {
	t.Parallel()
	const calls = `<tool_call>{"name":"f"}</tool_call>`
	for _, c := range []struct {
		text               string
		opened             bool
		reasoning, content string
		calls              int
	}{
		{"so", false, "", "so", 0},
		{"<think>\nhm\n</think>\n\nso", false, "hm", "so", 0},
		{"\n<think>hm</think>" + calls, false, "hm", "", 1},
		{"<think>\n\n</think>\n\nso", false, "", "so", 0},
		{"<think>\n" + calls, false, calls, "", 0},
		{"so <think>hm</think>", false, "", "so <think>hm</think>", 0},
		{"hm\n</think>\n\nso\n" + calls, true, "hm", "so", 1},
		{"\n</think>\n\nso", true, "", "so", 0},
		{"hm", true, "hm", "", 0},
		{"<think>\nhm\n</think>\n\nso", true, "hm", "so", 0},
	} {
		m := Parse(chat.Hermes{}, c.text, c.opened)
		if m.Role != chat.Assistant || m.Reasoning != c.reasoning || m.Content != c.content || len(m.ToolCalls) != c.calls || m.MalformedCalls != nil {
			t.Errorf("%q, opened %v: %+v", c.text, c.opened, m)
		}
	}
	for prefix, want := range map[string]bool{"<|im_start|>assistant\n": false, "assistant\n<think>\n": true, "assistant\n<think>\n\n</think>\n\n": false} {
		if Opened(prefix) != want {
			t.Errorf("%q is opened: %v", prefix, !want)
		}
	}
}

// TestRoundTrip parses what is written.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][][]chat.ToolCall{
		"hermes":      {{call("f", `{"b": 1, "a": [true, null]}`), call("g", `{}`)}},
		"qwen3-coder": {{call("f", `{"text": "a\nb", "count": -3, "share": 0.5, "sure": false, "list": [1, {"a": "b"}], "object": {}, "perhaps": null}`), call("g", `{}`)}},
		"llama3-json": {{call("f", `{"b": 1, "a": [true, null]}`), call("g", `{}`)}},
		"search-r1":   {{call("search", `{"query": "a \"b\""}`)}, {call("answer", `{"answer": "☃"}`)}},
	} {
		f := format(t, name)
		for _, calls := range calls {
			for _, content := range []string{"", "look\n  there"} {
				if content != "" && name == "llama3-json" {
					continue
				}
				text, err := f.WriteCalls(content, calls)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, back, malformed := f.Parse(text)
				if got != content || !reflect.DeepEqual(back, calls) || malformed != nil {
					t.Errorf("%s: %q: %q %q %q, want %q %q", name, text, got, back, malformed, content, calls)
				}
			}
		}
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format, content string
		calls           []chat.ToolCall
		want            string
	}{
		{"none", "", []chat.ToolCall{call("f", "{}")}, "has no tools"},
		{"qwen3-coder", "", []chat.ToolCall{call("f", "7")}, "want a JSON object"},
		{"qwen3-coder", "", []chat.ToolCall{call("f", "{} x")}, "text behind the JSON object"},
		{"qwen3-coder", "", []chat.ToolCall{call("f", `{"a": "</parameter>"}`)}, "holds a tag that ends it"},
		{"llama3-json", "so", []chat.ToolCall{call("f", "{}")}, "calls or text, not both"},
		{"search-r1", "", []chat.ToolCall{call("f", "{}")}, `call of "f", want search or answer`},
		{"search-r1", "", []chat.ToolCall{call("search", `{"query": 7}`)}, `want the one string "query"`},
		{"search-r1", "", []chat.ToolCall{call("search", `{"query": null}`)}, `want the one string "query"`},
		{"search-r1", "", []chat.ToolCall{call("search", `{}`), call("search", `{}`)}, "2 parallel calls"},
	} {
		if _, err := format(t, c.format).WriteCalls(c.content, c.calls); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: error %v, want %q", c.format, c.calls, err, c.want)
		}
	}
	if _, err := ByName("xml", nil); err == nil || !strings.Contains(err.Error(), "want one of hermes, qwen3-coder, llama3-json, search-r1, none") {
		t.Error(err)
	}
	for parameters, want := range map[string]string{`{"properties":{"a":{"type":7}}}`: "parameter a: type 7", `{`: "parameters: "} {
		if _, err := ByName("qwen3-coder", []chat.Tool{{Name: "f", Parameters: json.RawMessage(parameters)}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", parameters, err, want)
		}
	}
}

// TestToolsAreTold holds that instructions name every tool and that results stand in
// the message.
func TestToolsAreTold(t *testing.T) {
	t.Parallel()
	two := []chat.Tool{{Name: "search", Description: "Finds <things>."}, {Name: "answer", Parameters: json.RawMessage(`{"a":"\u00fc"}`)}}
	for _, name := range Names() {
		f := format(t, name)
		text, err := f.WriteTools(two)
		if name == "none" {
			if err == nil {
				t.Error("none tells of tools")
			}
			continue
		}
		if err != nil || !strings.Contains(text, "search") || !strings.Contains(text, "answer") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if name != "search-r1" && (!strings.Contains(text, "Finds <things>.") || !strings.Contains(text, `"a": "ü"`)) {
			t.Errorf("%s: no schemas in %q", name, text)
		}
		if text := f.WriteResults([]chat.Message{{Content: "one"}, {Content: "two"}}); !strings.Contains(text, "one") || !strings.Contains(text, "two") {
			t.Errorf("%s: results %q", name, text)
		}
	}
	if _, err := format(t, "search-r1").WriteTools([]chat.Tool{{Name: "fly"}}); err == nil {
		t.Error("search-r1 tells of other tools")
	}
}

// FuzzParse holds that nothing of a reply is lost: there are calls, or the text is
// content as a whole; and that calls that were read can be written and read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"so", "look\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", coder("<parameter=count>\n7\n</parameter>\n"),
		`<|python_tag|>{"name": "f"}; {"name": "g", "parameters": {}}`, "<search>a</search>", "<think>a</think><answer>b",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range Names() {
			f := format(t, name)
			content, calls, malformed := f.Parse(text)
			switch {
			case len(calls) == 0 && content != text:
				t.Fatalf("%s: %q becomes %q", name, text, content)
			case len(calls) > 0 && malformed != nil:
				t.Fatalf("%s: %q has calls and malformed ones", name, text)
			}
			for _, c := range calls {
				if c.Name == "" || !json.Valid([]byte(c.Arguments)) {
					t.Fatalf("%s: %q has the call %+v", name, text, c)
				}
			}
			if len(calls) == 0 {
				continue
			}
			written, err := f.WriteCalls(content, calls)
			if err != nil { // text that another format cannot hold
				continue
			}
			if _, again, _ := f.Parse(written); len(again) != len(calls) {
				t.Fatalf("%s: %q: %d calls, written as %q %d", name, text, len(calls), written, len(again))
			}
		}
	})
}
