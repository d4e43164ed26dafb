package recorded

import "github.com/infinirl/infinirl/chat"

// matchMessageLog accepts {"message_log": [...]}: messages with the token ids that
// the engine saw and sampled, as NeMo RL logs them. Generation prefixes belong to
// the message before the reply.
func matchMessageLog(d document) bool { return d.holds("message_log") }

func readMessageLog(d document) ([]Run, error) {
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	list, err := d.object.need("message_log")
	if err != nil {
		return nil, err
	}
	items, err := list.array()
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		m, err := message(item)
		if err != nil {
			return nil, err
		}
		o, err := item.object()
		if err != nil {
			return nil, err
		}
		ids, err := o.need("token_ids")
		if err != nil {
			return nil, err
		}
		if m.Role != chat.Assistant { // whose ids message has read
			if m.IDs, err = ids.ids(); err != nil {
				return nil, err
			}
		}
		if m.IDs == nil { // the others hold all delimiters
			if said(m) {
				return nil, ids.errorf("no token ids of a message that says something")
			}
			m.IDs = []int32{}
		}
		run.Messages = append(run.Messages, m)
	}
	return []Run{run}, nil
}
