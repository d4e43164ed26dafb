package recorded

import (
	"slices"

	"github.com/infinirl/infinirl/chat"
)

// openCall is a call of a message.
type openCall struct {
	message  int
	id       string
	answered bool
}

// pair finds the call that every result answers, by id where no two calls share it,
// else by position, and moves results that stand elsewhere behind the message that
// made their call: condensing pairs by position. A result that answers no call is an
// error, but a tool message without an id among results with one is an observation.
func (r *Run) pair() error {
	calls, byID := r.calls()
	owner := make([]int, len(r.Messages)) // of a result, the message of its call; else -1
	for i := range owner {
		owner[i] = -1
	}
	for i, m := range r.Messages {
		if c := byID[m.ToolCallID]; m.Role == chat.ToolRole && m.ToolCallID != "" && c > 0 && !calls[c-1].answered && calls[c-1].message < i {
			calls[c-1].answered, owner[i] = true, calls[c-1].message
		}
	}
	next, last := 0, -1 // calls before next stand before message i; last is the assistant message before it
	for i := 0; i < len(r.Messages); i++ {
		m := &r.Messages[i]
		if m.Role == chat.Assistant {
			for next < len(calls) && calls[next].message <= i {
				next++
			}
			last = i
		}
		if m.Role != chat.ToolRole || owner[i] >= 0 {
			continue
		}
		block, named := r.unpaired(i, last, owner)
		waiting := waiting(calls[:next], r.since(last), last, len(block))
		for n, j := range block {
			if n < len(waiting) {
				waiting[n].answered, owner[j] = true, waiting[n].message
				switch id := r.Messages[j].ToolCallID; {
				case id == "":
				case byID[id] == 0:
					r.notice("results whose id no call has, paired by place")
				case byID[id] > 0:
					r.notice("results whose call has another result or comes later, paired by place")
				}
			} else if err := r.noCall(j, named); err != nil {
				return err
			}
		}
	}
	if !slices.ContainsFunc(r.Messages, func(m Message) bool { return m.IDs != nil || m.prompt != nil }) {
		r.reorder(owner) // recorded ids tell the order
	}
	return nil
}

// calls lists the calls of a run, and 1 + the place of those whose id is unique.
func (r *Run) calls() (calls []openCall, byID map[string]int) {
	byID = make(map[string]int)
	for i, m := range r.Messages {
		for _, c := range m.ToolCalls {
			if m.Role != chat.Assistant {
				break
			}
			calls = append(calls, openCall{message: i, id: c.ID})
			if byID[c.ID] != 0 {
				byID[c.ID] = -1
			} else {
				byID[c.ID] = len(calls)
			}
		}
	}
	return calls, byID
}

// unpaired returns the results without a call from message i to the next assistant
// message. named reports whether others after the assistant message last name theirs.
func (r *Run) unpaired(i, last int, owner []int) (block []int, named bool) {
	for j := last + 1; j < len(r.Messages) && r.Messages[j].Role != chat.Assistant; j++ {
		switch m := r.Messages[j]; {
		case m.Role != chat.ToolRole:
		case owner[j] >= 0:
			named = named || m.ToolCallID != ""
		case j >= i:
			block = append(block, j)
		}
	}
	return block, named
}

// since returns the message after the last result before an assistant message.
func (r *Run) since(assistant int) int {
	for i := assistant; i > 0; i-- {
		if r.Messages[i-1].Role == chat.ToolRole {
			return i
		}
	}
	return 0
}

// waiting returns the calls that n results answer by position: those of the last
// assistant message, and only if there are too few, those of the messages before it,
// from message first on.
func waiting(calls []openCall, first, last, n int) []*openCall {
	var open []*openCall
	own := 0
	from, _ := slices.BinarySearchFunc(calls, first, func(c openCall, first int) int { return c.message - first })
	for i := from; i < len(calls); i++ {
		if !calls[i].answered {
			open = append(open, &calls[i])
			if calls[i].message == last {
				own++
			}
		}
	}
	return open[max(0, len(open)-max(own, n)):]
}

// noCall takes a result that answers no call: a note without an id among results
// that name their call is what the environment said.
func (r *Run) noCall(i int, named bool) error {
	m := &r.Messages[i]
	if m.ToolCallID != "" || !named {
		return m.at.errorf("a tool result that answers no call: no call before it is without a result")
	}
	m.Role, m.Observation = chat.User, true
	r.notice("tool messages without an id and a call, shown as observations")
	return nil
}

// reorder moves results behind the message of their call where another assistant
// message stands in between.
func (r *Run) reorder(owner []int) {
	moved := make(map[int][]Message) // by the message of the call
	last, out := -1, []Message{}
	for i, m := range r.Messages {
		if m.Role == chat.Assistant {
			last = i
		}
		if owner[i] >= 0 && owner[i] != last {
			moved[owner[i]] = append(moved[owner[i]], m)
			r.notice("tool results moved behind their call")
		}
	}
	if len(moved) == 0 {
		return
	}
	last = -1
	for i, m := range r.Messages {
		if owner[i] >= 0 && owner[i] != last {
			continue
		}
		if owner[i] < 0 { // the results of the last call end here
			out = append(out, moved[last]...)
			delete(moved, last)
		}
		if m.Role == chat.Assistant {
			last = i
		}
		out = append(out, m)
	}
	r.Messages = slices.Concat(out, moved[last])
}
