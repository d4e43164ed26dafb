package recorded

// completion reads the first choice of a chat completion, with the token ids that
// vLLM returns beside it.
func completion(response object) (Message, error) {
	list, err := response.need("choices")
	if err != nil {
		return Message{}, err
	}
	choices, err := list.array()
	if err != nil {
		return Message{}, err
	}
	if len(choices) == 0 {
		return Message{}, list.errorf("no choice")
	}
	choice, err := choices[0].object()
	if err != nil {
		return Message{}, err
	}
	written, err := choice.need("message")
	if err != nil {
		return Message{}, err
	}
	m, err := message(written)
	if err != nil {
		return m, err
	}
	said, err := written.object()
	if err != nil {
		return m, err
	}
	if m.Reasoning == "" {
		if m.Reasoning, err = thinking(said); err != nil {
			return m, err
		}
	}
	return m, m.completionTokens(choice)
}

// completionTokens takes the sampled ids of a choice and their log-probs.
func (m *Message) completionTokens(choice object) error {
	ids, ok := choice.get("token_ids")
	if v, inner := choice.get("provider_specific_fields"); !ok && inner && v.kind() == '{' {
		fields, err := v.object()
		if err != nil {
			return err
		}
		ids, ok = fields.get("token_ids")
	}
	if !ok {
		return nil
	}
	var err error
	if m.IDs, err = ids.ids(); err != nil || m.IDs == nil {
		return err
	}
	v, ok := choice.get("logprobs")
	if !ok {
		return nil
	}
	o, err := v.object()
	if err != nil {
		return err
	}
	content, ok := o.get("content")
	if !ok {
		return nil
	}
	items, err := content.array()
	if err != nil {
		return err
	}
	if len(items) != len(m.IDs) {
		return content.errorf("%d log-probs beside %d token_ids: want one for each", len(items), len(m.IDs))
	}
	m.LogProbs = make([]float32, len(items))
	for i, item := range items {
		token, err := item.object()
		if err != nil {
			return err
		}
		p, err := token.need("logprob")
		if err != nil {
			return err
		}
		n, err := p.number()
		if err != nil {
			return err
		}
		m.LogProbs[i] = float32(n)
	}
	return nil
}
