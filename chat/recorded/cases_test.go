package recorded

import (
	"strings"
	"testing"
)

// cases are recordings of every kind that is easily read wrong, each with what it
// tells.
var cases = []struct{ name, text, want string }{
	// What the policy did not sample.
	{"flags that say do not train", `{"messages": [{"role": "user", "content": "q"},
		{"role": "assistant", "content": "a", "weight": 0}, {"role": "assistant", "content": "b", "loss": false},
		{"role": "assistant", "content": "c", "trainable": false}, {"role": "assistant", "content": "d", "train": 0.0},
		{"role": "assistant", "content": "e", "weight": "0"}, {"role": "assistant", "content": "f", "loss_weight": 0},
		{"role": "assistant", "content": "g", "weight": 1}, {"role": "assistant", "content": "h", "train": true, "loss": null}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant not sampled "a"
  assistant not sampled "b"
  assistant not sampled "c"
  assistant not sampled "d"
  assistant not sampled "e"
  assistant not sampled "f"
  assistant "g"
  assistant "h"
`},
	{"a weight of one half", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0.5}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
  notice: 1 weights other than 0 and 1, taken as 1
`},
	{"flags of ShareGPT", `{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a", "weight": 0}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}", "loss": false}, {"from": "observation", "value": "r"}, {"from": "gpt", "value": "b", "loss": true}]}`, `
sharegpt: run "run-0" of group "run-0"
  user "q"
  assistant not sampled "a"
  assistant not sampled null calls f() {}
  tool "r"
  assistant "b"
`},
	{"flags of Anthropic messages", `{"system": "s", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "weight": 0, "content": [{"type": "text", "text": "a"}, {"type": "image", "source": {}}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  system "s"
  user "q"
  assistant not sampled "a\n[image]"
  notice: 1 images shown as [image]
  notice: 1 runs without a sampled token
`},
	{"flags of LangChain messages", `[{"type": "human", "content": "q"}, {"type": "ai", "content": "a", "train": false}, {"type": "ai", "content": "b"}]`, `
langchain: run "run-0" of group "run-0"
  user "q"
  assistant not sampled "a"
  assistant "b"
`},
	{"flags of Responses items", `{"input": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0}], "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]}]}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant not sampled "a"
  assistant "b"
`},

	// What the model said.
	{"thinking between texts", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [
		{"type": "thinking", "thinking": "one", "signature": "s"}, {"type": "thinking", "thinking": "two"}, {"type": "text", "text": "first"},
		{"type": "thinking", "thinking": "three"}, {"type": "text", "text": "second"}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a":1}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "one\n\ntwo" "first\n<think>\nthree\n</think>\n\nsecond" calls f(t) {"a": 1}
  tool( t) "r"
`},
	{"encrypted thinking", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "xx"}, {"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": "a"}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
  notice: 2 reasoning recorded encrypted or empty, left out
`},
	{"thinking_blocks", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "one", "thinking_blocks": [{"type": "thinking", "thinking": "one"}, {"type": "thinking", "thinking": "two"}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "one\n\ntwo" "a"
`},
	{"fields of the provider", `{"messages": [{"role": "user", "content": "q"}], "choices": [{"provider_specific_fields": {"token_ids": [3]}, "message": {"role": "assistant", "content": "a", "provider_specific_fields": {"thinking_blocks": [{"type": "thinking", "thinking": "why"}]}}}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why" "a" ids [3]
`},
	{"reasoning_details", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning": null, "reasoning_details": [{"type": "reasoning.summary", "summary": "one"}, {"type": "reasoning.text", "text": "two"}, {"type": "reasoning.encrypted", "data": "x"}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "one\n\ntwo" "a"
  notice: 1 reasoning recorded encrypted or empty, left out
`},
	{"reasoning_content beside an empty reasoning", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "why", "reasoning": ""}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why" "a"
`},
	{"an empty reasoning_content beside reasoning", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "", "reasoning": {"content": "why"}}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why" "a"
`},
	{"Magistral", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "why "}, {"type": "text", "text": "not"}]}, {"type": "text", "text": "a"}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why not" "a"
`},
	{"reasoning among content and beside it", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "reasoning_content": "why", "content": [{"type": "reasoning", "reasoning": "why"}, {"type": "text", "text": "a"}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why" "a"
`},
	{"several reasoning items", `{"input": "q", "output": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "three"}], "summary": []}, {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"}, {"type": "function_call_output", "call_id": "2", "output": "two"}, {"type": "function_call_output", "call_id": "1", "output": "one"}, {"type": "reasoning", "encrypted_content": "x", "summary": []}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]}]}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant reasons "one\n\ntwo\n\nthree" null calls f(1) {} calls g(2) {}
  tool( 2) "two"
  tool( 1) "one"
  assistant "ab"
  notice: 1 reasoning recorded encrypted or empty, left out
  notice: 1 text or reasoning after a call, placed before it
`},
	{"reasoning after text in Responses", `{"input": "q", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]}]}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant "a\n<think>\nhm\n</think>\n\nb"
`},
	{"LangChain content blocks", `[{"type": "human", "content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": "x"}}]},
		{"type": "ai", "content": [{"type": "reasoning", "reasoning": "why"}, {"type": "text", "text": "a"}, {"type": "tool_call", "id": "1", "name": "f", "args": {"x":1}}], "tool_calls": [{"type": "tool_call", "id": "1", "name": "f", "args": {"x":1}}]},
		{"type": "tool", "tool_call_id": "1", "content": "r"}, {"type": "ai", "content": [{"type": "reasoning_content", "reasoning_content": {"text": "so"}}, "b"]}]`, `
langchain: run "run-0" of group "run-0"
  user "q[image]"
  assistant reasons "why" "a" calls f(1) {"x": 1}
  tool( 1) "r"
  assistant reasons "so" "b"
  notice: 1 images shown as [image]
`},
	{"LangChain additional_kwargs", `[{"type": "human", "content": "q"}, {"type": "ai", "content": "", "additional_kwargs": {"reasoning_content": "why", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]}, "tool_calls": [{"id": "1", "name": "f", "args": {"x": 1}}]}, {"type": "tool", "tool_call_id": "1", "content": "r"},
		{"type": "ai", "content": "a", "additional_kwargs": {"reasoning": {"summary": [{"type": "summary_text", "text": "so"}]}}}]`, `
langchain: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why" "" calls f(1) {"x":1}
  tool( 1) "r"
  assistant reasons "so" "a"
`},
	{"names of parts", `{"messages": [{"role": "user", "content": [{"type": "text", "value": "a"}, {"type": "text", "content": "b"}, {"type": "input_text", "text": "c"}, {"type": "text", "text": {"value": "d"}}, "e", {"text": "f"}]},
		{"role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "no"}, {"type": "reasoning", "content": "why"}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "abcdef"
  assistant "ano\n<think>\nwhy\n</think>\n\n"
`},
	{"a refusal beside the content", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "refusal": "no"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "no"
`},
	{"images and files", `{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}, {"type": "input_image", "image_url": ""}, {"type": "image", "source": {}}, {"type": "image_file", "image_file": {}}, {"image": "p.png"}, {"type": "media", "mime_type": "image/png", "data": ""}]},
		{"role": "user", "content": [{"type": "file", "file": {}}, {"type": "input_file", "file_id": ""}, {"type": "document", "source": {}}, {"type": "input_audio", "input_audio": {}}, {"type": "video_url", "video_url": {}}, {"type": "hologram", "data": ""}]},
		{"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "[image][image][image][image][image][image]"
  user "[file][file][file][audio][video][hologram]"
  assistant "a"
  notice: 1 audio shown as [audio]
  notice: 3 files shown as [file]
  notice: 6 images shown as [image]
  notice: 1 parts of type hologram shown as [hologram]
  notice: 1 videos shown as [video]
`},
	{"an image in Responses", `{"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image", "image_url": "x"}]}], "output": []}`, `
openai-responses: run "run-0" of group "run-0"
  user "[image]"
  assistant null calls f(1) {}
  tool( 1) "[image]"
  notice: 2 images shown as [image]
`},
	{"an image in ShareGPT", `{"conversations": [{"from": "human", "value": [{"type": "image"}, {"type": "text", "text": "q"}]}, {"from": "gpt", "value": "a"}]}`, `
sharegpt: run "run-0" of group "run-0"
  user "[image]q"
  assistant "a"
  notice: 1 images shown as [image]
`},
	{"an image in Anthropic results", `{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image", "source": {}}]}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {}
  tool( 1) "[image]"
  notice: 1 images shown as [image]
`},
	{"a response beside its prompt", `{"messages": [{"role": "user", "content": "q"}], "response": {"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}}]}}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"choices beside the prompt", `{"id": "x", "messages": [{"role": "user", "content": "q"}], "choices": [{"message": {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}}]}`, `
openai-messages: run "x" of group "x"
  user "q"
  assistant null calls f(1) {}
`},
	{"several choices", `{"id": "x", "reward": 1, "messages": [{"role": "user", "content": "q"}], "choices": [{"message": {"role": "assistant", "content": "a"}}, {"message": {"role": "assistant", "content": "b"}}]}`, `
openai-messages: run "x/0" of group "x", score 1
  user "q"
  assistant "a"
  notice: 1 replies that share one score with others
openai-messages: run "x/1" of group "x", score 1
  user "q"
  assistant "b"
  notice: 1 replies that share one score with others
`},
	{"request and response", `{"request": {"messages": [{"role": "user", "content": "q"}], "tools": [{"name": "f"}]}, "response": {"body": {"choices": [{"message": {"role": "assistant", "content": "a"}}]}}}`, `
openai-messages: run "run-0" of group "run-0"
  tool f "" 
  user "q"
  assistant "a"
`},
	{"an Anthropic response beside its prompt", `{"system": "s", "messages": [{"role": "user", "content": "q"}], "response": {"role": "assistant", "type": "message", "content": [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "a"}]}}`, `
anthropic-messages: run "run-0" of group "run-0"
  system "s"
  user "q"
  assistant reasons "why" "a"
`},
	{"a Responses response beside its prompt", `{"input": "q", "response": {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}]}}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"a reply that is logged twice", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "response": {"choices": [{"message": {"role": "assistant", "content": "a", "reasoning_content": "why"}}]}}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why" "a"
`},
	{"outputs that repeat the inputs", `{"inputs": {"messages": [{"role": "user", "content": "q"}]}, "outputs": {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"input messages and an output message", `{"input": [{"role": "user", "content": "q"}], "output": {"role": "assistant", "content": "a"}}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"a reply as text", `{"messages": [{"role": "user", "content": "q"}], "response": "a"}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"text beside a conversation", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "the answer is 4"}], "output": "4"}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "the answer is 4"
  notice: 1 fields beside a conversation that ends with a reply, left out: output
`},
	{"nothing sampled", `{"messages": [{"role": "user", "content": "q"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  notice: 1 runs without a sampled token
`},
	{"only an empty reply", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ""}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant not sampled ""
  notice: 1 runs without a sampled token
`},
	{"client-run items of Responses", `{"input": "q", "output": [{"type": "shell_call", "call_id": "1", "action": {"commands": ["ls"]}}, {"type": "shell_call_output", "call_id": "1", "output": [{"stdout": "x", "stderr": ""}]},
		{"type": "local_shell_call", "call_id": "2", "action": {"type": "exec", "command": ["ls"]}}, {"type": "local_shell_call_output", "call_id": "2", "output": "x"},
		{"type": "apply_patch_call", "call_id": "3", "operation": {"type": "delete_file", "path": "a"}}, {"type": "apply_patch_call_output", "call_id": "3", "status": "completed"},
		{"type": "computer_call", "call_id": "4", "action": {"type": "click", "x": 1}}, {"type": "computer_call_output", "call_id": "4", "output": {"type": "computer_screenshot", "image_url": "x"}},
		{"type": "custom_tool_call", "call_id": "5", "name": "sql", "input": "select 1"}, {"type": "custom_tool_call_output", "call_id": "5", "output": "1"},
		{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}]}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant null calls shell(1) {"commands": ["ls"]}
  tool( 1) "[{\"stdout\": \"x\", \"stderr\": \"\"}]"
  assistant null calls local_shell(2) {"type": "exec", "command": ["ls"]}
  tool( 2) "x"
  assistant null calls apply_patch(3) {"type": "delete_file", "path": "a"}
  tool( 3) "completed"
  assistant null calls computer(4) {"type": "click", "x": 1}
  tool( 4) "[image]"
  assistant null calls sql(5) select 1
  tool( 5) "1"
  assistant "done"
  notice: 1 images shown as [image]
`},
	{"server-run items of Responses", `{"input": "q", "output": [{"type": "web_search_call", "id": "1", "action": {"type": "search", "query": "x"}}, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {"type": "code_interpreter_call", "id": "2", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
		{"type": "mcp_list_tools", "tools": [{"name": "find", "input_schema": {"type": "object"}}]}, {"type": "mcp_call", "id": "3", "name": "find", "arguments": "{\"q\":1}", "output": "found"},
		{"type": "image_generation_call", "id": "4", "result": "base64"}, {"type": "file_search_call", "id": "5", "queries": ["a"], "results": null}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}]}`, `
openai-responses: run "run-0" of group "run-0"
  tool find "" {"type": "object"}
  user "q"
  assistant null calls web_search(1) {"type": "search", "query": "x"}
  assistant reasons "hm" null calls code_interpreter(2) {"code": "1+1"}
  tool( 2) "[{\"type\": \"logs\", \"logs\": \"2\"}]"
  assistant null calls find(3) {"q":1}
  tool( 3) "found"
  assistant null calls image_generation(4) {}
  tool( 4) "[image]"
  assistant null calls file_search(5) {"queries": ["a"]}
  assistant "done"
  notice: 1 images shown as [image]
`},
	{"server-run tools of Anthropic", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "text", "text": "look"}, {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {"query": "x"}}, {"type": "web_search_tool_result", "tool_use_id": "1", "content": [{"type": "web_search_result", "title": "t"}]}, {"type": "text", "text": "found"}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  user "q"
  assistant "look" calls web_search(1) {"query": "x"}
  tool( 1) "[web_search_result]"
  assistant "found"
  notice: 1 parts of type web_search_result shown as [web_search_result]
`},
	{"LangChain invalid_tool_calls", `[{"type": "human", "content": "q"}, {"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "f", "args": {}}], "invalid_tool_calls": [{"id": "2", "name": "g", "args": "{\"x\": ", "error": "bad"}]}, {"type": "tool", "tool_call_id": "1", "content": "r"}, {"type": "tool", "tool_call_id": "2", "content": "bad"}]`, `
langchain: run "run-0" of group "run-0"
  user "q"
  assistant "" calls f(1) {} calls g(2) {"x": 
  tool( 1) "r"
  tool( 2) "bad"
`},
	{"arguments that are no JSON", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\"x\": "}}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {"x": 
`},
	{"text after a call", `{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}, {"type": "text", "text": "a"}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  assistant "a" calls f(1) {}
  notice: 1 text or reasoning after a call, placed before it
`},

	// Equal runs, equal tokens.
	{"arguments as an object", "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"name\": \"f\", \"arguments\": {\n  \"b\":1,\"a\" : [ 1.0,{\"c\":\"\\u00e9\\n\"} ]}}]}]}", `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f() {"b": 1, "a": [1.0, {"c": "é\n"}]}
`},
	{"arguments as a string", `{"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{\"b\":1,  \"a\": \"\\u00e9\"}"}, {"name": "g", "arguments": null}, {"name": "h", "arguments": [1,2]}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f() {"b":1,  "a": "\u00e9"} calls g() {} calls h() [1, 2]
`},
	{"a key that repeats", `{"messages": [{"role": "user", "content": "old", "content": "new"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "new"
  assistant "a"
`},
	{"half a surrogate pair", `{"messages": [{"role": "user", "content": "\ud83d"}, {"role": "assistant", "content": "\ud83d\ude00"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "�"
  assistant "😀"
  notice: 1 recordings with invalid Unicode, shown as �
`},

	{"half a surrogate pair that was sampled", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "\ud83d"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "�"
  notice: 1 recordings with invalid Unicode, shown as �
`},

	// Token ids.
	{"ids of vLLM", `{"messages": [{"role": "user", "content": "q"}], "response": {"prompt_token_ids": [1, 2], "choices": [{"token_ids": [3, 4], "logprobs": {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1}]}, "message": {"role": "assistant", "content": "ab"}}]}}`, `
openai-messages: run "run-0" of group "run-0"
  user "q" ids [1 2]
  assistant "ab" ids [3 4] log-probs [-0.5 -1]
`},
	{"ids of vLLM as tokens", `{"messages": [{"role": "user", "content": "q"}], "choices": [{"logprobs": {"content": [{"token": "token_id:3", "logprob": -0.5}, {"token": "token_id:4", "logprob": -1}]}, "message": {"role": "assistant", "content": "ab"}}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "ab" ids [3 4] log-probs [-0.5 -1]
`},
	{"ids of several choices", `{"id": "x", "prompt": "q", "prompt_token_ids": [9], "choices": [{"text": "a", "token_ids": [1], "logprobs": {"token_logprobs": [-1]}}, {"text": "b", "token_ids": [2]}]}`, `
prompt-completion: run "x/0" of group "x"
  user "q" ids [9]
  assistant "a" ids [1] log-probs [-1]
prompt-completion: run "x/1" of group "x"
  user "q" ids [9]
  assistant "b" ids [2]
`},
	{"ids of SGLang", `{"prompt": "q", "response": {"text": "ab", "output_ids": [3, 4], "meta_info": {"output_token_logprobs": [[-0.5, 3, null], [-1, 4, null]]}}}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant "ab" ids [3 4] log-probs [-0.5 -1]
`},
	{"ids of SGLang in a row", `{"prompt": "q", "completion": "ab", "output_ids": [3, 4], "meta_info": {"output_token_logprobs": [[-0.5, 3, null], [-1, 4, null]]}}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant "ab" ids [3 4] log-probs [-0.5 -1]
`},
	{"ids of messages", `{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "prompt_token_ids": [1, 2, 3, 4, 5], "completion_token_ids": [6]}]}`, `
openai-messages: run "run-0" of group "run-0"
  system "s" ids []
  user "q" ids [1 2]
  assistant "a" ids [3] log-probs [-0.5]
  user "r" ids [4 5]
  assistant "b" ids [6]
`},
	{"prompts that do not continue", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "prompt_token_ids": [1, 2], "token_ids": [3]}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "prompt_token_ids": [1, 9, 3, 4, 5], "token_ids": [6]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a" ids [3]
  user "r"
  assistant "b" ids [6]
  notice: 1 prompt token ids that do not continue each other, left out: prompts are encoded
`},
	{"ids of NeMo Gym", `{"responses_create_params": {"input": [{"role": "user", "content": "q"}]}, "response": {"output": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}", "prompt_token_ids": [1], "generation_token_ids": [2, 3], "generation_log_probs": [-0.5, -0.25]}, {"type": "function_call_output", "call_id": "1", "output": "r"}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}], "prompt_token_ids": [1, 2, 3, 4], "generation_token_ids": [5], "generation_log_probs": [-1]}]}, "reward": 0.5}`, `
openai-responses: run "run-0" of group "run-0", score 0.5
  user "q" ids [1]
  assistant reasons "hm" null calls f(1) {} ids [2 3] log-probs [-0.5 -0.25]
  tool( 1) "r" ids [4]
  assistant "a" ids [5] log-probs [-1]
`},
	{"log-probs without ids", `{"messages": [{"role": "user", "content": "q"}], "choices": [{"logprobs": {"content": [{"token": "a", "logprob": -0.5}]}, "message": {"role": "assistant", "content": "a"}}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
  notice: 1 log-probs without token ids, left out
`},

	// Who belongs together.
	{"group_id", `{"group_id": "g", "id": 7, "score": 1, "messages": [{"role": "assistant", "content": "a"}]}`, `
openai-messages: run "7" of group "g", score 1
  assistant "a"
`},
	{"task_id and trial", `{"task_id": 3, "trial": 2, "reward": 0.5, "messages": [{"role": "assistant", "content": "a"}]}`, `
openai-messages: run "3/2" of group "3", score 0.5
  assistant "a"
`},
	{"prompt_id", `{"prompt_id": "p", "trajectory_id": "t", "reward_info": {"reward": -1}, "messages": [{"role": "assistant", "content": "a"}]}`, `
openai-messages: run "t" of group "p", score -1
  assistant "a"
`},
	{"instance_id", `{"instance_id": "i", "resolved": true, "messages": [{"role": "assistant", "content": "a"}]}`, `
openai-messages: run "i" of group "i", score 1
  assistant "a"
`},
	{"problem_id", `{"problem_id": "p", "id": "r", "success": false, "messages": [{"role": "assistant", "content": "a"}]}`, `
openai-messages: run "r" of group "p", score 0
  assistant "a"
`},
	{"no group", `{"id": "r", "task_id": "", "score": null, "reward": 2, "messages": [{"role": "assistant", "content": "a"}]}`, `
openai-messages: run "r" of group "r", score 2
  assistant "a"
`},
	{"ids that repeat", `{"id": "r", "messages": [{"role": "assistant", "content": "a"}]}
		{"id": "r#2", "messages": [{"role": "assistant", "content": "b"}]}
		{"id": "r", "messages": [{"role": "assistant", "content": "c"}]}
		{"messages": [{"role": "assistant", "content": "d"}]}`, `
openai-messages: run "r" of group "r"
  assistant "a"
openai-messages: run "r#2" of group "r#2"
  assistant "b"
openai-messages: run "r#3" of group "r"
  assistant "c"
openai-messages: run "run-3" of group "run-3"
  assistant "d"
`},

	// Who answers whom.
	{"results in another order than calls", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}, {"id": "2", "name": "g"}]}, {"role": "tool", "tool_call_id": "2", "content": "two"}, {"role": "tool", "tool_call_id": "1", "content": "one"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {} calls g(2) {}
  tool( 2) "two"
  tool( 1) "one"
`},
	{"two calling messages before both results", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}, {"role": "assistant", "tool_calls": [{"id": "2", "name": "g"}]}, {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "tool_call_id": "2", "content": "two"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {}
  tool( 1) "one"
  assistant null calls g(2) {}
  tool( 2) "two"
  assistant "a"
  notice: 1 tool results moved behind their call
`},
	{"the same without ids", `{"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}, {"role": "assistant", "tool_calls": [{"name": "g"}]}, {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f() {}
  tool "one"
  assistant null calls g() {}
  tool "two"
  notice: 1 tool results moved behind their call
`},
	{"the same with ids that repeat", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "0", "name": "f"}]}, {"role": "assistant", "tool_calls": [{"id": "0", "name": "g"}]}, {"role": "tool", "tool_call_id": "0", "content": "one"}, {"role": "tool", "tool_call_id": "0", "content": "two"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(0) {}
  tool( 0) "one"
  assistant null calls g(0) {}
  tool( 0) "two"
  notice: 1 tool results moved behind their call
`},
	{"a call whose result was lost", `{"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}, {"role": "assistant", "tool_calls": [{"name": "g"}]}, {"role": "tool", "content": "two"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f() {}
  assistant null calls g() {}
  tool "two"
`},
	{"a late result", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}, {"role": "user", "content": "wait"}, {"role": "assistant", "content": "waiting"}, {"role": "tool", "tool_call_id": "1", "content": "one"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {}
  tool( 1) "one"
  user "wait"
  assistant "waiting"
  notice: 1 tool results moved behind their call
`},
	{"a note between results", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}, {"id": "2", "name": "g"}]}, {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "content": "note"}, {"role": "tool", "tool_call_id": "2", "content": "two"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {} calls g(2) {}
  tool( 1) "one"
  user observes "note"
  tool( 2) "two"
  notice: 1 tool messages without an id and a call, shown as observations
`},
	{"notes after results", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}, {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "content": "note"}, {"role": "tool", "content": "more"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {}
  tool( 1) "one"
  user observes "note"
  user observes "more"
  assistant "a"
  notice: 2 tool messages without an id and a call, shown as observations
`},
	{"a user's note between results", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}, {"id": "2", "name": "g"}]}, {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "user", "content": "note"}, {"role": "tool", "tool_call_id": "2", "content": "two"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {} calls g(2) {}
  tool( 1) "one"
  user "note"
  tool( 2) "two"
`},
	{"calls of the user", `{"messages": [{"role": "user", "content": null, "tool_calls": [{"id": "1", "name": "f", "arguments": {}, "requestor": "user"}]}, {"role": "tool", "id": "1", "requestor": "user", "content": "r"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user observes "{\"id\": \"1\", \"name\": \"f\", \"arguments\": {}, \"requestor\": \"user\"}"
  user observes "r"
  assistant "a"
  notice: 1 results of the user's own tool calls, shown as observations
  notice: 1 tool calls of the user, shown as observations
`},
	{"empty tool_calls beside function_call", `{"messages": [{"role": "assistant", "content": null, "tool_calls": [], "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "r"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f() {}
  tool(f ) "r"
`},
	{"list content beside tool_calls", `{"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "a"}], "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "r"}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  assistant reasons "why" "a" calls f(1) {}
  tool( 1) "r"
`},
	{"a result that is an object", `{"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}, {"role": "tool", "content": {"x":1}}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f() {}
  tool "{\"x\": 1}"
`},
	{"custom calls", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls sql(1) select 1
`},

	// Current versions of forms.
	{"ShareGPT with tools as a string", `{"tools": "[{\"name\": \"f\", \"parameters\": {\"type\":\"object\"}}]", "conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "<think>\nwhy\n</think>\n\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n{\"name\": \"g\", \"arguments\": \"{}\"}"}, {"from": "observation", "value": "1"}, {"from": "observation", "value": "2"}, {"from": "gpt", "value": "a"}]}`, `
sharegpt: run "run-0" of group "run-0"
  tool f "" {"type": "object"}
  user "q"
  assistant reasons "why" null calls f() {"x":1} calls g() {}
  tool "1"
  tool "2"
  assistant "a"
`},
	{"ShareGPT with an array of calls", `{"tools": "", "conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"parameters\": {\"t\": \"<tool_call>\"}}]"}]}`, `
sharegpt: run "run-0" of group "run-0"
  user "q"
  assistant null calls f() {} calls g() {"t": "<tool_call>"}
`},
	{"conversations with roles", `{"conversations": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
sharegpt: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"LangGraph state", `{"messages": [{"type": "system", "content": "s"}, {"type": "human", "content": "q", "id": "x"}, {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {"x":1}, "id": "1", "type": "tool_call"}], "invalid_tool_calls": []}, {"type": "tool", "content": "r", "name": "f", "tool_call_id": "1", "status": "success"}, {"type": "AIMessageChunk", "content": "a"}]}`, `
langchain: run "run-0" of group "run-0"
  system "s"
  user "q"
  assistant "" calls f(1) {"x": 1}
  tool(f 1) "r"
  assistant "a"
`},
	{"a reply beside LangGraph messages", `{"messages": [{"type": "human", "content": "q"}], "response": {"type": "ai", "content": "a"}}`, `
langchain: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"LangGraph values", `{"values": {"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "a"}]}, "next": []}`, `
langchain: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"LangChain type and data", `[{"type": "human", "data": {"content": "q"}}, {"type": "ai", "data": {"content": "a", "type": "ai"}}]`, `
langchain: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"prompt and completion", `{"prompt": "q", "completion": "a"}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"prompt and completion as messages", `{"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "before"}, {"role": "user", "content": "r"}], "completion": [{"role": "assistant", "content": "a"}]}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant not sampled "before"
  user "r"
  assistant "a"
`},
	{"several completions", `{"task_id": "t", "prompt": "q", "completions": ["a", "b"], "rewards": [0, 1]}`, `
prompt-completion: run "t/0" of group "t", score 0
  user "q"
  assistant "a"
prompt-completion: run "t/1" of group "t", score 1
  user "q"
  assistant "b"
`},
	{"one message a line", "{\"role\": \"user\", \"content\": \"q\"}\n\n{\"role\": \"assistant\", \"content\": \"a\"}\n", `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"one LangGraph message a line", "{\"type\": \"human\", \"content\": \"q\"}\n{\"type\": \"ai\", \"content\": \"a\"}\n", `
langchain: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"one conversation a line", "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]\n[{\"role\": \"assistant\", \"content\": \"b\"}]\n", `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
openai-messages: run "run-1" of group "run-1"
  assistant "b"
`},
	{"an array of conversations", `[[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], [{"role": "assistant", "content": "b"}]]`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
openai-messages: run "run-1" of group "run-1"
  assistant "b"
`},
	{"objects one after the other", "{\n\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]\n}\n{\n\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}]\n}", `
openai-messages: run "run-0" of group "run-0"
  assistant "a"
openai-messages: run "run-1" of group "run-1"
  assistant "b"
`},

	// What would be lost without a word.
	{"an empty list of ids", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b", "token_ids": [], "logprobs": []}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "b"
`},
	{"an empty list of ids of a choice", `{"prompt": "q", "choices": [{"text": "abc", "token_ids": [], "prompt_token_ids": []}]}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant "abc"
`},
	{"empty lists of SGLang", `{"prompt": "q", "response": {"text": "abc", "output_ids": [], "meta_info": {"output_token_logprobs": []}}}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant "abc"
`},
	{"an empty list of ids of ATIF", `{"schema_version": "ATIF-v1.4", "steps": [{"source": "user", "message": "q"}, {"source": "agent", "message": "abc", "metrics": {"completion_token_ids": [], "logprobs": []}}, {"source": "agent", "message": "d", "metrics": {"completion_token_ids": [], "logprobs": [-1]}}]}`, `
atif: run "run-0" of group "run-0"
  user "q"
  assistant "abc"
  assistant "d"
  notice: 1 log-probs without token ids were left out
`},
	{"an empty list of ids of Responses items", `{"input": "q", "output": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}], "token_ids": []}, {"type": "message", "role": "assistant", "content": "a", "token_ids": []}]}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant reasons "why" "a"
`},
	{"a prompt that holds none of the messages", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "prompt_token_ids": [1], "token_ids": [2]}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "b", "prompt_token_ids": [1, 2], "token_ids": [3]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a" ids [2]
  user "q"
  assistant "b" ids [3]
  notice: 1 prompt token ids that do not continue each other, left out: prompts are encoded
`},
	{"instructions as items", `{"instructions": [{"role": "developer", "content": "s"}, {"role": "user", "content": "t"}], "input": "q", "output": [{"role": "assistant", "content": "a"}]}`, `
openai-responses: run "run-0" of group "run-0"
  system "s"
  user "t"
  user "q"
  assistant "a"
`},
	{"instructions in the response alone", `{"input": "q", "response": {"instructions": "s", "output": [{"role": "assistant", "content": "a"}]}}`, `
openai-responses: run "run-0" of group "run-0"
  system "s"
  user "q"
  assistant "a"
`},
	{"empty conversations beside messages", `{"conversations": [], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"null conversations beside messages", `{"conversations": null, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"an empty conversation beside messages", `{"conversation": [], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"an empty message_log beside messages", `{"message_log": [], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"an empty traj beside messages", `{"reward": null, "traj": [], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"an empty history beside messages", `{"trajectory": [], "history": [], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"empty steps beside messages", `{"agent": {}, "steps": [], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"null messages beside conversations", `{"messages": null, "conversations": [], "conversation": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}`, `
sharegpt: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"empty messages beside a prompt", `{"messages": [], "prompt": "q", "completion": "a"}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"empty messages beside a request", `{"messages": [], "request": {"messages": [{"role": "user", "content": "q"}]}, "response": "a"}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"the start of the messages in the request", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "request": {"messages": [{"role":"user", "content":"q"}]}}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"messages beside an output of items", `{"messages": [{"role": "user", "content": "q"}], "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"the same reply in two fields", `{"prompt": "q", "completion": "a", "choices": [{"text": "a"}], "responses": ["a"], "output": ""}`, `
prompt-completion: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"the same output in two places", `{"input": "q", "output": [{"role": "assistant", "content": "a"}], "response": {"output": [{"role":"assistant", "content":"a"}]}}`, `
openai-responses: run "run-0" of group "run-0"
  user "q"
  assistant "a"
`},
	{"calls without ids in two places", `{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {"b": 2, "a": 1}}, {"type": "tool_use", "name": "f", "input": {"a": 2}}, {"type": "tool_use", "name": "f", "input": {"a": 2}}], "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"a\":1,\"b\":2}"}}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  assistant null calls f() {"a":1,"b":2} calls f() {"a": 2} calls f() {"a": 2}
`},
	{"calls with an id that repeats in two places", `{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "0", "name": "f", "input": {"a": 1}}, {"type": "tool_use", "id": "0", "name": "f", "input": {"a": 2}}], "tool_calls": [{"id": "0", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  assistant null calls f(0) {"a":1} calls f(0) {"a": 2}
`},
	{"calls with an id in one place", `{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}], "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "r"}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {"a":1}
  tool( 1) "r"
`},
	{"function_call beside an equal tool_calls", `{"messages": [{"role": "assistant", "function_call": {"name": "f", "arguments": "{\"a\": 1}"}, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {"a":1}
`},
	{"function_call beside other tool_calls", `{"messages": [{"role": "assistant", "function_call": {"name": "g", "arguments": "{}"}, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {"a":1} calls g() {}
`},
	{"an empty function_call beside tool_calls", `{"messages": [{"role": "assistant", "function_call": {"name": "", "arguments": ""}, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {"a":1}
`},
	{"results that are JSON", `{"messages": [{"role": "assistant", "tool_calls": [{"name": "f0"}, {"name": "f1"}, {"name": "f2"}, {"name": "f3"}, {"name": "f4"}, {"name": "f5"}, {"name": "f6"}, {"name": "f7"}, {"name": "f8"}, {"name": "f9"}, {"name": "f10"}]}, {"role": "tool", "content": {"text":"T","status":"LOST"}}, {"role": "tool", "content": {"type":"weather","value":"5","unit":"C"}}, {"role": "tool", "content": {"type":"weather","temp":3}}, {"role": "tool", "content": [{"type":"weather","temp":3}]}, {"role": "tool", "content": [1,{"x":2}]}, {"role": "tool", "content": {"file":"f","ok":true}}, {"role": "tool", "content": {"text":"T"}}, {"role": "tool", "content": {"type":"other","text":"T"}}, {"role": "tool", "content": [{"type":"text","text":"a","cache_control":{}},"b"]}, {"role": "tool", "content": {"type":7,"text":"T"}}, {"role": "tool", "content": {"type":"image","source":{}}}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f0() {} calls f1() {} calls f2() {} calls f3() {} calls f4() {} calls f5() {} calls f6() {} calls f7() {} calls f8() {} calls f9() {} calls f10() {}
  tool "{\"text\": \"T\", \"status\": \"LOST\"}"
  tool "{\"type\": \"weather\", \"value\": \"5\", \"unit\": \"C\"}"
  tool "{\"type\": \"weather\", \"temp\": 3}"
  tool "[{\"type\": \"weather\", \"temp\": 3}]"
  tool "[1, {\"x\": 2}]"
  tool "{\"file\": \"f\", \"ok\": true}"
  tool "T"
  tool "T"
  tool "ab"
  tool "{\"type\": 7, \"text\": \"T\"}"
  tool "[image]"
  notice: 1 images shown as [image]
`},
	{"results that are JSON among content", `{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"text":"T","status":"LOST"}]}]}]}`, `
anthropic-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {}
  tool( 1) "[{\"text\": \"T\", \"status\": \"LOST\"}]"
`},
	{"one reward of one completion", `{"prompt": "q", "completion": "a", "rewards": 0.7}`, `
prompt-completion: run "run-0" of group "run-0", score 0.7
  user "q"
  assistant "a"
`},
	{"one reward of messages", `{"messages": [{"role": "assistant", "content": "a"}], "rewards": 0.7}`, `
openai-messages: run "run-0" of group "run-0", score 0.7
  assistant "a"
`},
	{"rewards of turns", `{"messages": [{"role": "assistant", "content": "a"}], "rewards": [0, 1]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant "a"
  notice: 1 several scores beside one conversation, left out
`},
	{"reasoning that differs in two fields", `{"messages": [{"role": "assistant", "content": "a", "reasoning_content": "one and two", "reasoning": "three"}, {"role": "assistant", "content": "b", "reasoning_content": "one", "reasoning": "one  and two"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant reasons "one and two" "a"
  assistant reasons "one  and two" "b"
  notice: 1 reasoning in two fields that differ, the longer taken
`},
	{"reasoning as an object", `{"messages": [{"role": "assistant", "content": "a", "reasoning": {"id": "x", "encrypted_content": "y"}}, {"role": "assistant", "content": "b", "reasoning": {"summary": []}}, {"role": "assistant", "content": "c", "reasoning": {}}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant "a"
  assistant "b"
  assistant "c"
  notice: 1 reasoning recorded encrypted or empty, left out
`},
	{"an empty reply among others", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null}, {"role": "assistant"}, {"role": "assistant", "content": "a"}]}`, `
openai-messages: run "run-0" of group "run-0"
  user "q"
  assistant not sampled null
  assistant not sampled null
  assistant "a"
`},
	{"a result of another call", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}, {"role": "tool", "tool_call_id": "x", "content": "r"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {}
  tool( x) "r"
  notice: 1 results whose id no call has, paired by place
`},
	{"two results of one call", `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}, {"id": "2", "name": "g"}]}, {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "tool", "tool_call_id": "1", "content": "s"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant null calls f(1) {} calls g(2) {}
  tool( 1) "r"
  tool( 1) "s"
  notice: 1 results whose call has another result or comes later, paired by place
`},
	{"weights as text", `{"messages": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b", "weight": "0.0"}, {"role": "assistant", "content": "c", "weight": "1.0", "loss": ""}, {"role": "assistant", "content": "d", "weight": "0.5"}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant "a"
  assistant not sampled "b"
  assistant "c"
  assistant "d"
  notice: 1 weights other than 0 and 1, taken as 1
`},
	{"log-probs that are rounded", `{"messages": [{"role": "assistant", "content": "a", "token_ids": [1, 2], "logprobs": [0.0005, 0]}]}`, `
openai-messages: run "run-0" of group "run-0"
  assistant "a" ids [1 2] log-probs [0.0005 0]
`},
}

func TestCases(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		runs, err := Read("f", strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := "\n" + write(runs); got != c.want {
			t.Errorf("%s\n got %swant %s", c.name, got, c.want)
		}
	}
}
