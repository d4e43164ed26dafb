package batch

import "fmt"

// MicroBatches splits the rows of one step into parts of at most maxTokens
// tokens, nearly equal and as few as possible, to be packed without padding.
// It fails, naming the segment, on a row that is longer.
func (b *Batch) MicroBatches(rows []int, maxTokens int) ([][]int, error) {
	sizes := make([]int, len(rows))
	for j, i := range rows {
		start, end := b.Span(i)
		if sizes[j] = end - start; sizes[j] > maxTokens {
			return nil, fmt.Errorf("%s has %d tokens: more than the %d of a micro-batch", b.Describe(i), sizes[j], maxTokens)
		}
	}
	parts, err := BalanceAtMost(sizes, maxTokens)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		for j := range part {
			part[j] = rows[part[j]]
		}
	}
	return parts, nil
}
