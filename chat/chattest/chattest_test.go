package chattest_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/chat/chattest"
	"github.com/infinirl/infinirl/token"
)

var tools = []chat.Tool{
	{Name: "search", Parameters: json.RawMessage(`{"type":"object","properties":{"step":{"type":"integer"},"name":{"x-words":2}}}`)},
	{Name: "answer"},
}

func words() (chattest.Subject, error) {
	vocabulary, err := token.NewVocabulary(append(chat.WordControls(), strings.Fields("you search a world who is ada vale answer 1 2 ?")...))
	if err != nil {
		return chattest.Subject{}, err
	}
	r, err := chat.NewWords(vocabulary, tools)
	return chattest.Subject{
		Renderer:  r,
		Tools:     tools,
		Calls:     []chat.ToolCall{{Name: "search", Arguments: `{"step":1,"name":"ada vale"}`}, {Name: "answer", Arguments: `{}`}},
		Texts:     []string{"you search a world", "who is ada ?", "1"},
		Malformed: []string{"search ada 1", "answer 2", "search"},
	}, err
}

func chatML() (chattest.Subject, error) {
	r, err := chat.NewChatML(token.Bytes{})
	return chattest.Subject{
		Renderer:        r,
		Tools:           tools,
		Calls:           []chat.ToolCall{{Name: "search", Arguments: `{"step": 1, "name": "ada <b> ☃"}`}, {Name: "answer", Arguments: `{}`}},
		Texts:           []string{"so", "two\n\nlines of été", "日本語 <b>&amp;</b>"},
		Malformed:       []string{`<tool_call>{"name": "search", "arg`, "look <tool_call>{}</tool_call>", `<tool_call>{"name": "search"}</tool_call> and on`},
		ParallelCalls:   true,
		TextBesideCalls: true,
		Reasoning:       true,
		ToolsInPrompt:   true,
	}, err
}

func TestWords(t *testing.T) { chattest.Run(t, words) }

func TestChatML(t *testing.T) { chattest.Run(t, chatML) }

// Mutants of ChatML, each with one fault.
type (
	rerendering struct{ chat.Renderer } // writes what was seen anew
	copying     struct{ chat.Renderer } // leaves out the first id that was seen
	counting    struct{ chat.Renderer } // writes the first message of all otherwise
	joining     struct{ chat.Renderer } // writes something between messages that come together
	forgiving   struct{ chat.Renderer } // drops malformed calls
	thoughtless struct{ chat.Renderer } // drops reasoning
	deaf        struct{ chat.Renderer } // drops calls but for the first
	endless     struct{ chat.Renderer } // does not end replies that were cut
	early       struct{ chat.Renderer } // stops at a letter
	toolless    struct{ chat.Renderer } // does not write the tools
	changing    struct{ chat.Renderer } // changes the messages
	keeping     struct {                // returns the ids that it keeps
		chat.Renderer
		mutex *sync.Mutex
		kept  map[string][]int32
	}
)

func (r rerendering) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	for i := range seen {
		seen[i] ^= 32
	}
	return r.Renderer.Extend(seen, messages)
}

func (r copying) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	return r.Renderer.Extend(slices.Clone(seen[min(1, len(seen)):]), messages)
}

func (r counting) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	if len(seen) == 0 {
		seen = []int32{'B'}
	}
	return r.Renderer.Extend(seen, messages)
}

func (r joining) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	for i, m := range messages {
		var err error
		if i > 0 {
			seen = append(seen, '\n')
		}
		if seen, err = r.Renderer.Extend(seen, []chat.Message{m}); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

func (r forgiving) Parse(ids []int32) chat.Message {
	m := r.Renderer.Parse(ids)
	m.MalformedCalls = nil
	return m
}

func (r thoughtless) Parse(ids []int32) chat.Message {
	m := r.Renderer.Parse(ids)
	m.Reasoning = ""
	return m
}

func (r deaf) Parse(ids []int32) chat.Message {
	m := r.Renderer.Parse(ids)
	m.ToolCalls = m.ToolCalls[:min(1, len(m.ToolCalls))]
	return m
}

func (r endless) GenerationSuffix(sampled []int32) []int32 {
	if suffix := r.Renderer.GenerationSuffix(sampled); len(suffix) == 1 {
		return suffix
	}
	return []int32{'\n'}
}

func (early) Stop() [][]int32 { return [][]int32{{'e'}} }

func (r toolless) Start(messages []chat.Message, _ []chat.Tool) ([]int32, error) {
	return r.Renderer.Start(messages, nil)
}

func (r changing) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	out, err := r.Renderer.Extend(seen, messages)
	messages[0].Content += " "
	return out, err
}

func (r keeping) Extend(seen []int32, messages []chat.Message) ([]int32, error) {
	data, err := json.Marshal(messages)
	if err != nil {
		return nil, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if _, ok := r.kept[string(data)]; !ok {
		if r.kept[string(data)], err = r.Renderer.Extend(nil, messages); err != nil {
			return nil, err
		}
	}
	if seen == nil {
		return r.kept[string(data)], nil
	}
	return append(seen, r.kept[string(data)]...), nil
}

func TestMutantsFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mutate func(chat.Renderer) chat.Renderer
		want   string // a law that it breaks
	}{
		"re-rendering": {func(r chat.Renderer) chat.Renderer { return rerendering{r} }, "what was seen stays: conversation 0: extending by 1 messages changes the ids that were seen"},
		"copying":      {func(r chat.Renderer) chat.Renderer { return copying{r} }, "what was seen stays: conversation 0: extending by 1 messages does not begin with"},
		"counting":     {func(r chat.Renderer) chat.Renderer { return counting{r} }, "an extension depends on its messages alone: "},
		"joining":      {func(r chat.Renderer) chat.Renderer { return joining{r} }, "a conversation is its prompt, replies and extensions: "},
		"forgiving":    {func(r chat.Renderer) chat.Renderer { return forgiving{r} }, "malformed calls come back as such: "},
		"thoughtless":  {func(r chat.Renderer) chat.Renderer { return thoughtless{r} }, "a reply is parsed as what was written: "},
		"deaf":         {func(r chat.Renderer) chat.Renderer { return deaf{r} }, "a reply is parsed as what was written: "},
		"endless":      {func(r chat.Renderer) chat.Renderer { return endless{r} }, "the suffix completes a reply: "},
		"early":        {func(r chat.Renderer) chat.Renderer { return early{r} }, "a stop sequence ends each reply, and nothing before its end: "},
		"toolless":     {func(r chat.Renderer) chat.Renderer { return toolless{r} }, "tools are written: "},
		"changing":     {func(r chat.Renderer) chat.Renderer { return changing{r} }, "messages, tools and ids are not changed: "},
		"keeping":      {func(r chat.Renderer) chat.Renderer { return keeping{r, new(sync.Mutex), make(map[string][]int32)} }, "messages, tools and ids are not changed: "},
	} {
		err := chattest.Check(func() (chattest.Subject, error) {
			s, err := chatML()
			s.Renderer = c.mutate(s.Renderer)
			return s, err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", name, err, c.want)
		}
	}
	if err := chattest.Check(chatML); err != nil {
		t.Errorf("the renderer itself: %v", err)
	}
}
