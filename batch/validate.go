package batch

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Validate checks the shape of the batch: offsets that rise from 0 to the
// number of tokens, columns of one length, prompts without trainable tokens,
// and rows that make whole trajectories (see Trajectories). The error names
// the column, the row and the trajectory.
func (b *Batch) Validate() error {
	if err := b.validateShape(); err != nil {
		return err
	}
	_, err := b.Trajectories()
	return err
}

// validateShape checks everything but the grouping into trajectories.
func (b *Batch) validateShape() error {
	n := len(b.Rows)
	if n == 0 {
		return errors.New("batch: no rows")
	}
	if len(b.CuSeqLens) != n+1 {
		return fmt.Errorf("batch: cu_seqlens has %d entries for %d rows: want %d", len(b.CuSeqLens), n, n+1)
	}
	if b.CuSeqLens[0] != 0 {
		return fmt.Errorf("batch: cu_seqlens starts with %d: want 0", b.CuSeqLens[0])
	}
	tokens := len(b.TokenIDs)
	for i := range b.Rows {
		length := b.CuSeqLens[i+1] - b.CuSeqLens[i]
		if length < 0 || b.CuSeqLens[i+1] > int64(tokens) {
			return fmt.Errorf("batch: cu_seqlens[%d] = %d after %d, of %d tokens: want it to rise and stay within the tokens", i+1, b.CuSeqLens[i+1], b.CuSeqLens[i], tokens)
		}
		if p := b.Rows[i].PromptLen; p < 0 || int64(p) > length {
			return fmt.Errorf("batch: row %d, %s: prompt_len %d of a row of %d tokens", i, b.Describe(i), p, length)
		}
	}
	if b.CuSeqLens[n] != int64(tokens) {
		return fmt.Errorf("batch: cu_seqlens ends with %d of %d tokens", b.CuSeqLens[n], tokens)
	}
	if len(b.LossMask) != tokens {
		return fmt.Errorf("batch: loss_mask has %d entries for %d tokens", len(b.LossMask), tokens)
	}
	for _, c := range b.Columns() {
		if *c.Data != nil && len(*c.Data) != tokens {
			return fmt.Errorf("batch: %s has %d entries for %d tokens", c.Name, len(*c.Data), tokens)
		}
	}
	for i := range b.Rows {
		start, _ := b.Span(i)
		for t, m := range b.LossMask[start : start+b.Rows[i].PromptLen] {
			if m {
				return fmt.Errorf("batch: row %d, %s: loss_mask is set on prompt token %d", i, b.Describe(i), t)
			}
		}
	}
	return nil
}

// CheckTokenIDs returns an error that names trajectory, segment and token of the
// first token id that no vocabulary has, next_ids included: a negative one.
func (b *Batch) CheckTokenIDs() error {
	for i := range b.Rows {
		start, end := b.Span(i)
		for t, id := range b.TokenIDs[start:end] {
			if id >= 0 {
				continue
			}
			of, at := "prompt", t
			if at >= b.Rows[i].PromptLen {
				of, at = "response", t-b.Rows[i].PromptLen
			}
			return fmt.Errorf("%s, %s token %d: token id %d: want 0 or more", b.Describe(i), of, at, id)
		}
		for t, id := range b.Rows[i].NextIDs {
			if id < 0 {
				return fmt.Errorf("%s, next_ids token %d: token id %d: want 0 or more", b.Describe(i), t, id)
			}
		}
	}
	return nil
}

// maxLogProb is what rounding may make of the log-prob of a certain token.
const maxLogProb = 1e-3

// CheckRanges returns an error that names trajectory, segment and token of the first
// number that cannot be what its column says: a bootstrap value that is not finite, on
// whichever row, a negative policy version, a log-prob above 0 at a trainable token.
func (b *Batch) CheckRanges() error {
	for i := range b.Rows {
		r := &b.Rows[i]
		switch {
		case math.IsNaN(r.BootstrapValue) || math.IsInf(r.BootstrapValue, 0):
			return fmt.Errorf("%s: bootstrap_value %v: want a finite number, or none", b.Describe(i), r.BootstrapValue)
		case r.OldestPolicyVersion < 0:
			return fmt.Errorf("%s: oldest_policy_version %d: want 0 or more", b.Describe(i), r.OldestPolicyVersion)
		case r.PolicyVersion < 0:
			return fmt.Errorf("%s: policy_version %d: want 0 or more", b.Describe(i), r.PolicyVersion)
		}
	}
	for _, c := range b.Columns() {
		if *c.Data == nil || !c.logProbs() {
			continue
		}
		for i := range b.Rows {
			start, end := b.Span(i)
			for t := start; t < end; t++ {
				if x := (*c.Data)[t]; b.LossMask[t] && x > maxLogProb {
					return fmt.Errorf("%s, response token %d: %s: %v: want a log-prob, at most 0", b.Describe(i), t-start-b.Rows[i].PromptLen, c.Name, x)
				}
			}
		}
	}
	return nil
}

func (c Column) logProbs() bool { return strings.HasSuffix(c.Name, "_log_probs") }
