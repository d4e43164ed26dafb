package huggingface

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/infinirl/infinirl/chat"
)

// masks keep special tokens that messages spell from becoming special tokens.
//
// A rendered text holds both, the <|im_end|> of the template and the one that a tool
// result quotes, and transformers takes both for the token: such a result ends its
// turn. Here every special token that a message spells is replaced by a character of
// a private use area before rendering, and spelled out again afterwards. The text
// between two control tokens is encoded as a whole in either case, so that the ids of
// all other text are those of transformers; cutting content out and encoding it apart
// would change how it merges with the text around it.
//
// Tokens that are not special, such as <think> and <tool_call> of Qwen 3, are not
// masked: messages may hold them, as malformed calls and instructions do.
type masks struct {
	tokenizer Tokenizer
	spelled   []string // spelled[i] is masked by first+i
	first     rune
	taken     bool  // every private use area is taken
	err       error // of encoding a text that was added
}

// The areas to choose from.
const (
	privateFirst = rune(0xF0000)
	privateLast  = rune(0xFFF00)
	privateStep  = 256
)

// newMasks returns the masks for what messages and tools spell.
func newMasks(tokenizer Tokenizer, messages []chat.Message, tools []chat.Tool) masks {
	m := masks{tokenizer: tokenizer, first: privateFirst}
	var texts []string
	note := func(text string) string {
		texts = append(texts, text)
		for text = m.text(text); m.add(text); { // tokens hide others: <|im_<|im_end|>end|>
			text = m.text(text)
		}
		return text
	}
	mapMessages(messages, note)
	mapTools(tools, note)
	if len(m.spelled) == 0 {
		return m
	}
	for m.first = privateFirst; m.first < privateLast; m.first += privateStep {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.ContainsFunc(text, m.is) }) {
			return m
		}
	}
	m.taken = true
	return m
}

// add notes special tokens that a text spells, and tells whether there are new ones.
func (m *masks) add(text string) bool {
	known := len(m.spelled) // all of these are masked
	ids, err := m.tokenizer.EncodeRendered(text)
	if err != nil {
		m.err = err
	}
	for _, id := range ids {
		if !m.tokenizer.Special(id) {
			continue
		}
		spelling := m.tokenizer.Decode([]int32{id})
		switch at := slices.Index(m.spelled, spelling); {
		case at >= known:
		case at >= 0 || !strings.Contains(text, spelling): // normalisation makes it of other text
			m.err = fmt.Errorf("the messages spell the special token %q in another way: it cannot be told apart", spelling)
		default:
			m.spelled = append(m.spelled, spelling)
		}
	}
	return len(m.spelled) > known
}

func (m *masks) is(c rune) bool { return c >= m.first && c < m.first+privateStep }

// text masks a text.
func (m *masks) text(text string) string {
	for i, spelling := range m.spelled {
		text = strings.ReplaceAll(text, spelling, string(m.first+rune(i)))
	}
	return text
}

// spell is the inverse of text.
func (m *masks) spell(text string) string {
	for i, spelling := range m.spelled {
		text = strings.ReplaceAll(text, string(m.first+rune(i)), spelling)
	}
	return text
}

func (m *masks) messages(messages []chat.Message) []chat.Message {
	if len(m.spelled) == 0 {
		return messages
	}
	return mapMessages(messages, m.text)
}

func (m *masks) tools(tools []chat.Tool) []chat.Tool {
	if len(m.spelled) == 0 {
		return tools
	}
	return mapTools(tools, m.text)
}

// encode returns the ids of a rendered text whose messages were masked.
func (m *masks) encode(text string) ([]int32, error) {
	ids, err := m.tokenizer.EncodeRendered(text)
	if err = cmp.Or(m.err, err); err != nil || len(m.spelled) == 0 {
		return ids, err
	}
	if m.taken || len(m.spelled) > privateStep {
		return nil, errors.New("the messages spell special tokens and use every private character: none is left to tell them apart")
	}
	if strings.Contains(text, fmt.Sprintf(`\u%04x`, m.first)) {
		return nil, errors.New("the template writes characters as escapes: special tokens that messages spell cannot be told apart")
	}
	var out []int32
	for start := 0; start < len(ids); {
		end := start
		for end < len(ids) && !m.control(ids[end]) {
			end++
		}
		if end == start {
			out = append(out, ids[end])
			start++
			continue
		}
		run := m.tokenizer.Decode(ids[start:end])
		if strings.ContainsFunc(run, m.is) {
			plain, err := m.tokenizer.Encode(m.spell(run))
			if err != nil {
				return nil, err
			}
			out = append(out, plain...)
		} else {
			out = append(out, ids[start:end]...)
		}
		start = end
	}
	return out, nil
}

func (m *masks) control(id int32) bool {
	if m.tokenizer.Special(id) {
		return true
	}
	spelled, ok := m.tokenizer.Control(m.tokenizer.Decode([]int32{id}))
	return ok && spelled == id
}

// mapMessages returns copies of messages with every text replaced.
func mapMessages(messages []chat.Message, replace func(string) string) []chat.Message {
	out := slices.Clone(messages)
	for i := range out {
		m := &out[i]
		m.Content, m.Reasoning = replace(m.Content), replace(m.Reasoning)
		m.ToolCallID, m.Name = replace(m.ToolCallID), replace(m.Name)
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for j := range m.ToolCalls {
			call := &m.ToolCalls[j]
			call.ID, call.Name, call.Arguments = replace(call.ID), replace(call.Name), replaceJSON(call.Arguments, replace)
		}
	}
	return out
}

// mapTools returns copies of tools with every text replaced.
func mapTools(tools []chat.Tool, replace func(string) string) []chat.Tool {
	out := slices.Clone(tools)
	for i := range out {
		t := &out[i]
		t.Name, t.Description = replace(t.Name), replace(t.Description)
		t.Parameters = json.RawMessage(replaceJSON(string(t.Parameters), replace))
	}
	return out
}

// replaceJSON replaces in the text that JSON stands for: a template writes \u003c as <.
// Text in which nothing is replaced stays as it is.
func replaceJSON(text string, replace func(string) string) string {
	bare := unescape(text)
	if replaced := replace(bare); replaced != bare {
		return replaced
	}
	return text
}

// unescape writes the characters of JSON strings without escapes where that is
// allowed.
func unescape(text string) string {
	if !strings.Contains(text, `\u`) && !strings.Contains(text, `\/`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			i++
			continue
		}
		length := 2
		if text[i+1] == '/' {
			b.WriteByte('/')
		} else if code, err := strconv.ParseUint(text[i+2:min(len(text), i+6)], 16, 16); text[i+1] == 'u' && err == nil &&
			code >= 0x20 && code != '"' && code != '\\' && utf8.ValidRune(rune(code)) {
			b.WriteRune(rune(code))
			length = 6
		} else {
			b.WriteString(text[i : i+2])
		}
		i += length
	}
	return b.String()
}
