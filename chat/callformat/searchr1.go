package callformat

import (
	"fmt"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// searchR1 is the format of Search-R1 (arXiv 2503.09516): a reply ends with the one
// call <search>query</search> or <answer>text</answer>, and what a search finds
// comes back as <information>…</information>. The calls are those of two tools,
// search with the argument "query" and answer with the argument "answer".
type searchR1 struct{}

var searchR1Arguments = []struct{ tool, argument string }{{"search", "query"}, {"answer", "answer"}}

func (searchR1) Name() string { return "search-r1" }

func (searchR1) Parse(text string) (string, []chat.ToolCall, []string) {
	var calls []chat.ToolCall
	var malformed []string
	content := text
	for _, tag := range searchR1Arguments {
		open, closing := "<"+tag.tool+">", "</"+tag.tool+">"
		for at := 0; ; {
			n := strings.Index(text[at:], open)
			if n < 0 {
				break
			}
			start := at + n
			body, after, closed := strings.Cut(text[start+len(open):], closing)
			if !closed || strings.TrimSpace(after) != "" {
				malformed = append(malformed, strings.TrimSpace(body))
			} else {
				value, err := marshal(strings.TrimSpace(body))
				if err != nil {
					panic(err) // a string always encodes
				}
				calls = append(calls, chat.ToolCall{Name: tag.tool, Arguments: `{"` + tag.argument + `": ` + value + "}"})
				content = text[:start]
			}
			at = start + len(open)
		}
	}
	if len(malformed) > 0 || len(calls) != 1 {
		for _, call := range calls { // tags inside of tags
			malformed = append(malformed, call.Arguments)
		}
		return text, nil, malformed
	}
	return strings.TrimRight(content, "\n"), calls, nil
}

// WriteTools uses the words of Search-R1's prompt. The tools may only be its two.
func (searchR1) WriteTools(tools []chat.Tool) (string, error) {
	for _, tool := range tools {
		if tool.Name != "search" && tool.Name != "answer" {
			return "", fmt.Errorf("call format search-r1: tool %q: want search or answer", tool.Name)
		}
	}
	return "You must conduct reasoning inside <think> and </think> first every time you get new information. " +
		"After reasoning, if you find you lack some knowledge, you can call a search engine by <search> query </search> " +
		"and it will return the top searched results between <information> and </information>. " +
		"You can search as many times as your want. If you find no further external knowledge needed, you can directly " +
		"provide the answer inside <answer> and </answer>, without detailed illustrations. For example, <answer> Beijing </answer>.", nil
}

func (searchR1) WriteCalls(content string, calls []chat.ToolCall) (string, error) {
	if len(calls) == 0 {
		return content, nil
	}
	if len(calls) > 1 {
		return "", fmt.Errorf("call format search-r1: %d parallel calls, want one", len(calls))
	}
	call := calls[0]
	for _, tag := range searchR1Arguments {
		if call.Name != tag.tool {
			continue
		}
		keys, values, err := fields(call.Arguments)
		if err != nil {
			return "", fmt.Errorf("call of %s: %w", call.Name, err)
		}
		text, ok := "", len(keys) == 1 && keys[0] == tag.argument
		if ok {
			text, ok = stringOf(values[0])
		}
		if !ok {
			return "", fmt.Errorf("call format search-r1: call of %s: arguments %s, want the one string %q", call.Name, chat.Excerpt(call.Arguments), tag.argument)
		}
		if content != "" {
			content += "\n"
		}
		return content + "<" + tag.tool + "> " + text + " </" + tag.tool + ">", nil
	}
	return "", fmt.Errorf("call format search-r1: call of %q, want search or answer", call.Name)
}

func (searchR1) WriteResults(results []chat.Message) string {
	return "<information>" + joinResults(results) + "</information>"
}
