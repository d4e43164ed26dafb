package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat/recorded"
	"github.com/infinirl/infinirl/trajectory"
)

// tally counts what is told of all runs together.
type tally struct {
	read, scored   int
	refused        int
	refusal        error // the first
	notices        map[string]int
	bytes          bool // every byte is a token
	encoded        int  // runs with texts that were encoded
	foreign        int  // runs with recorded ids that are no bytes, although bytes are
	cut, early     int  // runs, and scored ones that ended early by the rule
	rows           int
	summaries      int  // that text stands in for
	trainSummaries bool // and that are trained all the same
	ended          map[trajectory.Status]int
	segments       *segmentWriter
	scores         *scoreTable
}

const noSampledToken = "runs without a sampled token" // as package recorded counts them

// see counts a run as it was read.
func (t *tally) see(run *recorded.Run) {
	t.read++
	if run.HasScore {
		t.scored++
	}
	for kind, n := range run.Notices {
		t.notice(kind, n)
	}
	own, encoded, foreign := run.Form == trajectory.Form, false, false
	for i := range run.Messages {
		ids := run.Messages[i].IDs
		encoded = encoded || own || ids == nil
		foreign = foreign || slices.ContainsFunc(ids, func(id int32) bool { return id > 0xff })
	}
	if encoded {
		t.encoded++
	}
	if foreign && t.bytes {
		t.foreign++
	}
}

// notice counts n of a kind. Kinds name types that recordings bring, of which there may
// be any number.
func (t *tally) notice(kind string, n int) {
	if t.notices == nil {
		t.notices = make(map[string]int)
	}
	if _, known := t.notices[kind]; !known && len(t.notices) >= 50 {
		kind = "things of still other kinds that could not be taken as they were recorded"
	}
	t.notices[kind] += n
}

// refuse counts a run that is passed over.
func (t *tally) refuse(err error) {
	if t.refused++; t.refusal == nil {
		t.refusal = err
	}
}

// add counts a run that was cut.
func (t *tally) add(c *cut) {
	t.cut++
	t.rows += len(c.t.Segments)
	if t.ended == nil {
		t.ended = make(map[trajectory.Status]int)
	}
	t.ended[c.t.Status]++
	if c.reason != nil && c.t.HasScore {
		t.early++
	}
	for i := range c.t.Entries {
		if e := &c.t.Entries[i]; e.Summary && e.Sampled() {
			t.summaries++
		}
	}
}

// summary is a line about all runs.
func (t *tally) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs, %d segments: %d finished, %d truncated, %d context_overflow", t.cut, t.rows,
		t.ended[trajectory.Finished], t.ended[trajectory.Truncated], t.ended[trajectory.ContextOverflow])
	for _, status := range []trajectory.Status{trajectory.Failed, trajectory.Aborted} {
		if n := t.ended[status]; n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, status)
		}
	}
	return b.String()
}

// print tells, a line a kind, what was not taken as it was recorded, what was passed
// over and what is not known.
func (t *tally) print(w io.Writer) {
	line := func(format string, args ...any) { fmt.Fprintf(w, "infinirl: "+format+"\n", args...) }
	for _, kind := range slices.Sorted(maps.Keys(t.notices)) {
		if kind == noSampledToken {
			line("runs that hold no sampled token: %d; nothing of them is trained", t.notices[kind])
			continue
		}
		line("%d × %s", t.notices[kind], shown(kind))
	}
	if t.refused > 0 {
		line("runs passed over: %d of %d, the first: %s", t.refused, t.refused+t.read, shown(t.refusal.Error()))
	}
	t.scores.print(w)
	if s := t.segments; s != nil && s.w != nil {
		switch {
		case t.scored == 0:
			line("no run has a score, which advantages need: see --score FIELD and --scores FILE")
		case t.scored < t.read && t.scores == nil:
			line("runs without a score: %d of %d; their rows carry none", t.read-t.scored, t.read)
		}
		if s.some > 0 && s.known < s.trained {
			line("log-probs are known of all replies in %d of %d runs, of some in %d: the column rollout_log_probs is left out", s.known, s.trained, s.some)
		}
		if s.leftOut > 0 {
			line("runs that failed or were aborted: %d; they have no rows", s.leftOut)
		}
		if t.early > 0 {
			line("runs with a score that did not fit to their end: %d of %d runs; their rows carry the score of the whole recording: raise --high, or see --compare for another rule", t.early, t.cut)
		}
	}
	if t.summaries > 0 && t.trainSummaries {
		line("summaries that nobody wrote: %d; the text that stands in for them is trained: leave out --train-summary where rows are to be trained on", t.summaries)
	}
	if t.foreign > 0 {
		line("runs whose recorded token ids are no bytes: %d; what a rule writes among them (placeholders, markers, summaries) is: want their --tokenizer FILE", t.foreign)
	}
	if t.bytes && t.encoded > 0 {
		line("tokens are bytes, several times as many as a model's: --tokenizer FILE takes its tokenizer.json")
	}
}
