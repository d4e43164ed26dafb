package recorded

import (
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// isResponseItem reports whether a type is that of an OpenAI Responses item that is
// no message.
func isResponseItem(kind string) bool {
	return kind == "reasoning" || kind == "mcp_list_tools" || strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_call_output")
}

// matchResponses accepts {"input": ..., "output": [...]}, either alone, the same
// under responses_create_params or request and response, and an array of items.
func matchResponses(d document) bool {
	if d.object.has("responses_create_params") {
		return true
	}
	if d.items != nil {
		return slices.ContainsFunc(d.items, func(v value) bool {
			o, err := v.object()
			kind, _ := o.text("type")
			return err == nil && kind != "tool_call" && isResponseItem(kind) && !o.has("from")
		})
	}
	if response, ok := d.object.child("response"); ok && response.has("output") {
		_, here := d.object.get("input")
		request, ok := d.object.child("request")
		return here || ok && request.has("input")
	}
	if d.object.filled("messages") && !d.object.filled("input") {
		return false // messages with a reply
	}
	for _, key := range []string{"input", "output"} {
		if v, ok := d.object.get(key); ok && v.kind() == '[' {
			items, _ := v.array()
			return slices.ContainsFunc(items, func(v value) bool {
				o, err := v.object()
				kind, _ := o.text("type")
				return err == nil && (o.has("role") || isResponseItem(kind))
			})
		}
	}
	return false
}

func readResponses(d document) ([]Run, error) {
	r := responses{}
	if d.items != nil {
		err := r.items(d.items)
		return []Run{{Messages: r.messages, Tools: r.tools}}, err
	}
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	request, response := d.object, d.object
	for _, name := range []string{"responses_create_params", "request"} {
		if v, ok := d.object.get(name); ok {
			if request, err = v.object(); err != nil {
				return nil, err
			}
			inner, err := header(request)
			if err != nil {
				return nil, err
			}
			if run.Tools == nil {
				run.Tools = inner.Tools
			}
			break
		}
	}
	if inner, ok := d.object.child("response"); ok && inner.has("output") {
		response = inner
	}
	if err := onceEach(d.object, request, response); err != nil {
		return nil, err
	}
	instructions, ok := request.get("instructions")
	if !ok { // a response repeats them
		instructions, ok = response.get("instructions")
	}
	if ok {
		if err := r.instructions(instructions); err != nil {
			return nil, err
		}
	}
	from := []object{request, response}
	fields := [][]string{{"input"}, {"output"}}
	if request.start != d.start && response.start == d.start {
		fields[0] = []string{"input", "output"} // what was said before the request
	}
	for i, o := range from {
		for _, name := range fields[i] {
			v, ok := o.get(name)
			if !ok {
				continue
			}
			if err := r.list(v, name); err != nil {
				return nil, err
			}
		}
	}
	run.Messages, run.Tools = r.messages, append(run.Tools, r.tools...)
	return []Run{run}, nil
}

// onceEach returns an error if the input or the output of a run stands both in the
// object of the run and in the request or response in it, and differs.
func onceEach(run, request, response object) error {
	for _, c := range []struct {
		inner object
		name  string
	}{{request, "input"}, {response, "output"}} {
		outer, ok := run.get(c.name)
		inner, has := c.inner.get(c.name)
		if c.inner.start == run.start || !ok || !has || outer.kind() == '[' && !run.filled(c.name) {
			continue
		}
		if err := outer.one(inner, "the "+c.name+" of the run"); err != nil {
			return err
		}
	}
	return nil
}

// instructions reads what the system says: a text, or items.
func (r *responses) instructions(v value) error {
	if v.kind() == '[' {
		items, err := v.array()
		if err != nil {
			return err
		}
		defer r.close()
		return r.items(items)
	}
	text, err := v.text()
	r.add(Message{Message: chat.Message{Role: chat.System, Content: text}, at: v})
	return err
}

// responses gathers items into messages: reasoning, text and calls without results
// between them are one assistant message.
type responses struct {
	messages []Message
	tools    []chat.Tool
	open     bool    // the last message is an assistant message that may go on
	said     *speech // that message while it grows
}

// assistant returns the assistant message that goes on.
func (r *responses) assistant(v value) *Message {
	if !r.open {
		r.messages = append(r.messages, Message{Message: chat.Message{Role: chat.Assistant, NoContent: true}, at: v})
		r.open = true
	}
	return &r.messages[len(r.messages)-1]
}

// speech returns the assistant message that goes on, for growing.
func (r *responses) speech(v value) *speech {
	m := r.assistant(v)
	if r.said == nil {
		r.said = &speech{Message: *m, content: []byte(m.Content), reasoning: []byte(m.Reasoning)}
	}
	return r.said
}

// settle writes what has grown into its message.
func (r *responses) settle() {
	if r.said != nil {
		r.messages[len(r.messages)-1] = r.said.message()
		r.said = nil
	}
}

// close ends the turn of the assistant.
func (r *responses) close() {
	r.settle()
	r.open = false
}

// add appends messages.
func (r *responses) add(m ...Message) {
	r.close()
	r.messages = append(r.messages, m...)
}

// list reads an array of items; a text is that of the user in the input, and of the
// model in the output.
func (r *responses) list(v value, name string) error {
	switch {
	case v.kind() == '[':
		items, err := v.array()
		if err != nil {
			return err
		}
		return r.items(items)
	case name == "output":
		replies, err := alternatives(v, "")
		if err == nil && len(replies) != 1 {
			err = v.errorf("%d replies, want one", len(replies))
		}
		if err == nil {
			r.add(replies[0]...)
		}
		return err
	}
	text, err := v.text()
	r.add(Message{Message: chat.Message{Role: chat.User, Content: text}, at: v})
	return err
}

func (r *responses) items(items []value) error {
	defer r.settle()
	for _, v := range items {
		if err := r.take(v); err != nil {
			return err
		}
	}
	return nil
}

func (r *responses) item(v value) error { return r.items([]value{v}) }

func (r *responses) take(v value) error {
	o, err := v.object()
	if err != nil {
		return err
	}
	kind, err := o.text("type")
	if err != nil {
		return err
	}
	switch {
	case kind == "message" || kind == "" && o.has("role"):
		return r.message(v, o)
	case kind == "":
		return v.errorf("an item without type and role")
	case kind == "reasoning":
		return r.reasoning(v, o)
	case kind == "mcp_list_tools": // what the server offers
		if list, ok := o.get("tools"); ok {
			tools, err := toolList(list)
			if err != nil {
				return err
			}
			r.tools = append(r.tools, tools...)
		}
		return nil
	case kind == "compaction" || kind == "mcp_approval_request" || kind == "mcp_approval_response":
		o.file.note("items of type " + kind + ", left out")
		return nil
	case strings.HasSuffix(kind, "_output"):
		return r.output(v, o, kind)
	case strings.HasSuffix(kind, "_call"):
		return r.call(v, o, kind)
	}
	return refused{v.errorf("an item of type %q cannot be told in tokens: leave out the run", chat.Excerpt(kind))}
}

// message reads a message; what the assistant says goes on with its turn, if that
// was sampled as this is.
func (r *responses) message(v value, o object) error {
	messages, err := turn(v, "")
	if err != nil {
		return err
	}
	m := messages[0]
	if m.Role != chat.Assistant || len(messages) > 1 {
		r.add(messages...)
		return nil
	}
	if r.open && r.speech(v).NotSampled != m.NotSampled {
		r.close()
	}
	a := r.speech(v)
	if m.Content != "" && len(a.ToolCalls) > 0 {
		v.file.note(afterCall)
	}
	a.NotSampled = m.NotSampled
	a.think(m.Reasoning)
	if !m.NoContent {
		a.write(m.Content, "\n")
	}
	a.ToolCalls = append(a.ToolCalls, m.ToolCalls...)
	return r.sampled(a, o)
}

// sampled reads the token ids that stand with the last item of what was sampled at
// once.
func (r *responses) sampled(a *speech, o object) error {
	var m Message
	if err := m.recordedIDs(o); err != nil {
		return err
	}
	if m.IDs != nil {
		a.IDs, a.LogProbs, a.prompt = m.IDs, m.LogProbs, m.prompt
		r.close()
	}
	return nil
}

// reasoning reads a reasoning item: its text, or the summary where that is all there is.
func (r *responses) reasoning(v value, o object) error {
	a := r.speech(v)
	text, _, err := o.words([]string{"content", "summary"})
	if err != nil {
		return err
	}
	switch {
	case text == "":
		part{v: v}.hidden()
	case len(a.ToolCalls) > 0:
		v.file.note(afterCall)
	}
	a.think(text)
	return r.sampled(a, o)
}

// call reads the call of a function, or of a tool that the server or the client
// runs. The result of the former stands in the item itself.
func (r *responses) call(v value, o object, kind string) error {
	c := chat.ToolCall{Name: strings.TrimSuffix(kind, "_call"), Arguments: "{}"}
	own := kind == "function_call" || kind == "custom_tool_call" || kind == "mcp_call"
	var err error
	if own {
		if c, err = call(v); err != nil {
			return err
		}
	} else if arguments, ok := o.first("arguments", "action", "operation", "input", "code", "queries"); ok {
		if c.Arguments = arguments.scalar(); arguments.kind() == '"' || arguments.kind() == '[' {
			name := arguments.path[strings.LastIndexByte(arguments.path, '.')+1:]
			if name != "arguments" {
				c.Arguments = `{"` + name + `": ` + arguments.canonical() + "}"
			}
		}
	}
	for _, name := range []string{"call_id", "id"} {
		if v, ok := o.get(name); ok {
			c.ID = v.scalar()
			break
		}
	}
	a := r.speech(v)
	a.ToolCalls = append(a.ToolCalls, c)
	if err := r.sampled(a, o); err != nil {
		return err
	}
	server := slices.Contains([]string{"mcp_call", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"}, kind)
	if !server {
		return nil
	}
	r.close()
	m := Message{Message: chat.Message{Role: chat.ToolRole, ToolCallID: c.ID}, at: v}
	result, ok := o.first("output", "outputs", "results", "result", "error")
	switch {
	case !ok:
		return nil // what it found was not recorded
	case kind == "image_generation_call":
		m.Content = part{text: "image", v: result}.shown()
	default:
		if m.Content, err = result.returned(); err != nil {
			return err
		}
	}
	r.add(m)
	return nil
}

// output reads what a tool returned.
func (r *responses) output(v value, o object, kind string) error {
	output, ok := o.get("output")
	if !ok {
		if kind == "function_call_output" || kind == "custom_tool_call_output" {
			_, err := o.need("output")
			return err
		}
		if output, ok = o.get("status"); !ok {
			_, err := o.need("output")
			return err
		}
	}
	m := Message{Message: chat.Message{Role: chat.ToolRole}, at: v}
	var err error
	if m.Content, err = output.returned(); err != nil {
		return err
	}
	for _, name := range []string{"call_id", "id"} {
		if m.ToolCallID == "" {
			if m.ToolCallID, err = o.label(name); err != nil {
				return err
			}
		}
	}
	r.add(m)
	return nil
}

// returned returns the text of what a tool returned: a string, parts of a content,
// or any JSON, which is its own text.
func (v value) returned() (string, error) {
	items := []value{v}
	switch v.kind() {
	case '"':
		return v.text()
	case '[':
		var err error
		if items, err = v.array(); err != nil {
			return "", err
		}
	case '{':
	default:
		return v.canonical(), nil
	}
	for _, item := range items {
		if item.kind() == '"' {
			continue
		}
		o, err := item.object()
		if err != nil {
			return v.canonical(), nil
		}
		kind, _ := o.text("type")
		if _, isMedia := mediaName(o, kind); kind == "" || !isMedia && !slices.Contains(textTypes, kind) {
			return v.canonical(), nil
		}
	}
	return v.parts()
}
