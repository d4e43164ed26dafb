package chat

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestWireForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m    Message
		wire string
	}{
		{Message{Role: User, Content: "a <b> & c"}, `{"role":"user","content":"a <b> & c"}`},
		{Message{Role: User}, `{"role":"user","content":""}`},
		{Message{Role: User, Content: "out", Observation: true}, `{"role":"user","content":"out","observation":true}`},
		{Message{Role: Assistant, NoContent: true, Reasoning: "hm", ToolCalls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"x": 1}`}, {Name: "g", Arguments: "{"}}},
			`{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"type":"function","function":{"name":"g","arguments":"{"}}]}`},
		{Message{Role: ToolRole, Content: "r", ToolCallID: "1", Name: "f"}, `{"role":"tool","content":"r","tool_call_id":"1","name":"f"}`},
	} {
		got, err := json.Marshal(c.m)
		if err != nil || unescape(got) != c.wire {
			t.Errorf("got %s, %v\nwant %s", got, err, c.wire)
		}
		var back Message
		if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, c.m) {
			t.Errorf("read back %+v, %v; want %+v", back, err, c.m)
		}
	}
	var m Message
	if err := json.Unmarshal([]byte(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), &m); err != nil || m.Content != "ab" {
		t.Errorf("parts: %+v, %v", m, err)
	}
	if err := json.Unmarshal([]byte(`{"role":"assistant","tool_calls":[{"name":"f","arguments":{"x":1}}]}`), &m); err != nil || m.ToolCalls[0].Arguments != `{"x": 1}` || !m.NoContent {
		t.Errorf("bare call: %+v, %v", m, err)
	}
	for text, want := range map[string]string{
		`{"role":"user","content":[{"type":"image_url"}]}`: `content[0]: a part of type "image_url"`,
		`{"role":"assistant","tool_calls":[{}]}`:           "tool_calls[0]",
		`{"role":"user","content":7}`:                      "string",
	} {
		if err := json.Unmarshal([]byte(text), &m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	tool := Tool{Name: "f", Description: "does", Parameters: json.RawMessage(`{"type":"object","properties":{"z":{},"a":{}}}`)}
	got, err := json.Marshal(tool)
	var back Tool
	if err != nil || string(got) != `{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","properties":{"z":{},"a":{}}}}}` {
		t.Errorf("tool %s, %v", got, err)
	}
	if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, tool) {
		t.Errorf("tool read back %+v, %v", back, err)
	}
}

// unescape undoes what json.Marshal does to the text of a MarshalJSON method.
func unescape(text []byte) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text))
}

func TestSchema(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"b":[1,2.50,1e5,true,null,"\u00e9<&>\u2028\n\"\\"],"a":{},"c":[]}`: "{\"b\": [1, 2.50, 1e5, true, null, \"é<&>\u2028\\n\\\"\\\\\"], \"a\": {}, \"c\": []}",
		` "x" `: `"x"`,
	} {
		want := `{"type": "function", "function": {"name": "f", "parameters": ` + want + "}}"
		if got, err := (Tool{Name: "f", Parameters: json.RawMessage(text)}).Schema(""); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
		}
	}
	if got := string(layOut([]byte(` {"a" :[1,{ }], "b":{}}`), "  ")); got != "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": {}\n}" {
		t.Errorf("lines %s", got)
	}
	for _, text := range []string{"{", `{"a"}`, "[1,]", "1 2", "[1}"} {
		if got, err := (Tool{Name: "f", Parameters: json.RawMessage(text)}).Schema(""); err == nil || !strings.Contains(err.Error(), "tool f") {
			t.Errorf("%q: %s, error %v, want one that names the tool", text, got, err)
		}
	}
}
