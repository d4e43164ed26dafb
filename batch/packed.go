package batch

import (
	"github.com/infinirl/infinirl/safetensors"
)

// packedTensors are the loss mask and the float columns in packed layout.
func (b *Batch) packedTensors() []safetensors.Tensor {
	spans := maskSpans(b.LossMask)
	kept := 0
	for k := 0; k < len(spans); k += 2 {
		kept += int(spans[k+1] - spans[k])
	}
	spanTensor := tensor("spans", spans)
	spanTensor.Shape = []int{len(spans) / 2, 2}
	tensors := []safetensors.Tensor{spanTensor}
	for _, c := range b.Columns() {
		if *c.Data == nil {
			continue
		}
		packed := make([]float32, 0, kept)
		for k := 0; k < len(spans); k += 2 {
			packed = append(packed, (*c.Data)[spans[k]:spans[k+1]]...)
		}
		tensors = append(tensors, tensor(c.Name, packed))
	}
	if index, rewards := b.maskedRewards(spans); len(index) > 0 {
		tensors = append(tensors, tensor("masked_reward_index", index), tensor("masked_rewards", rewards))
	}
	return tensors
}

// maskSpans lists start and end of every run of trainable tokens. A run that
// goes on from one row to the next is one.
func maskSpans(mask []bool) []int64 {
	spans := []int64{}
	bytes := bytesOf(mask)
	for t := 0; t < len(bytes); {
		start := after(bytes, t, 0)
		if start == len(bytes) {
			break
		}
		t = after(bytes, start, 1)
		spans = append(spans, int64(start), int64(t))
	}
	return spans
}

// maskedRewards lists the finite rewards outside of the spans.
func (b *Batch) maskedRewards(spans []int64) (index []int64, rewards []float32) {
	if b.Rewards == nil {
		return nil, nil
	}
	collect := func(start, end int64) {
		if zeroBits(b.Rewards[start:end]) {
			return
		}
		for t, r := range b.Rewards[start:end] {
			if r != 0 && r-r == 0 {
				index, rewards = append(index, start+int64(t)), append(rewards, r)
			}
		}
	}
	done := int64(0)
	for k := 0; k < len(spans); k += 2 {
		collect(done, spans[k])
		done = spans[k+1]
	}
	collect(done, int64(len(b.Rewards)))
	return index, rewards
}

// packed reads the packed layout into full columns.
func (r *tensorReader) packed(b *Batch) {
	n := len(b.TokenIDs)
	t, err := r.file.Tensor("spans")
	if err != nil || len(t.Shape) != 2 || t.Shape[1] != 2 {
		r.fail("tensor \"spans\": want I64 of shape [n 2] in the packed layout")
		return
	}
	r.used["spans"] = true
	spans, err := view[int64](t)
	if err != nil {
		r.fail("%w", err)
		return
	}
	b.LossMask = make([]bool, n)
	kept, done := 0, int64(0)
	for k := 0; k < len(spans); k += 2 {
		start, end := spans[k], spans[k+1]
		if start < done || end <= start || end > int64(n) {
			r.fail("tensor \"spans\": entry %d: [%d, %d) after %d, of %d tokens", k/2, start, end, done, n)
			return
		}
		for t := start; t < end; t++ {
			b.LossMask[t] = true
		}
		kept += int(end - start)
		done = end
	}
	for _, c := range b.Columns() {
		packed := optional[float32](r, c.Name, kept)
		if packed == nil {
			continue
		}
		full := make([]float32, n)
		for k := 0; k < len(spans); k += 2 {
			packed = packed[copy(full[spans[k]:spans[k+1]], packed):]
		}
		*c.Data = full
	}
	index := optional[int64](r, "masked_reward_index", -1)
	rewards := optional[float32](r, "masked_rewards", len(index))
	if r.err != nil || index == nil && rewards == nil {
		return
	}
	if b.Rewards == nil || len(rewards) != len(index) {
		r.fail("tensors \"masked_reward_index\" and \"masked_rewards\": want both, of one length, beside \"rewards\"")
		return
	}
	for k, t := range index {
		if t < 0 || t >= int64(n) || b.LossMask[t] {
			r.fail("tensor \"masked_reward_index\": entry %d: token %d: want one of %d tokens that is not trainable", k, t, n)
			return
		}
		b.Rewards[t] = rewards[k]
	}
}
