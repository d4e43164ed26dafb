package recorded

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// write shows runs as text, one message a line.
func write(runs []Run) string {
	var b strings.Builder
	for _, r := range runs {
		b.WriteString(writeRun(r))
	}
	return b.String()
}

// writeRun shows a run.
func writeRun(r Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: run %q of group %q", r.Form, r.ID, r.Group)
	if r.HasScore {
		fmt.Fprintf(&b, ", score %g", r.Score)
	}
	b.WriteByte('\n')
	for _, tool := range r.Tools {
		fmt.Fprintf(&b, "  tool %s %q %s\n", tool.Name, tool.Description, tool.Parameters)
	}
	for _, m := range r.Messages {
		fmt.Fprintf(&b, "  %s", m.Role)
		if m.Name != "" || m.ToolCallID != "" {
			fmt.Fprintf(&b, "(%s %s)", m.Name, m.ToolCallID)
		}
		if m.Observation {
			b.WriteString(" observes")
		}
		if m.NotSampled {
			b.WriteString(" not sampled")
		}
		if m.Reasoning != "" {
			fmt.Fprintf(&b, " reasons %q", m.Reasoning)
		}
		if m.NoContent {
			b.WriteString(" null")
		} else {
			fmt.Fprintf(&b, " %q", m.Content)
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " calls %s(%s) %s", c.Name, c.ID, c.Arguments)
		}
		if m.IDs != nil {
			fmt.Fprintf(&b, " ids %v", m.IDs)
		}
		if m.End > m.Start {
			fmt.Fprintf(&b, " sampled [%d,%d)", m.Start, m.End)
		}
		if m.LogProbs != nil {
			fmt.Fprintf(&b, " log-probs %v", m.LogProbs)
		}
		b.WriteByte('\n')
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Notices)) {
		fmt.Fprintf(&b, "  notice: %d %s\n", r.Notices[kind], kind)
	}
	return b.String()
}

// fixtures returns the files of testdata that hold a recording of each form.
func fixtures(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.json", "*.jsonl", "*.traj"} {
		more, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	return files
}

func TestForms(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, file := range fixtures(t) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := Read(file, f)
		f.Close()
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, r := range runs {
			seen[r.Form] = true
		}
		golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".golden"
		got := write(runs)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s\n got %s\nwant %s", file, got, want)
		}
	}
	for _, form := range forms {
		if !seen[form.name] {
			t.Errorf("no recording of form %s is tested", form.name)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"", "f:1: the file is empty"},
		{" \n ", "f:1: the file is empty"},
		{"{\n\"messages\": [\n{\"role\": \"user\"", "f:3: the JSON text ends early: the file is cut off"},
		{"{\"messages\":[]}\n{\"messages\":[\n", "f:2: the JSON text ends early"},
		{"{\"messages\":[]}\n{\"messages\":}\n", "f:2: invalid character '}'"},
		{"[1, 2]", "f:1: no known form"},
		{`"text"`, "f:1: no known form"},
		{"[]", "f:1: no known form"},
		{"{\"messages\": [\n{\"role\": \"user\", \"content\": \"q\"},\n{\"content\": \"a\"}]}", `f:3: messages[1]: field "role" is missing`},
		{"{\"messages\": [{\"role\": \"user\",\n\"content\": 7}]}", "f:2: messages[0].content: a number, want a string"},
		{"{\"messages\": {}}", "f:1: messages: an object, want an array"},
		{"{\"messages\": [7]}", "f:1: messages[0]: a number, want an object"},
		{`{"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}]}`, `f:1: messages[0].tool_calls[0].function: field "name" is missing`},
		{"{\"messages\": [\n{\"role\": \"user\", \"content\": \"q\"},\n{\"role\": \"tool\", \"content\": \"r\"}]}", "f:3: messages[1]: a tool result that answers no call"},
		{`{"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}, {"role": "tool"}, {"role": "tool"}]}`, "f:1: messages[2]: a tool result that answers no call"},
		{`{"score": "high", "messages": []}`, `f:1: score: "high", want a number`},
		{`{"traj": [{"role": "queen"}], "reward": 1}`, `f:1: traj[0].role: unknown role "queen"`},
		{`{"schema_version": "ATIF-v1.4", "steps": [{"source": "god"}]}`, `f:1: steps[0]: unknown source "god"`},
		{`{"schema_version": "ATIF-v1.4"}`, `f:1: field "steps" is missing`},
		{`{"conversations": [{"from": "human"}]}`, `f:1: conversations[0]: field "value" is missing`},
		{`{"conversations": [{"from": "function_call", "value": "go"}]}`, "f:1: conversations[0].value: want a call"},
		{`{"history": [{"action": "run", "tool_call_metadata": {"model_response": {"choices": []}}}]}`, "model_response.choices: no choice"},
		{`{"message_log": [{"role": "user", "token_ids": ["x"]}]}`, "f:1: message_log[0].token_ids: want an array of token ids"},
		{`{"form": "infinirl-trajectory", "version": 1, "status": "done"}`, `f:1: status "done"`},
		{`{"output": [{"type": "function_call", "name": "f"}, {"type": "function_call_output"}]}`, `f:1: output[1]: field "output" is missing`},
		{strings.Repeat("[", 20000), "f:1: "},
		{"\ufeff", "f:1: the file is empty"},
		{"\ufeff{\"messages\": {}}", "f:1: messages: an object, want an array"},
		{`{"messages": [{"role": "` + strings.Repeat("k", 1000) + `"}]}`, `f:1: messages[0].role: unknown role "` + strings.Repeat("k", 80) + `…"`},
		{`{"form": "infinirl-trajectory", "version": 1, "status": "` + strings.Repeat("k", 1000) + `"}`, `f:1: status "` + strings.Repeat("k", 80) + `…"`},
		{`{"messages": [{"role": "assistant", "content": "a"}], "score": NaN}`, "f:1: NaN is no JSON: write null or a number"},
		{"{\"score\": Infinity}", "f:1: Infinity is no JSON: write null or a number"},
		{"{\"messages\": []}\n{\"score\":\n", "f:2: the JSON text ends early"},
		{"{\"messages\": []}\n{\"score\": -Infinity}\n", "f:2: -Infinity is no JSON: write null or a number"},
		{"[{\"messages\": []},\n{\"score\": NaN}]", "f:2: NaN is no JSON"},
		{"[{\"messages\": []},\n{\"messages\": []}", "f:2: the JSON text ends early: the file is cut off"},
		{"[{\"messages\": []}\n{\"messages\": []}]", "f:2: invalid character '{' after an element of an array"},
		{"[{\"messages\": []},\n]", "f:2: invalid character ']'"},
		{"[{\"messages\": []},\n7]", "f:2: [1]: no known form"},
		{"[{\"messages\": []},\n{\"messages\": 7}]", "f:2: [1].messages: a number, want an array"},
		{"\x00\x00", "f:1: invalid character '\\x00'"},
		{"[\x00\x00", "f:1: invalid character '\\x00'"},
		{"{\"messages\": []} x", "f:1: invalid character 'x'"},
		{"{\"role\": \"user\", \"content\": \"q\"}\n{\"role\": \"king\"}\n", `f:2: role: unknown role "king"`},
		{"{\"a\": 1}\n{\"b\": 2}\n", "f:1: no known form"},
		{"{\"role\": \"user\"}\n{\"role\": \n", "f:2: the JSON text ends early"},
		{"\x1f\x8b\x08", "f: gzip: unexpected EOF"},
		{"\x28\xb5\x2f\xfd\x00", "f: zstd: "},
		{`{"messages": [{"role": "assistant", "content": [{"type": "image_url", "image_url": {}}]}]}`, "f:1: messages[0].content[0]: image in what the model said cannot be told in tokens"},
		{`{"system": "", "messages": [{"role": "assistant", "content": [{"type": "hologram"}]}]}`, "hologram in what the model said"},
		{`{"input": "q", "output": [{"type": "telepathy", "id": "1"}, {"type": "reasoning"}]}`, `f:1: output[0]: an item of type "telepathy" cannot be told in tokens`},
		{`[{"type": "ai", "content": [{"type": "image"}]}]`, "f:1: [0].content[0]: image in what the model said"},
		{`{"conversations": [{"from": "gpt", "value": [{"type": "image"}]}]}`, "f:1: conversations[0].value[0]: image in what the model said"},
		{`{"messages": [{"role": "assistant", "audio": {"id": "x"}}]}`, "f:1: messages[0].audio: audio in what the model said"},
		{`{"schema_version": "ATIF-v1.4", "steps": [{"source": "agent", "message": [{"type": "image"}]}]}`, "f:1: steps[0].message[0]: a part of type"},
		{`{"messages": [{"role": "assistant", "content": "a", "token_ids": [1, 2], "logprobs": [-1]}]}`, "f:1: messages[0].logprobs: 1 log-probs for 2 token ids"},
		{`{"messages": [{"role": "assistant", "content": "a", "token_ids": [1, null]}]}`, "f:1: messages[0].token_ids: want an array of token ids: null among them"},
		{`{"messages": [{"role": "assistant", "content": "a", "token_ids": [-1]}]}`, "f:1: messages[0].token_ids: token id -1, want 0 or more"},
		{`{"prompt": "q", "response": {"text": "a", "output_ids": [1], "meta_info": {"output_token_logprobs": [[-1, 2, null]]}}}`, "output_token_logprobs: the log-probs are those of other token ids than the recorded ones"},
		{`{"prompt": "q", "completions": ["a", "b"], "rewards": [1]}`, "f:1: rewards: 1 scores for 2 replies"},
		{`{"reward": [0, 1], "messages": []}`, "f:1: reward: [0, 1], want a number"},
		{`{"prompt": "q", "chosen": "a", "rejected": "b"}`, "f:1: no known form"},
		{`{"tools": "[{]", "messages": []}`, "f:1: tools: a string that should hold JSON: "},
		{`{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}, {"role": "tool", "tool_call_id": "1"}, {"role": "tool", "tool_call_id": "2"}]}`, "f:1: messages[2]: a tool result that answers no call"},
		{`{"conversations": [{"from": "human", "value": "q"}], "messages": [{"role": "assistant", "content": "a"}]}`, `f:1: conversations: the conversation of the run stands here and in messages: leave one of them out`},
		{`{"history": [{"role": "user", "content": "q"}], "trajectory": [], "messages": [{"role": "assistant", "content": "a"}]}`, `f:1: history: the conversation of the run stands here and in messages`},
		{`{"conversations": [{"role": "user", "content": "q"}], "conversation": [{"role": "assistant", "content": "a"}]}`, `f:1: conversation: the conversation of the run stands here and in conversations`},
		{`{"input": [{"role": "user", "content": "q"}], "messages": [{"role": "assistant", "content": "a"}]}`, `f:1: input: the conversation of the run stands here and in messages`},
		{`{"request": {"messages": [{"role": "user", "content": "q"}]}, "messages": [{"role": "assistant", "content": "a"}]}`, `f:1: request.messages: the conversation of the run stands here and in messages`},
		{`{"runs": [{"x": 1}, {"messages": [{"role": "assistant", "content": "a"}]}]}`, `f:1: runs[0]: no known form of a recorded run`},
		{`{"prompt": "p", "completion": "X", "responses": ["Y", "Z"]}`, `f:1: responses: the reply stands here and in completion: leave one of them out`},
		{`{"messages": [{"role": "user", "content": "q"}], "response": "a", "output": "b"}`, `f:1: output: the reply stands here and in response`},
		{`{"input": "q", "output": [{"role": "assistant", "content": "a"}], "response": {"output": [{"role": "assistant", "content": "b"}]}}`, `f:1: response.output: the output of the run stands here and in output`},
		{`{"input": "p", "request": {"input": "q"}, "response": {"output": [{"role": "assistant", "content": "a"}]}}`, `f:1: request.input: the input of the run stands here and in input`},
		{`{"instructions": {"text": "s"}, "input": "q", "output": [{"role": "assistant", "content": "a"}]}`, `f:1: instructions: an object, want a string`},
		{`{"prompt": "q", "completion": "a", "rewards": {"x": 1}}`, `f:1: rewards: an object, want an array`},
		{`{"prompt": "q", "completions": ["a", "b"], "rewards": 1}`, `f:1: rewards: a number, want an array`},
		{`{"group_id": ["x"], "messages": [{"role": "assistant", "content": "a"}]}`, `f:1: group_id: an array names nothing: want a string or a number`},
		{`{"id": {"x": 1}, "messages": [{"role": "assistant", "content": "a"}]}`, `f:1: id: an object names nothing`},
		{`{"messages": [{"role": "assistant", "content": "a", "reasoning_content": 5}]}`, `f:1: messages[0].reasoning_content: a number, want text`},
		{`{"messages": [{"role": "assistant", "content": "a", "reasoning": {"x": 1}}]}`, `f:1: messages[0].reasoning: an object without a text of reasoning`},
		{`{"messages": [{"role": "assistant", "content": "a", "reasoning_details": [{"type": "hologram", "x": 1}]}]}`, `f:1: messages[0].reasoning_details[0]: a part of reasoning that is no text`},
		{`{"messages": [{"role": "assistant", "refusal": {"text": "no"}}]}`, `f:1: messages[0].refusal: an object, want a string`},
		{`{"history": [{"action": "run", "args": {"command": "ls"}, "source": "agent", "tool_call_metadata": {"tool_call_id": "1", "function_name": "f", "model_response": {"choices": [{"message": {"role": "assistant", "content": "a", "reasoning": 5}}]}}}]}`, `reasoning: a number, want text`},
		{`{"messages": [{"role": "assistant", "content": "a", "loss": []}]}`, `f:1: messages[0].loss: an array, want a number, true or false`},
		{`{"messages": [{"role": "assistant", "content": "a", "weight": "much"}]}`, `f:1: messages[0].weight: "much", want a number, true or false`},
		{`{"messages": [{"role": "assistant", "content": "a", "token_ids": [1], "logprobs": [0.5]}]}`, `f:1: messages[0]: log-prob 0.5 of a sampled token, want 0 or less`},
		{`{"message_log": [{"role": "user", "content": "q", "token_ids": []}]}`, `f:1: message_log[0].token_ids: no token ids of a message that says something`},
		{`{"score": ["éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé"], "messages": []}`, `f:1: score: ["éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé…, want a number`},
		{"{\"score\": [\n1\n], \"messages\": []}", "f:1: score: [1], want a number"},
		{"\xff\xfe{\x00}\x00", "f:1: UTF-16: save it as UTF-8"},
		{"\xfe\xff\x00{\x00}", "f:1: UTF-16: save it as UTF-8"},
		{"{\x00\"\x00", "f:1: UTF-16: save it as UTF-8"},
		{"\x00{\x00\"", "f:1: UTF-16: save it as UTF-8"},
		{string(zipped(t, []byte(`{"messages": []}`))) + "garbage and more of it", "f: gzip: gzip: invalid header: what stands there is not compressed"},
		{string(damaged(zipped(t, []byte(`{"messages": []}`)))), "f: gzip: gzip: invalid checksum: the data is not what was compressed: copy the file again"},
		{string(zstdCompressed(t, []byte(`{"messages": []}`))) + "garbage and more of it", "f: zstd: invalid input: magic number mismatch: what stands there is not compressed"},
	} {
		_, err := Read("f", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// damaged changes a byte of the checksum that ends a gzip stream.
func damaged(compressed []byte) []byte {
	compressed[len(compressed)-8]++
	return compressed
}

// TestOwnErrors refuses trajectories of this project that tell less than they seem to.
func TestOwnErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ entries, want string }{
		{`{"message": {"role": "user", "content": "q"}, "ids": [1]}, {"message": {"role": "assistant", "content": "a"}, "ids": []}`, "f:1: entries[1].ids: no token ids of a message that says something"},
		{`{"message": {"role": "user", "content": "q"}, "ids": []}, {"message": {"role": "assistant", "content": "a"}, "ids": [1, 2], "sampled": [0, 2]}`, "f:1: entries[0].ids: no token ids of a message that says something"},
		{`{"message": {"role": "system", "content": "s"}, "ids": []}, {"message": {"role": "user", "content": "q"}, "ids": [1]}, {"message": {"role": "assistant", "content": "a"}, "ids": [1, 2], "sampled": [0, 2]}`, "<nil>"},
		{`{"message": {"role": "king", "content": "q"}, "ids": [1]}`, `f:1: entries[0]: unknown role "king"`},
	} {
		_, err := Read("f", strings.NewReader(`{"form": "infinirl-trajectory", "version": 1, "trajectory_id": "t", "status": "finished", "entries": [`+c.entries+`], "segments": []}`))
		if got := fmt.Sprint(err); !strings.Contains(got, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.entries, got, c.want)
		}
	}
}

// TestLongLine reads a single line of 100 MB.
func TestLongLine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it reads 100 MB")
	}
	text := `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 20<<20) + `"},{"role":"assistant","content":"ok"}]}`
	runs, err := Read("f", strings.NewReader(text))
	if err != nil || len(runs) != 1 || len(runs[0].Messages[0].Content) != 100<<20 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// FuzzRead checks that no input makes Read panic or hang, and that its errors are
// single lines that name the file.
func FuzzRead(f *testing.F) {
	for _, file := range fixtures(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Read("f", strings.NewReader(string(text))); err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error without place: %v", err)
			}
		}
	})
}

// sampledIDs are those that the log-probs of a message belong to.
func (m Message) sampledIDs() []int32 {
	if m.End > m.Start {
		return m.IDs[m.Start:m.End]
	}
	return m.IDs
}
