package recorded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/infinirl/infinirl/chat"
)

// show writes runs as the table of TestEvents has them: a message a line, with a
// mark for what is not as its role says.
func show(runs []Run) string {
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, "%s %s of %s", r.Form, r.ID, r.Group)
		if r.HasScore {
			fmt.Fprintf(&b, " score %g", r.Score)
		}
		for _, tool := range r.Tools {
			fmt.Fprintf(&b, " tool %s", tool.Name)
		}
		b.WriteByte('\n')
		for _, m := range r.Messages {
			b.WriteString(string(m.Role))
			for _, mark := range []struct {
				is   bool
				name string
			}{{m.NotSampled, "shown"}, {m.Task, "task"}, {m.Observation, "observes"}} {
				if mark.is {
					b.WriteString(" " + mark.name)
				}
			}
			if m.ToolCallID != "" {
				fmt.Fprintf(&b, " %s", m.ToolCallID)
			}
			if m.Reasoning != "" {
				fmt.Fprintf(&b, " (%s)", m.Reasoning)
			}
			if !m.NoContent {
				fmt.Fprintf(&b, " %q", m.Content)
			}
			for _, c := range m.ToolCalls {
				fmt.Fprintf(&b, " %s:%s%s", c.ID, c.Name, c.Arguments)
			}
			if m.IDs != nil {
				fmt.Fprintf(&b, " ids %v %v", m.IDs, m.LogProbs)
			}
			b.WriteByte('\n')
		}
		for _, kind := range slices.Sorted(maps.Keys(r.Notices)) {
			fmt.Fprintf(&b, "! %d %s\n", r.Notices[kind], kind)
		}
	}
	return b.String()
}

// v1Call is a call of the OpenHands SDK.
const v1Call = `{"kind":"ActionEvent","id":"a1","source":"agent","thought":[{"type":"text","text":"look"}],"reasoning_content":"hm",
"action":{"kind":"TerminalAction","command":"ls"},"tool_name":"terminal","tool_call_id":"c1",
"tool_call":{"id":"c1","name":"terminal","arguments":"{\"command\": \"ls\", \"security_risk\": \"LOW\"}","origin":"completion"},"llm_response_id":"r1"}`

// eventCases are inputs, and what is read from them.
var eventCases = []struct{ name, text, want string }{
	{"ATIF: copied context is shown, and the task after it stays", `{"schema_version":"ATIF-v1.7","session_id":"s","trajectory_id":"t","agent":{"name":"a","version":"1"},"steps":[
			{"step_id":1,"source":"user","message":"old","is_copied_context":true},
			{"step_id":2,"source":"agent","message":"did","is_copied_context":true,"metrics":{"completion_token_ids":[1],"logprobs":[-1]}},
			{"step_id":3,"source":"user","message":"go on"},
			{"step_id":4,"source":"agent","message":"done","is_copied_context":false}],"extra":{"reward":0.5}}`,
		`atif t of t score 0.5
user "old"
assistant shown "did"
user task "go on"
assistant "done"
`},
	{"ATIF: steps that no model made are shown", `{"schema_version":"ATIF-v1.7","agent":{},"steps":[{"source":"user","message":"q"},
			{"source":"agent","message":"","llm_call_count":0,"tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{}}],"observation":{"results":[{"source_call_id":"c","content":"r"}]}},
			{"source":"agent","message":"a","llm_call_count":1}]}`,
		`atif run-0 of run-0
user "q"
assistant shown "" c:f{}
tool c "r"
assistant "a"
`},
	{"ATIF: token ids with log-probs", `{"schema_version":"ATIF-v1.4","agent":{},"steps":[{"source":"user","message":"q"},
			{"source":"agent","message":"a","metrics":{"prompt_token_ids":[1],"completion_token_ids":[5,6],"logprobs":[-0.5,-1]}},
			{"source":"agent","message":"b","metrics":{"completion_token_ids":[7]}},
			{"source":"agent","message":"c","metrics":{"logprobs":[-1]}},
			{"source":"agent","message":"d","llm_call_count":2,"metrics":{"completion_token_ids":[7,8]}}]}`,
		`atif run-0 of run-0
user "q"
assistant "a" ids [5 6] [-0.5 -1]
assistant "b" ids [7] []
assistant "c"
assistant "d"
! 1 log-probs without token ids were left out
! 1 token ids of steps with several model calls were left out
`},
	{"ATIF: results by id, in a later step of the system, and of nobody", `{"schema_version":"ATIF-v1.7","agent":{},"steps":[{"source":"user","message":[{"type":"text","text":"see "},{"type":"image","source":{"media_type":"image/png","path":"a.png"}}]},
			{"source":"agent","message":"a","tool_calls":[{"tool_call_id":"c1","function_name":"f","arguments":{"a":"<\u00e9>","b":1}},{"tool_call_id":"c2","function_name":"g","arguments":"{ }"}]},
			{"source":"system","message":"","observation":{"results":[{"content":"by place"},{"source_call_id":"c1","content":"by id"},{"content":[{"type":"image","source":{"path":"b"}}]}]}}]}`,
		`atif run-0 of run-0
user "see [image]"
assistant "a" c1:f{"a": "<é>", "b": 1} c2:g{ }
tool "by place"
tool c1 "by id"
user observes "[image]"
! 2 images shown as [image]
`},
	{"ATIF: steps of a subagent in the list are a run of its own", `{"schema_version":"ATIF-v1.5","session_id":"s","agent":{},"steps":[{"source":"user","message":"q"},
			{"source":"user","message":"sub","extra":{"is_sidechain":true}},{"source":"agent","message":"deep","extra":{"is_sidechain":true}},{"source":"agent","message":"a","extra":{"is_sidechain":false}}]}`,
		`atif s of s
user "q"
assistant "a"
atif s/sidechain of s/sidechain
user "sub"
assistant "deep"
`},
	{"ATIF: subagents are runs of their own", `{"schema_version":"ATIF-v1.7","trajectory_id":"t","agent":{"tool_definitions":[{"type":"function","function":{"name":"f"}}]},"steps":[{"source":"user","message":"q"}],
			"subagent_trajectories":[{"schema_version":"ATIF-v1.7","trajectory_id":"u","agent":{},"steps":[{"source":"agent","message":"s"}]}]}`,
		`atif t of t tool f
user "q"
! 1 runs without a sampled token
atif u of u
assistant "s"
`},

	{"OpenHands: what no model did is no turn, and the task comes first", `{"instance_id":"i","test_result":{"report":{"resolved":true}},"history":[
			{"id":0,"source":"environment","action":"initialize","args":{}},
			{"id":1,"source":"environment","action":"run","args":{"command":"git init"}},
			{"id":2,"source":"environment","cause":1,"observation":"run","content":"ok"},
			{"id":3,"source":"environment","observation":"agent_state_changed","content":""},
			{"id":4,"source":"agent","action":"system","args":{"content":"sys","tools":[{"type":"function","function":{"name":"bash"}}]}},
			{"id":5,"source":"user","action":"message","args":{"content":"fix","image_urls":["x"],"file_urls":["y"]}},
			{"id":6,"source":"user","action":"recall","args":{"query":"fix"}},
			{"id":7,"source":"environment","cause":6,"observation":"recall","content":"Added","extras":{"microagent_knowledge":[{"name":"git"}]}},
			{"id":8,"source":"user","action":"run","args":{"command":"pwd","is_input":"false"}},
			{"id":9,"source":"user","cause":8,"observation":"run","content":"/w"},
			{"id":10,"source":"agent","action":"condensation","args":{"forgotten_event_ids":[8],"summary":"s"}},
			{"id":11,"source":"environment","action":"condensation_request","args":{}},
			{"id":12,"source":"agent","action":"run","args":{"command":"ls","thought":"look","blocking":false,"is_input":"false","hidden":false,"cwd":null,"confirmation_state":"confirmed"}},
			{"id":13,"source":"user","action":"read","args":{"path":"a"}},
			{"id":14,"source":"user","cause":13,"observation":"read","content":"text of a"},
			{"id":15,"source":"agent","cause":12,"observation":"run","content":"a b"},
			{"id":16,"source":"agent","action":"think","args":{"thought":"so"}},
			{"id":17,"source":"agent","action":"change_agent_state","args":{"agent_state":"finished"}},
			{"id":18,"source":"user","action":"finish","args":{}}]}`,
		`openhands i of i score 1 tool bash
system "sys"
user "fix[image][file]"
user observes "User executed the command:\npwd"
user observes "\nObserved result of command executed by user:\n/w"
assistant "look" :run{"command":"ls","is_input":"false"}
user observes "User requested: read {\"path\":\"a\"}"
user observes "text of a"
tool "a b"
assistant :think{"thought":"so"}
! 1 condensations that the recording's own program made were passed over: the log is taken whole
! 1 files shown as [file]
! 1 images shown as [image]
! 1 observations that answer neither model nor user were passed over
! 1 recalled context was left out: its words are not in the log
`},
	{"OpenHands: arguments beside the name are told from the envelope", `[{"id":1,"timestamp":"t","source":"user","message":"fix","action":"message","content":"fix"},
			{"id":2,"timestamp":"t","source":"agent","message":"Running","action":"run","timeout":120,"command":"ls","thought":"look","is_confirmed":"confirmed","action_risk":null,"keep_prompt":true}]`,
		`openhands run-0 of run-0
user "fix"
assistant "look" :run{"command":"ls"}
`},
	{"OpenHands: an evaluation whose log lacks the task", `{"instance_id":"i","instruction":"fix","resolved":false,"history":[{"source":"agent","action":"system","args":{"content":"s"}},{"source":"agent","action":"run","args":{"command":"ls","thought":{"text":"look","reasoning_content":"hm"}}}]}`,
		`openhands i of i score 0
system "s"
user "fix"
assistant (hm) "look" :run{"command":"ls"}
`},
	{"OpenHands: several results of one response by id, reasoning, token ids", `[{"source":"user","action":"message","args":{"content":"q"}},
			{"id":1,"source":"agent","action":"run","args":{},"tool_call_metadata":{"tool_call_id":"c1","model_response":{"id":"r","choices":[{"token_ids":[4,5],"logprobs":{"content":[{"logprob":-1},{"logprob":-2}]},"message":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{ }"}},{"id":"c2","function":{"name":"g","arguments":"{}"}}]}}]}}},
			{"id":2,"source":"agent","action":"run","args":{},"tool_call_metadata":{"tool_call_id":"c2","model_response":{"id":"r","choices":[]}}},
			{"source":"agent","cause":2,"observation":"run","content":"second","tool_call_metadata":{"tool_call_id":"c2"}},
			{"source":"agent","cause":1,"observation":"run","content":"first","tool_call_metadata":{"tool_call_id":"c1"}}]`,
		`openhands run-0 of run-0
user "q"
assistant (hm) c1:f{ } c2:g{} ids [4 5] [-1 -2]
tool c2 "second"
tool c1 "first"
`},
	{"OpenHands: the first versions were told the task at the start", `[{"action":"initialize","args":{"model":"m"}},{"action":"start","args":{"task":"fix"}},{"source":"agent","action":"run","args":{"command":"ls"}}]`,
		`openhands run-0 of run-0
user "fix"
assistant :run{"command":"ls"}
`},
	{"OpenHands: messages without sources, one event a line", `{"action":"message","content":"q"}
{"action":"message","content":"a"}`,
		`openhands run-0 of run-0
user "q"
assistant "a"
! 1 messages without a source were taken as the agent's
`},

	{"OpenHands V1: an array", `[{"kind":"SystemPromptEvent","id":"s","source":"agent","system_prompt":{"type":"text","text":"sys"},"dynamic_context":{"type":"text","text":"dyn"},"tools":[{"type":"function","function":{"name":"terminal","parameters":{}}},{"kind":"FinishTool","title":"finish","description":"d"}]},
			{"kind":"ConversationStateUpdateEvent","id":"x","source":"environment","key":"k","value":1},
			{"kind":"MessageEvent","id":"m","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"fix"},{"type":"image","image_urls":["a","b"]}]},"extended_content":[{"type":"text","text":" (more)"}]},
			` + v1Call + `,
			{"kind":"ActionEvent","id":"a2","source":"agent","thought":[],"tool_name":"think","tool_call_id":"c2","tool_call":{"id":"c2","type":"function","function":{"name":"think","arguments":"{}"}},"llm_response_id":"r1"},
			{"kind":"ObservationEvent","id":"o1","source":"environment","tool_name":"think","tool_call_id":"c2","action_id":"a2","observation":{"kind":"ThinkObservation","content":[{"type":"text","text":"noted"}]}},
			{"kind":"ObservationEvent","id":"o2","source":"environment","tool_name":"terminal","tool_call_id":"c1","action_id":"a1","observation":{"kind":"TerminalObservation","output":"a b"},"extended_content":[{"type":"text","text":"!"}]},
			{"kind":"TokenEvent","id":"t","source":"agent","prompt_token_ids":[1,2],"response_token_ids":[3,4]},
			{"kind":"Condensation","id":"c","source":"environment","forgotten_event_ids":["a1"],"summary":"s","llm_response_id":"r2"},
			{"kind":"MessageEvent","id":"n","source":"environment","llm_message":{"role":"user","content":[{"type":"text","text":"use a tool"}]}},
			{"kind":"ActionEvent","id":"a3","source":"agent","thought":[],"thinking_blocks":[{"type":"thinking","thinking":"one"},{"type":"redacted_thinking","data":"z"},{"type":"thinking","thinking":"two"}],"tool_name":"finish","tool_call_id":"c3","action":{"kind":"FinishAction","message":"done"},"llm_response_id":"r3"},
			{"kind":"UserRejectObservation","id":"u","source":"user","tool_name":"finish","tool_call_id":"c3","action_id":"a3","rejection_reason":"no"},
			{"kind":"AgentErrorEvent","id":"e","source":"agent","tool_name":"f","tool_call_id":"c9","error":"no such tool"},
			{"kind":"StrangeEvent","id":"z","source":"agent"},
			{"kind":"MessageEvent","id":"f","source":"agent","llm_message":{"role":"assistant","content":[{"type":"text","text":"bye"}],"responses_reasoning_item":{"summary":["sum"],"content":null}}}]`,
		`openhands-v1 run-0 of run-0 tool terminal tool finish
system "sys\ndyn"
user "fix[image][image] (more)"
assistant (hm) "look" c1:terminal{"command": "ls", "security_risk": "LOW"} c2:think{} ids [3 4] []
tool c2 "noted"
tool c1 "a b!"
user observes "use a tool"
assistant (one
two) c3:finish{"message":"done"}
tool c3 "Action rejected: no"
user observes "no such tool"
assistant (sum) "bye"
! 1 condensations that the recording's own program made were passed over: the log is taken whole
! 1 events of kind StrangeEvent were passed over
! 2 images shown as [image]
`},
	{"OpenHands V1: one a line", `{"kind":"MessageEvent","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"q"}]}}
` + strings.ReplaceAll(v1Call, "\n", ""),
		`openhands-v1 run-0 of run-0
user "q"
assistant (hm) "look" c1:terminal{"command": "ls", "security_risk": "LOW"}
`},
	{"OpenHands V1: an evaluation, and a command of the user", `{"instance_id":"i","instruction":"fix","test_result":{"resolved":true},"history":[
			{"kind":"ActionEvent","source":"user","tool_name":"terminal","tool_call_id":"u","action":{"kind":"TerminalAction","command":"ls"}},
			{"kind":"ObservationEvent","tool_call_id":"u","tool_name":"terminal","observation":{"kind":"O","content":[]}},
			` + v1Call + `,{"kind":"ObservationEvent","tool_call_id":"c1","tool_name":"terminal","observation":{"exit_code":0,"kind":"O"}}]}`,
		`openhands-v1 i of i score 1
user "fix"
user observes "User requested: terminal {\"command\":\"ls\"}"
user observes ""
assistant (hm) "look" c1:terminal{"command": "ls", "security_risk": "LOW"}
tool c1 "{\"exit_code\": 0, \"kind\": \"O\"}"
! 1 observations without a text were shown as JSON
`},

	{"SWE-agent: a demonstration in one message is part of the opening", `{"trajectory":[],"info":{"resolved":true},"history":[{"role":"system","content":"s"},{"role":"user","content":"demo","is_demo":true},{"role":"user","content":"fix"},{"role":"assistant","content":"a"},{"role":"user","content":"o"}]}`,
		`swe-agent run-0 of run-0 score 1
system "s"
user "demo"
user "fix"
assistant "a"
user observes "o"
`},
	{"SWE-agent: a demonstration step by step is shown, and the task stays", `{"trajectory":[],"history":[{"role":"system","content":"s"},
			{"role":"user","content":"solve old","is_demo":true},{"role":"assistant","content":"ls","is_demo":true},{"role":"user","content":"o","is_demo":true},
			{"role":"user","content":"fix"},
			{"role":"assistant","content":[{"type":"text","text":"open"}],"thinking_blocks":[{"type":"thinking","thinking":"hm"}],"tool_calls":[{"id":"c","function":{"name":"open","arguments":"{}"}}]},
			{"role":"tool","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"x"}}],"tool_call_ids":["c"]},
			{"role":"user","content":"next"}]}`,
		`swe-agent run-0 of run-0
system "s"
user observes "solve old"
assistant shown "ls"
user observes "o"
user task "fix"
assistant (hm) "open" c:open{}
tool c "t[image]"
user observes "next"
! 1 images shown as [image]
`},

	{"mini-swe-agent 2: chat messages, human mode, refused replies, exit", `{"trajectory_format":"mini-swe-agent-1.1","instance_id":"i","info":{"exit_status":"Submitted","resolved":false},"messages":[
			{"role":"system","content":"s"},{"role":"user","content":"fix"},
			{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\": \"ls\"}"}}],"extra":{"actions":[{"command":"ls","tool_call_id":"c"}],"response":{},"cost":0.1}},
			{"role":"tool","tool_call_id":"c","content":"a b","extra":{"returncode":0}},
			{"role":"user","content":"one action please","extra":{"interrupt_type":"FormatError","model_response":"two"}},
			{"role":"assistant","content":"\n` + "```mswea_bash_command\\npwd\\n```" + `","extra":{"actions":[{"command":"pwd"}]}},
			{"role":"user","content":"/w","extra":{"returncode":0}},
			{"role":"user","content":"Interrupted by user: stop","extra":{"interrupt_type":"UserInterruption"}},
			{"role":"assistant","content":"done","extra":{"actions":[],"response":{}}},
			{"role":"exit","content":"","extra":{"exit_status":"Submitted","submission":"d"}}]}`,
		`mini-swe-agent i of i score 0
system "s"
user "fix"
assistant (hm) c:bash{"command": "ls"}
tool c "a b"
user observes "one action please"
assistant shown "\n` + "```mswea_bash_command\\npwd\\n```" + `"
user observes "/w"
user "Interrupted by user: stop"
assistant "done"
! 1 replies that were refused, and not kept in the conversation, were left out
`},
	{"mini-swe-agent 2: Responses objects among messages", `{"trajectory_format":"mini-swe-agent-1.1","messages":[{"role":"system","content":"s"},{"role":"user","content":"fix"},
			{"object":"response","id":"r1","output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}],"summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"look"}]},{"type":"function_call","call_id":"c","name":"bash","arguments":"{}"}],"extra":{"cost":1}},
			{"type":"function_call_output","call_id":"c","output":"a b","extra":{}},
			{"type":"message","role":"user","content":[{"type":"input_text","text":"a call please"}],"extra":{"interrupt_type":"FormatError"}},
			{"object":"response","id":"r2","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"one"}]}]},
			{"object":"response","id":"r3","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]}]},
			{"role":"exit","content":"Submitted"}]}`,
		`mini-swe-agent run-0 of run-0
system "s"
user "fix"
assistant (hm) "look" c:bash{}
tool c "a b"
user observes "a call please"
assistant "one"
assistant "two"
`},

	{"tau2-bench: the greeting is shown, the user's own calls are observations", `{"timestamp":"t","tasks":[],"info":{"environment_info":{"domain_name":"d","policy":"be kind","tool_defs":{"find":{"name":"find","doc":"d","params":{"type":"object"}}}}},"simulations":[
			{"id":"s1","task_id":"7","trial":0,"termination_reason":"user_stop","reward_info":{"reward":1.0},"messages":[
				{"role":"assistant","content":"Hi!","tool_calls":null,"cost":0.0,"usage":null,"raw_data":null},
				{"role":"user","content":"no signal","usage":{}},
				{"role":"assistant","content":null,"tool_calls":[{"id":"c","name":"find","arguments":{"a":   "x", "b": 1},"requestor":"assistant"}],"usage":{"completion_tokens":3},"raw_data":{"message":{"role":"assistant","reasoning_content":"hm"}}},
				{"id":"c","role":"tool","content":"found","requestor":"assistant","error":false},
				{"role":"assistant","content":"toggle it","raw_data":{}},
				{"role":"user","content":null,"tool_calls":[{"id":"u","name":"toggle","arguments":{},"requestor":"user"}]},
				{"id":"u","role":"tool","content":"on","requestor":"user"},
				{"role":"user","content":"works ###STOP###"}]},
			{"id":"s2","task_id":"7","trial":1,"termination_reason":"max_steps","reward_info":{"reward":0.0},"messages":[{"role":"user","content":"q"},
				{"role":"assistant","content":"","tool_calls":[{"id":"c1","name":"find","arguments":{}},{"id":"c2","name":"find","arguments":{}}],"usage":{}},
				{"role":"tool","tool_messages":[{"id":"c1","role":"tool","content":"1"},{"id":"c2","role":"tool","content":"2"}]}]},
			{"id":"s3","task_id":"8","termination_reason":"infrastructure_error","messages":[]}]}`,
		`tau2-bench s1 of 7 score 1 tool find
system "be kind"
assistant shown "Hi!"
user task "no signal"
assistant (hm) c:find{"a": "x", "b": 1}
tool c "found"
assistant "toggle it"
user observes "toggle {}"
user observes "on"
user "works ###STOP###"
! 1 calls that the user made with its own tools were shown as observations
! 1 simulations without messages were left out
tau2-bench s2 of 7 score 0 tool find
system "be kind"
user "q"
assistant "" c1:find{} c2:find{}
tool c1 "1"
tool c2 "2"
`},
	{"tau2-bench: one simulation, whose agent spoke first", `{"id":"s","task_id":3,"termination_reason":"agent_stop","policy":"p","reward_info":null,"messages":[{"role":"assistant","content":"hello","usage":{"completion_tokens":1}},{"role":"user","content":"q"}]}`,
		`tau2-bench s of 3
system "p"
assistant "hello"
user "q"
`},

	{"Claude Code: lines of one message are a turn, the last branch the run", `{"type":"summary","summary":"title","leafUuid":"z"}
{"type":"file-history-snapshot","messageId":"m","snapshot":{}}
{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","isSidechain":false,"message":{"role":"user","content":"fix"}}
{"type":"assistant","uuid":"x1","parentUuid":"u1","sessionId":"s","message":{"id":"m0","role":"assistant","model":"c","content":[{"type":"text","text":"given up"}]}}
{"type":"attachment","uuid":"t1","parentUuid":"u1","sessionId":"s","attachment":{}}
{"type":"assistant","uuid":"a1","parentUuid":"t1","sessionId":"s","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"thinking","thinking":"hm","signature":"q"}]}}
{"type":"assistant","uuid":"a2","parentUuid":"a1","sessionId":"s","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"text","text":"look"},{"type":"redacted_thinking","data":"z"}]}}
{"type":"assistant","uuid":"a3","parentUuid":"a2","sessionId":"s","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"a":2,"b":1}}]}}
{"type":"assistant","uuid":"a4","parentUuid":"a3","sessionId":"s","message":{"id":"m1","role":"assistant","model":"c","content":[{"type":"tool_use","id":"c2","name":"Read","input":{}}]}}
{"type":"user","uuid":"r1","parentUuid":"a3","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"one"}]}}
{"type":"user","uuid":"r2","parentUuid":"a4","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"two"},{"type":"image","source":{}}]},{"type":"text","text":"and"},{"type":"document","source":{}}]}}
{"type":"system","uuid":"b","parentUuid":null,"logicalParentUuid":"r2","sessionId":"s","subtype":"compact_boundary","content":"Conversation compacted"}
{"type":"user","uuid":"k","parentUuid":"b","sessionId":"s","isCompactSummary":true,"message":{"role":"user","content":"This session is being continued"}}
{"type":"assistant","uuid":"e","parentUuid":"k","sessionId":"s","isApiErrorMessage":true,"message":{"id":"m2","model":"<synthetic>","role":"assistant","content":[{"type":"text","text":"API Error"}]}}
{"type":"assistant","uuid":"n","parentUuid":"e","sessionId":"s","message":{"id":"m3","model":"<synthetic>","role":"assistant","content":[{"type":"text","text":"No response requested."}]}}
{"type":"user","uuid":"u2","parentUuid":"n","sessionId":"s","message":{"role":"user","content":"go on"}}
{"type":"assistant","uuid":"a5","parentUuid":"u2","sessionId":"s","message":{"id":"m4","model":"c","role":"assistant","content":[{"type":"text","text":"done"}]}}
{"type":"user","uuid":"u2","parentUuid":"n","sessionId":"s","message":{"role":"user","content":"go on"}}`,
		`claude-code s of s
user "fix"
assistant (hm) "look" c1:Bash{"a": 2, "b": 1} c2:Read{}
tool c1 "one"
tool c2 "two[image]"
user "and\n[file]"
assistant shown "No response requested."
user "go on"
assistant "done"
! 1 attachments were left out: what the model was told of them is not recorded
! 1 condensations that the recording's own program made were passed over: the log is taken whole
! 1 errors of the API were passed over
! 1 files shown as [file]
! 1 images shown as [image]
! 1 messages of branches that were given up were left out
! 1 reasoning that is encrypted was left out
`},
	{"Claude Code: subagents are runs of their own; a tool of the server", `[{"type":"user","uuid":"u1","parentUuid":"lost","sessionId":"s","message":{"role":"user","content":"q"}},
			{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s","message":{"role":"assistant","content":[{"type":"server_tool_use","id":"w","name":"web_search","input":{"query":"x"}},{"type":"web_search_tool_result","tool_use_id":"w","content":{"type":"web_search_tool_result_error"}},{"type":"text","text":"found"}]}},
			{"type":"user","uuid":"g1","parentUuid":null,"isSidechain":true,"sessionId":"s","message":{"role":"user","content":"sub"}},
			{"type":"assistant","uuid":"g2","parentUuid":"g1","isSidechain":true,"sessionId":"s","message":{"id":"m","role":"assistant","content":"ok"}},
			{"type":"user","uuid":"h1","parentUuid":null,"isSidechain":true,"agentId":"e7","sessionId":"s","message":{"role":"user","content":"sub 2"}},
			{"type":"user","uuid":"u2","parentUuid":"a1","sessionId":"s","message":{"role":"user","content":"bye"}}]`,
		`claude-code s of s
user "q"
assistant w:web_search{"query": "x"}
tool w "{\"type\": \"web_search_tool_result_error\"}"
assistant "found"
user "bye"
claude-code s/g1 of s/g1
user "sub"
assistant "ok"
claude-code s/e7 of s/e7
user "sub 2"
! 1 runs without a sampled token
`},

	{"Codex: items are the conversation", `{"timestamp":"t","type":"session_meta","payload":{"id":"th","cwd":"/w","cli_version":"0.128.0","base_instructions":{"text":"sys"}}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"dev"}]}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"fix "},{"type":"input_image","image_url":"x"}]}}
{"timestamp":"t","type":"event_msg","payload":{"type":"user_message","message":"fix"}}
{"timestamp":"t","type":"turn_context","payload":{"cwd":"/w","model":"gpt"}}
{"timestamp":"t","type":"event_msg","payload":{"type":"agent_reasoning","text":"sum"}}
{"timestamp":"t","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"sum"}],"content":null,"encrypted_content":"z"}}
{"timestamp":"t","type":"response_item","payload":{"type":"reasoning","summary":[],"encrypted_content":"z"}}
{"timestamp":"t","type":"response_item","payload":{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"look"}],"phase":"commentary"}}
{"timestamp":"t","type":"response_item","payload":{"type":"function_call","name":"exec_command","arguments":"{\"cmd\": \"ls\"}","call_id":"c1"}}
{"timestamp":"t","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2","status":"completed"}}
{"timestamp":"t","type":"response_item","payload":{"type":"local_shell_call","call_id":"c3","status":"completed","action":{"command":["ls"],"type":"exec"}}}
{"timestamp":"t","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a b"}}
{"timestamp":"t","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":{"content":"patched","success":true}}}
{"timestamp":"t","type":"response_item","payload":{"type":"function_call_output","call_id":"c3","output":[{"type":"input_text","text":"c"},{"type":"input_image","image_url":"x"}]}}
{"timestamp":"t","type":"response_item","payload":{"type":"web_search_call","id":"w","status":"completed","action":{"query":"q","type":"search"}}}
{"timestamp":"t","type":"response_item","payload":{"type":"tool_search_call","call_id":"c4","execution":"client","arguments":{"query":"q"}}}
{"timestamp":"t","type":"response_item","payload":{"type":"tool_search_output","call_id":"c4","status":"completed","tools":[{"name":"f"}]}}
{"timestamp":"t","type":"response_item","payload":{"type":"ghost_snapshot","ghost_commit":{}}}
{"timestamp":"t","type":"response_item","payload":{"type":"strange"}}
{"timestamp":"t","type":"compacted","payload":{"message":"s","replacement_history":[]}}
{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}
{"timestamp":"t","type":"session_meta","payload":{"id":"parent"}}`,
		`codex th of th
system "sys"
system "dev"
user "fix [image]"
assistant (sum
hm) "look" c1:exec_command{"cmd": "ls"} c2:apply_patch*** Begin c3:local_shell{"command": ["ls"], "type": "exec"}
tool c1 "a b"
tool c2 "patched"
tool c3 "c[image]"
assistant w:web_search{"query": "q", "type": "search"} c4:tool_search{"query": "q"}
tool c4 "[{\"name\": \"f\"}]"
assistant "done"
! 1 condensations that the recording's own program made were passed over: the log is taken whole
! 2 images shown as [image]
! 1 items of type strange were passed over
! 1 reasoning is known by its summary alone
! 1 reasoning that is encrypted was left out
`},
	{"Codex: turns that were rolled back", `{"type":"session_meta","payload":{"id":"th"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"env"}]}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}}
{"type":"event_msg","payload":{"type":"user_message","message":"one"}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"two"}]}}
{"type":"event_msg","payload":{"type":"user_message","message":"two"}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}}
{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"three"}]}}`,
		`codex th of th
user "env"
user "one"
assistant "a"
user "three"
! 1 turns that were rolled back were left out
`},
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range eventCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runs, err := Read("f", strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := show(runs); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestResaved saves every input in other ways of the same JSON: what is read stays.
func TestResaved(t *testing.T) {
	t.Parallel()
	for _, c := range eventCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var documents []any
			for d := json.NewDecoder(strings.NewReader(c.text)); ; {
				d.UseNumber()
				var v any
				if err := d.Decode(&v); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, v) // the keys of objects get another order
			}
			if list, ok := documents[0].([]any); ok && len(documents) == 1 {
				documents = list
			}
			lines := ""
			for _, v := range documents {
				line, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				lines += string(line) + "\n"
			}
			var whole any = documents
			if len(documents) == 1 {
				whole = documents[0]
			}
			indented, err := json.MarshalIndent(whole, "", "   ")
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{lines, string(indented)} {
				runs, err := Read("f", strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				if got := show(runs); got != c.want {
					t.Errorf("%s\ngot\n%swant\n%s", text, got, c.want)
				}
			}
		})
	}
}

func TestEventErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`{"schema_version":"ATIF-v1.4","steps":[{"source":"agent","message":"a",` + "\n" + `"metrics":{"completion_token_ids":[5,6],"logprobs":[-1]}}]}`,
			"f:2: steps[0].metrics.logprobs: 1 log-probs beside 2 completion_token_ids"},
		{`{"schema_version":"ATIF-v1.6","steps":[{"source":"agent","message":[{"type":"image"}]}]}`,
			`f:1: steps[0].message[0]: a part of type "image" in what the model said`},
		{`{"schema_version":"ATIF-v1.7","steps":[],"subagent_trajectories":[7]}`, "f:1: subagent_trajectories[0]: a number, want an object"},
		{`[{"action":"message","content":"q"},{"action":"run","tool_call_metadata":{"model_response":{"choices":[{"token_ids":[1],"logprobs":{"content":[]},"message":{"role":"assistant","content":"a"}}]}}}]`,
			"0 log-probs beside 1 token_ids"},
		{`[{"kind":"TokenEvent","response_token_ids":[1]}]`, "f:1: [0]: token ids without a turn of the agent"},
		{`[{"kind":"ActionEvent","tool_call_id":"c"}]`, `f:1: [0]: field "tool_name" is missing`},
		{`{"id":"s","task_id":"1","termination_reason":"user_stop","messages":null,"ticks":[{}]}`, "f:1: ticks: a voice simulation"},
		{`{"id":"s","task_id":"1","termination_reason":"user_stop","messages":[{"role":"user","content":"x","is_audio":true}]}`, "f:1: messages[0].is_audio: a voice message"},
		{`{"id":"s","task_id":"1","termination_reason":"user_stop","messages":[{"role":"queen"}]}`, `unknown role "queen"`},
		{`{"type":"assistant","sessionId":"s","message":{"content":[{"type":"audio"}]}}`, `f:1: message.content[0]: a block of type "audio"`},
		{"{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"q\"}}\n{\"type\":\"user\",\"sessionId\":\"s\"}", `f:2: field "message" is missing`},
		{"{\"type\":\"session_meta\",\"payload\":{}}\n{\"type\":\"event_msg\",\"payload\":{\"type\":\"thread_rolled_back\",\"num_turns\":2}}", "f:2: payload.num_turns: 2 turns rolled back"},
		{"{\"type\":\"session_meta\",\"payload\":{}}\n7", "f:2: a number, want an object"},
	} {
		_, err := Read("f", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	for _, text := range []string{ // sessions in which nothing was said
		`{"type":"summary","summary":"title","leafUuid":"z"}`,
		`{"type":"session_meta","payload":{"id":"th"}}`,
		`{"simulations":[],"info":{}}`,
	} {
		if _, err := Read("f", strings.NewReader(text)); !errors.Is(err, ErrNoRuns) {
			t.Errorf("%s: %v, want ErrNoRuns", text, err)
		}
	}
}

// TestReadFolder reads a conversation of one file an event, in the order of their
// numbers.
func TestReadFolder(t *testing.T) {
	t.Parallel()
	event := func(text string) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, "{\n\"kind\":\"MessageEvent\",\"source\":\"user\",\"llm_message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":%q}]}}", text)}
	}
	folder := fstest.MapFS{
		"base_state.json":                   {Data: []byte("{}")},
		"events/event-00000-aaaaaaaa.json":  event("zero"),
		"events/event-00010-bbbbbbbb.json":  event("ten"),
		"events/event-00002-cccccccc.json":  event("two"),
		"events/event-100000-dddddddd.json": {Data: []byte(strings.ReplaceAll(v1Call, "\n", " "))},
	}
	inner, err := fs.Sub(folder, "events")
	if err != nil {
		t.Fatal(err)
	}
	const want = `openhands-v1 run-0 of run-0
user "zero"
user "two"
user "ten"
assistant (hm) "look" c1:terminal{"command": "ls", "security_risk": "LOW"}
`
	for _, f := range []fs.FS{folder, inner} {
		runs, err := ReadFolder("c", f)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(runs); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
	if _, err := ReadFolder("c", fstest.MapFS{"a.json": {Data: []byte("{}")}}); !errors.Is(err, ErrNoRuns) {
		t.Errorf("a folder without events: %v", err)
	}
	if _, err := ReadFolder("c", fstest.MapFS{"event-1.json": {Data: []byte("{\n}")}}); !errors.Is(err, ErrNoRuns) {
		t.Errorf("a folder of something else: %v", err)
	}
	folder["events/event-00003-eeeeeeee.json"] = &fstest.MapFile{Data: []byte("{\n\"kind\":\"MessageEvent\"\n")}
	if _, err := ReadFolder("c", folder); err == nil || !strings.Contains(err.Error(), "c/events/event-00003-eeeeeeee.json:3: the JSON text ends early") {
		t.Errorf("a file that is cut off: %v", err)
	}
}

// TestRecordedEvents reads the recorded files beside the repository: the task comes
// first, and nothing is sampled that the model did not write.
func TestRecordedEvents(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ runs, sampled, results int }{
		"openhands_multi_swe_output.jsonl":                     {3, 105, 105},
		"openhands_resolver_mock_output.jsonl":                 {2, 26, 24},
		"miniswe_github_issue.traj.json":                       {1, 10, 10},
		"sweagent_marshmallow1867_fc_replace_from_source.traj": {1, 13, 13},
		"sweagent_pydicom1458.traj":                            {1, 12, 11},
	} {
		f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", name))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("no recorded data: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		runs, err := Read(name, f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		sampled, results := 0, 0
		for _, r := range runs {
			first := slices.IndexFunc(r.Messages, func(m Message) bool { return m.Role != chat.System })
			if m := r.Messages[first]; m.Role != chat.User || m.Observation {
				t.Errorf("%s, run %s: begins with %s %.40q", name, r.ID, m.Role, m.Content)
			}
			for _, m := range r.Messages {
				if m.Role == chat.Assistant && !m.NotSampled {
					sampled++
				}
				if m.Role == chat.ToolRole || m.Observation {
					results++
				}
			}
		}
		if len(runs) != want.runs || sampled != want.sampled || results != want.results {
			t.Errorf("%s: %d runs, %d sampled, %d results, want %v", name, len(runs), sampled, results, want)
		}
	}
}

// FuzzEvents checks the forms of events: no input panics or hangs, errors name the
// file, and what is read holds together.
func FuzzEvents(f *testing.F) {
	for _, file := range fixtures(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("[" + v1Call + "]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		runs, err := Read("f", strings.NewReader(string(text)))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error without place: %v", err)
			}
			return
		}
		for _, r := range runs {
			for i, m := range r.Messages {
				switch {
				case m.NotSampled && m.Role != chat.Assistant, m.Task && m.Role != chat.User:
					t.Errorf("message %d of %s: role %s, not sampled %v, task %v", i, r.ID, m.Role, m.NotSampled, m.Task)
				case m.LogProbs != nil && len(m.LogProbs) != len(m.sampledIDs()):
					t.Errorf("message %d of %s: %d log-probs for %d ids", i, r.ID, len(m.LogProbs), len(m.IDs))
				}
			}
		}
	})
}
