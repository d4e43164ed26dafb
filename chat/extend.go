package chat

import (
	"fmt"
	"slices"
)

// Extend returns the prompt of a conversation that goes on after ids that were
// already seen, without rendering those again.
//
// rendered is the whole conversation as a chat template renders and a tokenizer
// encodes it now. Its ids of earlier turns may differ from those seen: sampled
// tokens merge otherwise, and templates rewrite history. Only what follows as many
// end tokens as seen holds is taken from it. seen ends with complete turns, and
// with the generation prefix or other ids that the template writes there too; if
// it does not, the template cannot extend it and the error says where.
func Extend(seen, rendered []int32, end int32) ([]int32, error) {
	turns, after := 0, 0 // end tokens of seen, and the place after the last one
	for i, id := range seen {
		if id == end {
			turns, after = turns+1, i+1
		}
	}
	at := 0 // the same place in rendered
	for k := range turns {
		next := slices.Index(rendered[at:], end)
		if next < 0 {
			return nil, fmt.Errorf("the template does not extend the conversation: it renders %d turns, %d were seen", k, turns)
		}
		at += next + 1
	}
	rest := rendered[at:]
	for i, id := range seen[after:] {
		if i >= len(rest) || rest[i] != id {
			return nil, fmt.Errorf("the template does not extend the conversation: token %d after turn %d is not the %d that was seen", i, turns, id)
		}
	}
	return slices.Concat(seen, rest[len(seen)-after:]), nil
}
