package recorded

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// The session files of Claude Code, ~/.claude/projects/…/*.jsonl, as versions 1.0 to
// 2.1 write them (no specification is published; the fields are those that
// github.com/ticpu/claude-conversation-search-mcp, docs/jsonl-format.md, and
// github.com/microsoft/amplifier, ai_working/claude_code_logging, found in many
// files). Lines are linked by parentUuid; the last branch is the run, with what stood
// before compactions. Lines of one message id are one turn, and sampled. A chain of a
// subagent (isSidechain) is a run of its own. Errors of the API and the summaries of
// compactions are passed over; messages of the model "<synthetic>" are shown. System
// prompt and tools are not recorded.

// claudeLines are the types of lines; those that hold no message are for the program.
var claudeLines = []string{"user", "assistant", "system", "attachment", "progress", "summary", "file-history-snapshot", "queue-operation", "custom-title"}

func isClaudeCode(o object) bool {
	kind, _ := o.text("type")
	return slices.Contains(claudeLines, kind) && (o.has("sessionId") || o.has("leafUuid") || o.has("messageId", "snapshot"))
}

func matchClaudeCode(d document) bool { return isClaudeCode(d.first) }

func readClaudeCode(d document) ([]Run, error) {
	var lines []claudeLine
	seen := make(map[string]bool) // uuids: a later compaction writes lines again
	for _, v := range d.items {
		line, err := newClaudeLine(v)
		if err != nil {
			return nil, err
		}
		if line.uuid == "" && line.kind != "user" && line.kind != "assistant" || line.uuid != "" && seen[line.uuid] {
			continue
		}
		seen[line.uuid] = true
		lines = append(lines, line)
	}
	var runs []Run
	for _, chain := range claudeChains(lines) {
		run := Run{ID: chain[len(chain)-1].session}
		if side := chain[0].side; side != "" {
			run.ID += "/" + side
		}
		kept := run.branch(chain)
		log := claudeLog{run: &run, turns: make(map[string]int)}
		for _, line := range kept {
			if err := log.line(line); err != nil {
				return nil, err
			}
		}
		if len(run.Messages) > 0 {
			runs = append(runs, run)
		}
	}
	if len(runs) == 0 {
		return nil, noRuns{d.errorf("no message in the session: nothing was said")}
	}
	return runs, nil
}

// claudeLine is one line.
type claudeLine struct {
	value
	object                      object
	kind, uuid, parent, session string
	side                        string // what the chain of a subagent is called
	id                          string // of the message
	message                     object
	summary, failed             bool // of a compaction; an error of the API
}

func newClaudeLine(v value) (claudeLine, error) {
	l := claudeLine{value: v}
	o, err := v.object()
	if err != nil {
		return l, err
	}
	l.object = o
	if l.kind, err = o.needText("type"); err != nil {
		return l, err
	}
	l.uuid, l.session = scalarField(o, "uuid"), scalarField(o, "sessionId")
	l.parent = cmp.Or(scalarField(o, "parentUuid"), scalarField(o, "logicalParentUuid"))
	if flag, ok := o.get("isSidechain"); ok && flag.kind() == 't' {
		l.side = cmp.Or(scalarField(o, "agentId"), "?")
	}
	for key, into := range map[string]*bool{"isCompactSummary": &l.summary, "isApiErrorMessage": &l.failed} {
		flag, ok := o.get(key)
		*into = ok && flag.kind() == 't'
	}
	if l.kind != "user" && l.kind != "assistant" {
		return l, nil
	}
	message, err := o.need("message")
	if err != nil {
		return l, err
	}
	if l.message, err = message.object(); err != nil {
		return l, err
	}
	l.id = scalarField(l.message, "id")
	return l, nil
}

// said reports whether a line holds a message.
func (l claudeLine) said() bool { return l.kind == "user" || l.kind == "assistant" }

// claudeChains tells the lines of the session apart from those of its subagents. A
// subagent without a name is called by the first line of its chain.
func claudeChains(lines []claudeLine) [][]claudeLine {
	var chains [][]claudeLine
	at := make(map[string]int)       // by name: the chain
	names := make(map[string]string) // by uuid, of subagents without a name
	for _, line := range lines {
		if line.side == "?" {
			name, ok := names[line.parent]
			if !ok {
				name = cmp.Or(line.uuid, "sidechain")
			}
			line.side, names[line.uuid] = name, name
		}
		i, ok := at[line.side]
		if !ok {
			i = len(chains)
			at[line.side] = i
			chains = append(chains, nil)
		}
		chains[i] = append(chains[i], line)
	}
	return chains
}

// branch returns the lines of the last branch of a chain in their order. Parallel
// calls branch too: all lines of a turn belong to it, and what answers its calls.
func (r *Run) branch(chain []claudeLine) []claudeLine {
	at := make(map[string]int, len(chain)) // by uuid
	for i, line := range chain {
		if line.uuid != "" {
			at[line.uuid] = i
		}
	}
	last := len(chain) - 1
	for last > 0 && !chain[last].said() {
		last--
	}
	keep := make([]bool, len(chain))
	for i := last; i >= 0 && !keep[i]; {
		keep[i] = true
		line := chain[i]
		parent, ok := at[line.parent]
		switch {
		case line.uuid == "", line.parent != "" && !ok, line.parent == "" && line.summary:
			parent = i - 1 // not told, or not in the file: the line before it
		case line.parent == "":
			parent = -1
		}
		i = parent
	}
	turns, calls := make(map[string]bool), make(map[string]bool)
	for i, line := range chain {
		if keep[i] && line.id != "" {
			turns[line.id] = true
		}
	}
	for i, line := range chain {
		keep[i] = keep[i] || line.kind == "assistant" && turns[line.id]
		if keep[i] && line.kind == "assistant" {
			for _, id := range line.blockIDs("id") {
				calls[id] = true
			}
		}
	}
	var kept []claudeLine
	for i, line := range chain {
		for _, id := range line.blockIDs("tool_use_id") {
			keep[i] = keep[i] || line.kind == "user" && calls[id]
		}
		if keep[i] {
			kept = append(kept, line)
		} else if line.said() {
			r.notice("messages of branches that were given up were left out")
		}
	}
	return kept
}

// blockIDs returns the ids that the blocks of a message have under a key.
func (l claudeLine) blockIDs(key string) []string {
	content, ok := l.message.get("content")
	if !ok || content.kind() != '[' {
		return nil
	}
	var ids []string
	blocks, _ := content.array()
	for _, block := range blocks {
		if block.kind() != '{' {
			continue
		}
		b, _ := block.object()
		if id := scalarField(b, key); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// claudeLog turns lines into messages.
type claudeLog struct {
	run   *Run
	turns map[string]int // by message id: 1 + index of the message that goes on
}

func (l *claudeLog) line(line claudeLine) error {
	switch {
	case line.kind == "attachment":
		l.run.notice("attachments were left out: what the model was told of them is not recorded")
		return nil
	case !line.said():
		return nil
	case line.summary:
		l.run.notice(compactions)
		return nil
	case line.failed:
		l.run.notice("errors of the API were passed over")
		return nil
	case line.kind == "user":
		return l.user(line)
	}
	return l.assistant(line)
}

// blocks returns the content of a message as blocks; ok is false for a text alone.
func (l claudeLine) blocks() (text string, blocks []value, ok bool, err error) {
	content, err := l.message.need("content")
	if err != nil {
		return "", nil, false, err
	}
	if content.kind() == '[' {
		blocks, err = content.array()
		return "", blocks, true, err
	}
	text, err = content.text()
	return text, nil, false, err
}

// user reads what the user said, and the results of calls. Each result is a message
// of its own, in the order of the blocks.
func (l *claudeLog) user(line claudeLine) error {
	text, blocks, ok, err := line.blocks()
	if err != nil {
		return err
	}
	texts := []string{text}
	if ok {
		texts = nil
	}
	flush := func() {
		if len(texts) > 0 {
			m := Message{Message: chat.Message{Role: chat.User, Content: strings.Join(texts, "\n")}, at: line.value}
			l.run.Messages, texts = append(l.run.Messages, m), nil
		}
	}
	for _, block := range blocks {
		b, err := block.object()
		if err != nil {
			return err
		}
		kind, err := b.needText("type")
		if err != nil {
			return err
		}
		if kind != "tool_result" {
			text, err := l.run.partText(block)
			if err != nil {
				return err
			}
			texts = append(texts, text)
			continue
		}
		flush()
		if err := l.result(block, b, "content"); err != nil {
			return err
		}
	}
	flush()
	return nil
}

// result adds the result of a call.
func (l *claudeLog) result(v value, o object, key string) error {
	m := Message{Message: chat.Message{Role: chat.ToolRole}, at: v}
	var err error
	if m.ToolCallID, err = o.text("tool_use_id"); err != nil {
		return err
	}
	content, ok := o.get(key)
	m.NoContent = !ok
	if ok {
		if m.Content, err = l.run.eventText(content); err != nil {
			return err
		}
	}
	l.run.Messages = append(l.run.Messages, m)
	return nil
}

// assistant adds a line to the turn that it belongs to.
func (l *claudeLog) assistant(line claudeLine) error {
	text, blocks, ok, err := line.blocks()
	if err != nil {
		return err
	}
	model, err := line.message.text("model")
	if err != nil {
		return err
	}
	if line.id == "" { // a turn of its own
		line.id = "\x00" + strconv.Itoa(line.start)
	}
	turn := func() *Message {
		if n := l.turns[line.id]; n > 0 {
			return &l.run.Messages[n-1]
		}
		m := Message{Message: chat.Message{Role: chat.Assistant, NoContent: true}, NotSampled: model == "<synthetic>", at: line.value}
		l.run.Messages = append(l.run.Messages, m)
		l.turns[line.id] = len(l.run.Messages)
		return &l.run.Messages[len(l.run.Messages)-1]
	}
	m := turn()
	if !ok {
		m.say(text)
	}
	for _, block := range blocks {
		b, err := block.object()
		if err != nil {
			return err
		}
		kind, err := b.needText("type")
		if err != nil {
			return err
		}
		switch {
		case kind == "text":
			s, err := b.needText("text")
			if err != nil {
				return err
			}
			turn().say(s)
		case kind == "thinking":
			s, err := b.text("thinking")
			if err != nil {
				return err
			}
			if s == "" {
				l.run.notice("reasoning that is encrypted was left out")
			}
			m := turn()
			if m.Reasoning != "" && s != "" {
				m.Reasoning += "\n"
			}
			m.Reasoning += s
		case kind == "redacted_thinking":
			l.run.notice("reasoning that is encrypted was left out")
		case kind == "tool_use", kind == "server_tool_use", kind == "mcp_tool_use":
			c, err := eventCall(block)
			if err != nil {
				return err
			}
			m := turn()
			m.ToolCalls = append(m.ToolCalls, c)
		case strings.HasSuffix(kind, "_tool_result"):
			// A tool of the server answered within the turn, which goes on after it.
			if content, ok := b.get("content"); ok && content.kind() == '{' {
				err = l.serverResult(block, b, content)
			} else {
				err = l.result(block, b, "content")
			}
			if err != nil {
				return err
			}
			delete(l.turns, line.id)
		default:
			return block.errorf("a block of type %q in what the model said: want text, thinking or a call", chat.Excerpt(kind))
		}
	}
	return nil
}

// serverResult adds the result of a tool of the server that is an object.
func (l *claudeLog) serverResult(v value, o object, content value) error {
	text, err := arguments(content)
	if err != nil {
		return err
	}
	m := Message{Message: chat.Message{Role: chat.ToolRole, Content: text}, at: v}
	if m.ToolCallID, err = o.text("tool_use_id"); err != nil {
		return err
	}
	l.run.Messages = append(l.run.Messages, m)
	return nil
}

// say adds a text to what a message says.
func (m *Message) say(text string) {
	if m.Content != "" && text != "" {
		text = m.Content + "\n" + text
	} else {
		text = m.Content + text
	}
	m.Content, m.NoContent = text, false
}
