package batch

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends row i as one line of JSON Lines, with the newline. Fields
// that say nothing (no prompt, no score, no group, absent columns) are left out. In the
// token columns a NaN is null and an infinity ±1e999, as JSON has no words for
// them.
func (b *Batch) AppendJSON(dst []byte, i int) []byte {
	r := &b.Rows[i]
	prompt, end := b.Span(i)
	start := prompt + r.PromptLen
	dst = appendString(append(dst, `{"trajectory_id":`...), r.TrajectoryID)
	if r.GroupID != "" {
		dst = appendString(append(dst, `,"group_id":`...), r.GroupID)
	}
	dst = strconv.AppendInt(append(dst, `,"inv_iter":`...), int64(r.InvIter), 10)
	if start > prompt {
		dst = appendInts(append(dst, `,"prompt_ids":`...), b.TokenIDs[prompt:start])
	}
	dst = appendInts(append(dst, `,"response_ids":`...), b.TokenIDs[start:end])
	dst = appendMask(append(dst, `,"loss_mask":`...), b.LossMask[start:end])
	for _, c := range b.Columns() {
		if *c.Data != nil {
			dst = append(append(append(dst, `,"`...), c.Name...), `":`...)
			dst = appendFloats(dst, (*c.Data)[start:end])
		}
	}
	if r.HasScore {
		dst = appendFloat(append(dst, `,"score":`...), r.Score, 64)
	}
	if r.HasSuccess {
		dst = strconv.AppendBool(append(dst, `,"success":`...), r.Success)
	}
	if r.Status != "" {
		dst = appendString(append(dst, `,"status":`...), string(r.Status))
	}
	if r.Error != "" {
		dst = appendString(append(dst, `,"error":`...), r.Error)
	}
	if r.BootstrapValue != 0 {
		dst = appendFloat(append(dst, `,"bootstrap_value":`...), r.BootstrapValue, 64)
	}
	if len(r.NextIDs) > 0 {
		dst = appendInts(append(dst, `,"next_ids":`...), r.NextIDs)
	}
	if r.PolicyVersion != 0 {
		dst = strconv.AppendInt(append(dst, `,"policy_version":`...), r.PolicyVersion, 10)
	}
	if r.OldestPolicyVersion != r.PolicyVersion {
		dst = strconv.AppendInt(append(dst, `,"oldest_policy_version":`...), r.OldestPolicyVersion, 10)
	}
	if r.Condense != nil {
		dst = append(append(dst, `,"condense":`...), r.Condense...)
	}
	return append(dst, "}\n"...)
}

// WriteJSONLines writes all rows as JSON Lines.
func (b *Batch) WriteJSONLines(w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 1<<16)
	var line []byte
	for i := range b.Rows {
		line = b.AppendJSON(line[:0], i)
		if _, err := buffered.Write(line); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// appendString quotes s; plain ASCII needs no escaping and no encoder.
func appendString(dst []byte, s string) []byte {
	for k := range len(s) {
		if c := s[k]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always marshals
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

func appendInts(dst []byte, x []int32) []byte {
	dst = append(dst, '[')
	for k, v := range x {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(v), 10)
	}
	return append(dst, ']')
}

func appendMask(dst []byte, mask []bool) []byte {
	dst = append(dst, '[')
	for k, m := range mask {
		if k > 0 {
			dst = append(dst, ',')
		}
		if m {
			dst = append(dst, '1')
		} else {
			dst = append(dst, '0')
		}
	}
	return append(dst, ']')
}

func appendFloats(dst []byte, x []float32) []byte {
	dst = append(dst, '[')
	for k, v := range x {
		if k > 0 {
			dst = append(dst, ',')
		}
		if math.Float32bits(v) == 0 { // most tokens of most columns
			dst = append(dst, '0')
			continue
		}
		dst = appendFloat(dst, float64(v), 32)
	}
	return append(dst, ']')
}

// appendFloat writes the shortest decimal that reads back as the same bits.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case v != v:
		return append(dst, "null"...)
	case v > math.MaxFloat64:
		return append(dst, "1e999"...)
	case v < -math.MaxFloat64:
		return append(dst, "-1e999"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}
