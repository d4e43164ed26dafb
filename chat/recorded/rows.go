package recorded

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// replyNames are the fields in which a reply stands beside its prompt.
var replyNames = []string{"choices", "completion", "completions", "response", "responses", "output", "outputs"}

// matchRow accepts a prompt with its completion, or with several.
func matchRow(d document) bool {
	prompt, ok := d.object.get("prompt")
	if !ok || prompt.kind() != '"' && prompt.kind() != '[' || d.object.filled("messages") {
		return false
	}
	_, ok = d.object.first(replyNames...)
	return ok
}

// readRow reads a row. The prompt is text, what the user says, or messages; what the
// assistant says in it was not sampled here.
func readRow(d document) ([]Run, error) {
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	if system, ok := d.object.get("system"); ok {
		text, err := system.parts()
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, Message{Message: chat.Message{Role: chat.System, Content: text}, at: system})
	}
	prompt, err := d.object.need("prompt")
	if err != nil {
		return nil, err
	}
	switch prompt.kind() {
	case '[', '{':
		items := []value{prompt}
		if prompt.kind() == '[' {
			if items, err = prompt.array(); err != nil {
				return nil, err
			}
		}
		messages, err := turns(items, "")
		if err != nil {
			return nil, err
		}
		for i := range messages {
			messages[i].NotSampled = messages[i].Role == chat.Assistant
			messages[i].LogProbs = nil
		}
		run.Messages = append(run.Messages, messages...)
	default:
		text, err := prompt.text()
		if err != nil {
			return nil, err
		}
		run.Messages = append(run.Messages, Message{Message: chat.Message{Role: chat.User, Content: text}, at: prompt})
	}
	return run.reply(d.object, "")
}

// reply adds the reply that stands beside the messages, as a last turn. Of several
// replies each makes a run of the same group.
func (r Run) reply(o object, between string) ([]Run, error) {
	var replies [][]Message
	var from value
	_, filled := o.first(replyNames...)
	for _, name := range replyNames {
		v, ok := o.get(name)
		if filled && v.file != nil && v.raw() == `""` || !ok || !r.expects(v, o) {
			continue // an empty one gives way
		}
		more, err := alternatives(v, between)
		if err != nil {
			return nil, err
		}
		if len(replies) > 0 && len(more) > 0 && !slices.EqualFunc(replies, more, sameReply) {
			return nil, from.one(v, "the reply")
		}
		if len(replies) == 0 {
			replies, from = more, v
		}
	}
	if err := beside(replies, o); err != nil {
		return nil, err
	}
	if len(replies) == 0 {
		err := r.soleScore(o)
		return []Run{r}, err
	}
	scores, err := r.scores(o, len(replies))
	if err != nil {
		return nil, err
	}
	runs := make([]Run, len(replies))
	for i, reply := range replies {
		run := r
		run.Messages = slices.Concat(r.Messages, r.fresh(reply))
		if len(replies) > 1 {
			if run.Group == "" {
				run.Group = fmt.Sprintf("line-%d%s", o.file.line(o.start), o.path)
			}
			if run.ID == "" {
				run.ID = run.Group
			}
			run.ID = fmt.Sprintf("%s/%d", run.ID, i)
		}
		if scores != nil {
			run.Score, run.HasScore = scores[i], true
		} else if run.HasScore && len(replies) > 1 {
			run.Notices = maps.Clone(run.Notices)
			run.notice("replies that share one score with others")
		}
		runs[i] = run
	}
	return runs, nil
}

// expects reports whether a field beside the messages is the reply to them, and not
// something else of the same name.
func (r Run) expects(v value, o object) bool {
	if o.has("prompt") && !o.filled("messages") {
		return true
	}
	switch n := len(r.Messages); v.kind() {
	case '{':
		inner, err := v.object()
		return err == nil && slices.ContainsFunc([]string{"choices", "message", "messages", "body", "output", "role", "content", "text", "generations"}, func(name string) bool {
			_, ok := inner.get(name)
			return ok
		})
	case '"', '[':
		if n > 0 && r.Messages[n-1].Role != chat.Assistant {
			return true
		}
		d, err := open(v)
		if err == nil && (d.first.has("message") || d.first.has("role")) {
			return true
		}
		if text := v.scalar(); n == 0 || text != r.Messages[n-1].Content {
			v.file.note("fields beside a conversation that ends with a reply, left out: " + v.path[strings.LastIndexByte(v.path, '.')+1:])
		}
	}
	return false
}

// scores reads the scores of several replies.
func (r Run) scores(o object, replies int) ([]float64, error) {
	list, ok := o.first("scores", "rewards")
	if !ok || r.HasScore {
		return nil, nil
	}
	if list.kind() != '[' && list.kind() != '{' && replies == 1 {
		score, err := list.number()
		return []float64{score}, err
	}
	items, err := list.array()
	if err != nil {
		return nil, err
	}
	if len(items) != replies {
		return nil, list.errorf("%d scores for %d replies", len(items), replies)
	}
	scores := make([]float64, len(items))
	for i := range items {
		if scores[i], err = items[i].number(); err != nil {
			return nil, err
		}
	}
	return scores, nil
}

// soleScore takes a number in the place of several scores: that of a conversation that
// holds its replies. Several are those of something else.
func (r *Run) soleScore(o object) error {
	list, ok := o.first("scores", "rewards")
	if !ok || r.HasScore || o.file.Score != "" {
		return nil
	}
	switch list.kind() {
	case '[', '{':
		o.file.note("several scores beside one conversation, left out")
		return nil
	}
	return r.score(list)
}

// sameReply reports whether two replies say the same.
func sameReply(a, b []Message) bool { return slices.EqualFunc(a, b, same) }

// fresh returns what is new in a reply: nothing if the messages end with it already,
// and what comes after them if it repeats them.
func (r Run) fresh(reply []Message) []Message {
	if n := len(r.Messages); len(reply) > n {
		if n > 0 && slices.EqualFunc(r.Messages, reply[:n], same) {
			return reply[n:]
		}
		return reply
	}
	before := r.Messages[len(r.Messages)-len(reply):]
	if !slices.EqualFunc(before, reply, same) {
		return reply
	}
	for i := range reply { // reasoning and ids stand with one of them
		if before[i].Reasoning == "" {
			before[i].Reasoning = reply[i].Reasoning
		}
		if before[i].IDs == nil {
			before[i].IDs, before[i].LogProbs, before[i].prompt = reply[i].IDs, reply[i].LogProbs, reply[i].prompt
		}
	}
	return nil
}

// same reports whether two messages say the same.
func same(a, b Message) bool {
	return a.Role == b.Role && a.Content == b.Content && slices.EqualFunc(a.ToolCalls, b.ToolCalls, func(a, b chat.ToolCall) bool {
		return a.Name == b.Name && a.Arguments == b.Arguments
	})
}

// beside reads what stands beside replies in the object that holds them: the token
// ids and log-probs of one, the prompt of all.
func beside(replies [][]Message, o object) error {
	for _, reply := range replies {
		if len(reply) == 0 || reply[len(reply)-1].Role != chat.Assistant {
			continue
		}
		last := &reply[len(reply)-1]
		if len(replies) == 1 {
			return last.recordedIDs(o)
		}
		if prompt, ok := o.arrayOf([]string{"prompt_token_ids"}); ok && last.prompt == nil {
			var err error
			if last.prompt, err = prompt.ids(); err != nil {
				return err
			}
		}
	}
	return nil
}

// alternatives reads one reply, or several that were sampled from one prompt: text,
// a message, choices, or objects that hold such.
func alternatives(v value, between string) ([][]Message, error) {
	switch v.kind() {
	case '"':
		text, err := v.text()
		return [][]Message{{{Message: chat.Message{Role: chat.Assistant, Content: text}, at: v}}}, err
	case '{':
		o, err := v.object()
		if err != nil {
			return nil, err
		}
		return o.alternatives(between)
	case '[':
	default:
		return nil, v.errorf("%s, want a reply: text, a message or choices", kindNames[v.kind()])
	}
	items, err := v.array()
	if err != nil || len(items) == 0 {
		return nil, err
	}
	d, err := open(v)
	if err != nil {
		return nil, err
	}
	switch {
	case matchResponses(d):
		r := responses{}
		err := r.items(items)
		return [][]Message{r.messages}, err
	case d.first.has("role"):
		messages, err := turns(items, between)
		return [][]Message{messages}, err
	}
	var all [][]Message
	for _, item := range items {
		more, err := alternatives(item, between)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// alternatives reads the replies that an object holds.
func (o object) alternatives(between string) ([][]Message, error) {
	for _, name := range []string{"choices", "message", "messages", "body", "output", "response", "generations"} {
		v, ok := o.get(name)
		if !ok || v.kind() != '[' && v.kind() != '{' {
			continue
		}
		all, err := alternatives(v, between)
		if err != nil {
			return nil, err
		}
		return all, beside(all, o)
	}
	m := Message{Message: chat.Message{Role: chat.Assistant, NoContent: true}, at: o.value}
	if !o.has("role") && !o.has("content") {
		var err error
		text, ok := o.first("text", "output_text", "generated_text")
		if !ok {
			return nil, o.errorf("no reply: want choices, a message, content or text")
		}
		if m.Content, err = text.text(); err != nil {
			return nil, err
		}
		m.NoContent = false
		return [][]Message{{m}}, m.recordedIDs(o)
	}
	if o.has("role") {
		messages, err := turn(o.value, between)
		return [][]Message{messages}, err
	}
	var parts []part
	if content, ok := o.get("content"); ok {
		var err error
		if parts, err = content.content(); err != nil {
			return nil, err
		}
	}
	messages, err := m.spoken(o, parts, between)
	return [][]Message{messages}, err
}
