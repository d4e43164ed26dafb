package trajectory

// Cost is what a model does for a trajectory, in tokens, if it keeps the key-value
// cache of the last prompt and what it sampled from it.
type Cost struct {
	Replies int
	Prompt  int // tokens of all prompts
	Reused  int // of them in the cache already
	Decode  int // sampled tokens
	Dropped int // taken out of the window by condensing
}

// Prefill is the number of prompt tokens that are computed.
func (c Cost) Prefill() int { return c.Prompt - c.Reused }

// Processed is the number of tokens that are computed.
func (c Cost) Processed() int { return c.Prefill() + c.Decode }

// Add adds another trajectory's cost.
func (c *Cost) Add(d Cost) {
	c.Replies += d.Replies
	c.Prompt += d.Prompt
	c.Reused += d.Reused
	c.Decode += d.Decode
	c.Dropped += d.Dropped
}

// Cost counts the tokens of a closed trajectory. Within a segment a prompt begins
// with all of the last prompt and its reply; across a cut it shares a prefix.
func (t *Trajectory) Cost() (Cost, error) {
	rows, err := t.Samples()
	if err != nil {
		return Cost{}, err
	}
	var c Cost
	var cache []int32
	for k, s := range t.Segments {
		c.Dropped += s.Record.TokensBefore - min(s.Record.TokensBefore, s.Record.TokensAfter)
		row := &rows[k]
		context := append(row.Prompt, row.Response...)
		known := 0 // tokens of context in the cache
		for known < min(len(cache), len(row.Prompt)) && cache[known] == context[known] {
			known++
		}
		at := len(row.Prompt) - t.Entries[s.Start].Start // where entry s.Start begins
		for i := s.Start; i < s.End; i++ {
			e := &t.Entries[i]
			if e.Sampled() {
				c.Replies++
				c.Prompt += at + e.Start
				c.Reused += known
				c.Decode += e.End - e.Start
				known = at + e.End
			}
			at += len(e.IDs)
		}
		cache = context
	}
	return c, nil
}
