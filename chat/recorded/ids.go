package recorded

import (
	"slices"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/chat"
)

// Names of the fields that hold the ids that a model sampled, and their log-probs.
var (
	sampledIDNames = []string{"token_ids", "completion_token_ids", "generation_token_ids", "output_token_ids", "response_token_ids", "output_ids"}
	logProbNames   = []string{"logprobs", "log_probs", "completion_logprobs", "generation_logprobs", "generation_log_probs", "output_logprobs", "rollout_log_probs"}
)

// recordedIDs reads the token ids and log-probs that were recorded with what the
// model said, and the ids of its prompt: as vLLM, SGLang, OpenAI and NeMo-Gym write
// them. What an inner object told stays.
func (m *Message) recordedIDs(o object) error {
	ids, found := o.arrayOf(sampledIDNames)
	if inner, ok := o.child("provider_specific_fields"); ok && !found { // where LiteLLM puts them
		ids, found = inner.arrayOf(sampledIDNames)
	}
	var err error
	if found && m.IDs == nil {
		if m.IDs, err = ids.ids(); err != nil {
			return err
		}
	}
	if prompt, ok := o.arrayOf([]string{"prompt_token_ids"}); ok && m.prompt == nil {
		if m.prompt, err = prompt.ids(); err != nil {
			return err
		}
	}
	if m.LogProbs != nil {
		return nil
	}
	logProbs, at, fromTokens, err := o.logProbs()
	if err != nil {
		return err
	}
	switch {
	case m.IDs == nil && fromTokens != nil:
		m.IDs = fromTokens
	case fromTokens != nil && !slices.Equal(fromTokens, m.IDs):
		return at.errorf("the log-probs are those of other token ids than the recorded ones")
	}
	switch {
	case logProbs == nil:
	case m.IDs == nil:
		if len(logProbs) > 0 {
			o.file.note("log-probs without token ids, left out")
		}
	case len(logProbs) != len(m.IDs):
		return at.errorf("%d log-probs for %d token ids", len(logProbs), len(m.IDs))
	case !m.NotSampled:
		m.LogProbs = logProbs
	}
	return nil
}

// arrayOf returns the first array of these fields.
func (o object) arrayOf(names []string) (value, bool) {
	for _, name := range names {
		if v, ok := o.get(name); ok && v.kind() == '[' {
			return v, true
		}
	}
	return value{}, false
}

// logProbs reads log-probs, nil if there are none: an array of numbers, the
// {"content": [{"token", "logprob"}]} of OpenAI chats, or SGLang's triples of
// log-prob, id and text. ids are those that they name.
func (o object) logProbs() (logProbs []float32, at value, ids []int32, err error) {
	if meta, ok := o.child("meta_info"); ok {
		if v, ok := meta.get("output_token_logprobs"); ok {
			logProbs, ids, err = v.triples()
			return logProbs, v, ids, err
		}
	}
	for _, name := range logProbNames {
		v, ok := o.get(name)
		switch {
		case ok && v.kind() == '[':
			items, err := v.array()
			if err != nil {
				return nil, v, nil, err
			}
			if len(items) > 0 && items[0].kind() == '{' {
				return tokenLogProbs(v, items)
			}
			logProbs, err = v.floats()
			return logProbs, v, nil, err
		case ok && v.kind() == '{':
			inner, err := v.object()
			if err != nil {
				return nil, v, nil, err
			}
			if list, ok := inner.arrayOf([]string{"content"}); ok {
				items, err := list.array()
				if err != nil {
					return nil, v, nil, err
				}
				return tokenLogProbs(list, items)
			}
			if list, ok := inner.arrayOf([]string{"token_logprobs"}); ok {
				logProbs, err = list.floats()
				return logProbs, list, nil, err
			}
		}
	}
	return nil, value{}, nil, nil
}

// tokenLogProbs reads {"token", "logprob"}, where tokens may be told by id: as
// token_id, or as the text token_id:N that vLLM writes if asked.
func tokenLogProbs(at value, items []value) ([]float32, value, []int32, error) {
	logProbs := make([]float32, len(items))
	ids := make([]int32, 0, len(items))
	for i, item := range items {
		o, err := item.object()
		if err != nil {
			return nil, at, nil, err
		}
		v, err := o.need("logprob")
		if err != nil {
			return nil, at, nil, err
		}
		n, err := v.number()
		if err != nil {
			return nil, at, nil, err
		}
		logProbs[i] = float32(n)
		text := ""
		if id, ok := o.get("token_id"); ok {
			text = id.scalar()
		} else if token, ok := o.get("token"); ok {
			text, _ = strings.CutPrefix(token.scalar(), "token_id:")
			if text == token.scalar() {
				continue // the text of the token
			}
		}
		if id, err := strconv.ParseInt(text, 10, 32); err == nil {
			ids = append(ids, int32(id))
		}
	}
	if len(ids) != len(items) || len(ids) == 0 {
		ids = nil
	}
	return logProbs, at, ids, nil
}

// triples reads [log-prob, id, text], as SGLang has them.
func (v value) triples() ([]float32, []int32, error) {
	items, err := v.array()
	if err != nil || len(items) == 0 {
		return nil, nil, err
	}
	logProbs, ids := make([]float32, len(items)), make([]int32, len(items))
	for i, item := range items {
		triple, err := item.array()
		if err != nil {
			return nil, nil, err
		}
		if len(triple) < 2 {
			return nil, nil, item.errorf("want log-prob and token id")
		}
		n, err := triple[0].number()
		if err != nil {
			return nil, nil, err
		}
		id, err := strconv.ParseInt(triple[1].raw(), 10, 32)
		if err != nil {
			return nil, nil, triple[1].errorf("%s, want a token id", triple[1].excerpt())
		}
		logProbs[i], ids[i] = float32(n), int32(id)
	}
	return logProbs, ids, nil
}

// spreadPrompts gives the messages before each reply the ids of its prompt that they
// added. Those of several messages stand with the last of them. Prompts that do not
// continue what came before tell no ids of messages.
func (r *Run) spreadPrompts() {
	known := []int32{}
	ids := make([][]int32, len(r.Messages))
	start, found, ok := 0, false, true
	for i, m := range r.Messages {
		if m.Role != chat.Assistant || m.IDs == nil {
			ok = ok && m.Role != chat.Assistant
			continue
		}
		if m.prompt == nil {
			ok = false
			continue
		}
		found = true
		if !ok || len(m.prompt) < len(known) || !slices.Equal(m.prompt[:len(known)], known) || (i == start) != (len(m.prompt) == len(known)) {
			ok = false
			break
		}
		for j := start; j < i; j++ {
			ids[j] = []int32{}
		}
		if i > start {
			ids[i-1] = slices.Clone(m.prompt[len(known):])
		}
		known = append(slices.Clone(m.prompt), m.IDs...)
		start = i + 1
	}
	switch {
	case !found:
	case !ok:
		r.notice("prompt token ids that do not continue each other, left out: prompts are encoded")
	default:
		for i := range ids {
			if ids[i] != nil {
				r.Messages[i].IDs = ids[i]
			}
		}
	}
	for i := range r.Messages {
		r.Messages[i].prompt = nil
	}
}
