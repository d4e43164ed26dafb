package search

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum/curriculumtest"
	"github.com/infinirl/infinirl/env/filler"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/rollout/rollouttest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// replyTokens is the longest valid reply: open 4 physician Q12 <|end|>.
const replyTokens = 5

func TestWorld(t *testing.T) {
	t.Parallel()
	curriculumtest.Run(t, World(), curriculumtest.OneReward())
}

func TestWorldsAreWellFormed(t *testing.T) {
	t.Parallel()
	hops := map[int]int{}
	for seed := range uint64(300) {
		w := newWorld(seed, minHops, maxHops)
		kindOf := map[entityID]kind{}
		for id := range entityID(entities) {
			r := relations[slices.IndexFunc(relations, func(r relation) bool { return r.name == w.facts[id][0].relation })]
			kindOf[id] = r.from
		}
		var count [kinds]int
		for id := range entityID(entities) {
			count[kindOf[id]]++
			var keys []string
			for _, f := range w.facts[id] {
				r := relations[slices.IndexFunc(relations, func(r relation) bool { return r.name == f.relation })]
				if r.from != kindOf[id] || r.to != kindOf[f.target] || f.target == id {
					t.Fatalf("seed %d: %s of kind %d has fact %v to kind %d", seed, id.handle(), kindOf[id], f, kindOf[f.target])
				}
				if f.relation == "spouse" {
					if back, err := w.follow(f.target, []string{"spouse"}); err != nil || back != id {
						t.Fatalf("seed %d: the spouse of %s's spouse is %s, %v", seed, id.handle(), back.handle(), err)
					}
				}
				keys = append(keys, f.relation)
			}
			if len(keys) != len(distinct(slices.Clone(keys))) {
				t.Fatalf("seed %d: %s has a relation twice: %v", seed, id.handle(), keys)
			}
		}
		if count != [kinds]int{persons, companies, cities} {
			t.Fatalf("seed %d: %v entities a kind", seed, count)
		}
		for name, listing := range w.listings {
			jobs := map[string]bool{}
			for _, c := range listing {
				jobs[c.occupation] = true
			}
			if len(listing) != bearers || len(jobs) != bearers {
				t.Fatalf("seed %d: %s is borne by %v", seed, name, listing)
			}
		}
		q := w.question
		hops[len(q.hops)]++
		ends := 0
		for _, c := range w.listings[q.name] {
			end, err := w.follow(c.id, q.hops)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if end == q.answer {
				ends++
				if c.occupation != q.occupation || c.id != q.bearer {
					t.Fatalf("seed %d: the answer is that of the %s, asked for is the %s", seed, c.occupation, q.occupation)
				}
			}
		}
		if ends != 1 {
			t.Fatalf("seed %d: %d bearers lead to the answer", seed, ends)
		}
	}
	for n := minHops; n <= maxHops; n++ {
		if hops[n] < 30 {
			t.Errorf("%d of 300 questions have %d hops", hops[n], n)
		}
	}
	if len(hops) != maxHops-minHops+1 {
		t.Errorf("lengths of chains: %v", hops)
	}
}

func TestPagesAreOfTheirLengthAndTheirKeysUnique(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(seed, minHops, maxHops)
		for id := range entityID(entities) {
			text := w.pageText(id, full.minPage, full.maxPage)
			if text != w.pageText(id, full.minPage, full.maxPage) {
				t.Fatalf("seed %d: the page of %s is not the same twice", seed, id.handle())
			}
			words := strings.Fields(text)
			if len(words) < 60 || len(words) > 100 {
				t.Fatalf("seed %d: page of %d words: %s", seed, len(words), text)
			}
			if prefix := "page of " + id.handle() + " : "; !strings.HasPrefix(text, prefix) {
				t.Fatalf("seed %d: page does not begin with %q: %s", seed, prefix, text)
			}
			// Beside the header and the facts there is filler only.
			facts := 0
			for i := 4; i < len(words); i++ {
				if isKey(words[i]) {
					if i+1 == len(words) || !slices.Contains(w.facts[id], fact{words[i], w.byHandle[words[i+1]]}) {
						t.Fatalf("seed %d: key %q is no fact of %s: %s", seed, words[i], id.handle(), text)
					}
					facts++
					i++
				} else if !slices.Contains(filler.Words(), words[i]) {
					t.Fatalf("seed %d: %q is neither filler nor a fact: %s", seed, words[i], text)
				}
			}
			if facts != len(w.facts[id]) {
				t.Fatalf("seed %d: %d facts on the page of %s, want %d: %s", seed, facts, id.handle(), len(w.facts[id]), text)
			}
		}
	}
}

// Every key follows its label in the task, and no other word of a message would be
// mistaken for one: one look-up is enough.
func TestLabelsAndKeysAreUnambiguous(t *testing.T) {
	t.Parallel()
	for _, word := range filler.Words() {
		if isKey(word) || strings.ContainsAny(word, "0123456789Q") {
			t.Errorf("filler word %q may be taken for a key, a label or a handle", word)
		}
	}
	for seed := range uint64(100) {
		q := newWorld(seed, minHops, maxHops).question
		words := strings.Fields(q.taskText())
		keys := append([]string{q.occupation}, q.hops...)
		for i, key := range keys {
			label := fmt.Sprint(len(keys) - i)
			at := slices.Index(words, label)
			if at < 0 || words[at+1] != key || slices.Contains(words[at+1:], label) {
				t.Fatalf("seed %d: label %s, key %s: %s", seed, label, key, q.taskText())
			}
		}
	}
}

func TestTrajectoryReads(t *testing.T) {
	t.Parallel()
	curriculumtest.Golden(t, World(), 4, *update)
}

func TestErrorsAreAnsweredAndEndTheTrajectory(t *testing.T) {
	t.Parallel()
	step := func(verb, arguments string) chat.Message {
		return chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: verb, Arguments: arguments}}}
	}
	for _, c := range []struct {
		action chat.Message
		want   string
	}{
		{chat.Message{Role: chat.Assistant, Content: "find"}, "error call one tool ."},
		{chat.Message{Role: chat.Assistant}, "error call one tool ."},
		{step("close", `{}`), "error unknown tool ."},
		{step("search", `{"name":"Ada Q1"}`), "error unknown name ."},
		{step("open", `{"step":4,"key":"mayor","entity":"mayor"}`), "error unknown entity ."},
		{step("answer", `{"step":4,"key":"mayor","entity":"Q301"}`), "error unknown entity ."},
		{step("answer", `{}`), "error unknown entity ."},
		{step("open", `{"step":"four","key":"mayor","entity":"Q1"}`), "error arguments ."},
	} {
		e := World().Tasks.New(0)
		if _, err := e.Reset(context.Background(), env.Task{Seed: 1}); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= maxErrors; i++ {
			o, err := e.Step(context.Background(), c.action)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Messages[0].Content; got != c.want {
				t.Errorf("%+v answered by %q, want %q", c.action, got, c.want)
			}
			if o.Done != (i == maxErrors) || o.Reward != 0 || o.Success {
				t.Errorf("error %d of %+v: done %v, reward %v", i, c.action, o.Done, o.Reward)
			}
		}
	}
}

func TestAnythingMayBeOpenedUntilTheCallsAreUsedUp(t *testing.T) {
	t.Parallel()
	e := World().Tasks.New(0).(*environment)
	if _, err := e.Reset(context.Background(), env.Task{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	limit := len(e.world.question.hops) + spareCalls
	for i := 1; i <= limit; i++ {
		o, err := e.Step(context.Background(), stepCall(7, line{"mayor", "Q12"}))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(o.Messages[0].Content, "page of Q12 :") {
			t.Fatalf("open answered by %q", o.Messages[0].Content)
		}
		if o.Done != (i == limit) || o.Reward != 0 {
			t.Errorf("call %d of %d: done %v, reward %v", i, limit, o.Done, o.Reward)
		}
	}
}

func TestWrongAnswerEndsWithoutReward(t *testing.T) {
	t.Parallel()
	e := World().Tasks.New(0).(*environment)
	if _, err := e.Reset(context.Background(), env.Task{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	wrong := (e.world.question.answer + 1) % entities
	o, err := e.Step(context.Background(), stepCall(1, line{"mayor", wrong.handle()}))
	if err != nil {
		t.Fatal(err)
	}
	if !o.Done || o.Reward != 0 || o.Success || o.Messages[0].Content != "wrong ." {
		t.Errorf("a wrong answer is observed as %+v", o)
	}
}

// The demonstrator takes each bearer equally often and errs at one hop in four, so
// that it succeeds at about 1/3 · (3/4)ⁿ of the tasks of n hops.
func TestDemonstratorErrsAsOftenAsItShould(t *testing.T) {
	t.Parallel()
	const tasks = 2000
	world := World()
	success, expected := 0, 0.0
	rightBearer, hops, rightHops := 0, 0, 0
	for i := range tasks {
		task := world.Tasks.Task(env.Clone, i)
		played, err := curriculumtest.Play(world, task, world.Demonstrator(uint64(i)), curriculumtest.LastRound)
		if err != nil {
			t.Fatal(err)
		}
		if played.Success {
			success++
		}
		q := newWorld(task.Seed, minHops, maxHops).question
		p := 1.0 / bearers
		for range q.hops {
			p *= 1 - errorRate
		}
		expected += p
		// Per decision, from the log alone: system, task, then call and result in turn.
		for k := 4; k < len(played.Log); k += 2 {
			var step stepArguments
			if err := toolcall.Arguments(played.Log[k].ToolCalls[0], &step); err != nil {
				t.Fatal(err)
			}
			s, err := read(played.Log[:k])
			if err != nil {
				t.Fatal(err)
			}
			if step.Step != s.label {
				t.Fatalf("task %d: step %d is called %d", i, s.label, step.Step)
			}
			if !slices.Contains(s.lines, line{step.Key, step.Entity}) {
				t.Fatalf("task %d: %s %s does not stand in %q", i, step.Key, step.Entity, played.Log[k-1].Content)
			}
			right := s.right()
			switch {
			case s.choosesBearer():
				if s.lines[right].key == step.Key {
					rightBearer++
				}
			case right >= 0:
				hops++
				if s.lines[right].key == step.Key {
					rightHops++
				}
			}
		}
	}
	t.Logf("demonstrator: success %.3f (1/3·(3/4)ⁿ: %.3f), right bearer %.3f, right at a hop that can be right %.3f",
		float64(success)/tasks, expected/tasks, float64(rightBearer)/tasks, float64(rightHops)/float64(hops))
	if got := float64(success) / tasks; got < expected/tasks-0.02 || got > expected/tasks+0.03 {
		t.Errorf("success %.3f, want about %.3f", got, expected/tasks)
	}
	if got := float64(rightBearer) / tasks; got < 0.30 || got > 0.37 {
		t.Errorf("right bearer %.3f, want about 1/3", got)
	}
	if got := float64(rightHops) / float64(hops); got < 0.73 || got > 0.77 {
		t.Errorf("right hops %.3f, want about 3/4", got)
	}
}

// The window holds the task, any one page and a reply; the expert needs no more.
func TestExpertUnderCondensing(t *testing.T) {
	t.Parallel()
	world := World()
	for _, high := range []int{140, 160, 176, 192, 216} {
		segments, tokens, worst := map[int]int{}, 0, 0
		const tasks = 200
		for i, played := range rollouttest.PlayExpert(t, world, condense.DefaultFor(condense.ToolFIFO, high), replyTokens, tasks) {
			if !played.Success {
				t.Fatalf("window %d, task %d: no success: %s %s", high, i, played.Status, played.Error)
			}
			segments[len(played.Segments)]++
			for k := range played.Entries {
				tokens += len(played.Entries[k].IDs)
			}
			head := len(played.IDs(0)) + len(played.IDs(1))
			for k := 2; k+2 < played.Len(); k += 2 {
				worst = max(worst, head+len(played.IDs(k))+len(played.IDs(k+1))+1+replyTokens)
			}
		}
		mean := 0.0
		for n, count := range segments {
			mean += float64(n*count) / tasks
		}
		t.Logf("window %d (%.2f of the mean trajectory of %.0f tokens): %.2f segments %v; system+task+round+reply at most %d",
			high, float64(high)*tasks/float64(tokens), float64(tokens)/tasks, mean, segments, worst)
		if mean < 3 {
			t.Errorf("window %d: %.2f segments a trajectory, want at least 3", high, mean)
		}
	}
}

func FuzzStep(f *testing.F) {
	f.Add("search", `{"name":"Ada Byron"}`, uint64(1))
	f.Add("open", `{"step":4,"key":"mayor","entity":"Q12"}`, uint64(2))
	f.Add("answer", `{"step":1,"key":"mayor","entity":"Q300"}`, uint64(3))
	f.Add("", ``, uint64(4))
	world := World()
	f.Fuzz(func(t *testing.T, name, arguments string, seed uint64) {
		e := world.Tasks.New(0)
		o, err := e.Reset(context.Background(), env.Task{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		action := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: name, Arguments: arguments}}}
		for steps := 0; !o.Done; steps++ {
			if steps == maxHops+spareCalls {
				t.Fatal("no end")
			}
			if o, err = e.Step(context.Background(), action); err != nil {
				t.Fatal(err)
			}
			curriculumtest.Tokens(t, world.Renderer, o.Messages...)
		}
	})
}

func TestDrillsAreShortAndDense(t *testing.T) {
	t.Parallel()
	world := World()
	for level := range world.Levels() {
		const n = 500
		tokens, learnt, longest := 0, 0, 0
		for seed := range uint64(n) {
			ids, mask := world.Drill(level, seed)
			tokens += len(ids)
			longest = max(longest, len(ids))
			for _, m := range mask {
				if m {
					learnt++
				}
			}
		}
		t.Logf("level %d: %d tokens, at most %d, %d to be learnt", level, tokens/n, longest, learnt/n)
		if longest > 280 || learnt*10 < tokens {
			t.Errorf("level %d: at most %d tokens, %d of %d to be learnt; want at most 280 and a tenth", level, longest, learnt, tokens)
		}
	}
}

// Wherever a drill chooses a bearer, the choice is independent of the question.
func TestDrillsDoNotTellTheBearer(t *testing.T) {
	t.Parallel()
	world := World()
	for _, level := range []int{countdowns, shortChains} {
		const n = 1500
		right := 0
		for seed := range uint64(n) {
			ids, _ := world.Drill(level, seed)
			log, err := world.Renderer.DecodeMessages(ids)
			if err != nil {
				t.Fatal(err)
			}
			s, err := read(log[:4])
			if err != nil {
				t.Fatal(err)
			}
			var first stepArguments
			if err := toolcall.Arguments(log[4].ToolCalls[0], &first); err != nil {
				t.Fatal(err)
			}
			if s.lines[s.right()].key == first.Key {
				right++
			}
		}
		if got := float64(right) / n; got < 0.29 || got > 0.38 {
			t.Errorf("level %d: the right bearer is chosen in %.3f of the drills, want about 1/3", level, got)
		}
	}
}

func TestLookupDrillsReadTheirPage(t *testing.T) {
	t.Parallel()
	world := World()
	for _, level := range []int{lookups, fullLookups} {
		for seed := range uint64(100) {
			ids, mask := world.Drill(level, seed)
			log, err := world.Renderer.DecodeMessages(ids)
			if err != nil {
				t.Fatal(err)
			}
			lines := readLines(log[0].Content)
			if len(log) != 1+drillQueries || len(lines) != drillRelations+drillOccupations {
				t.Fatalf("level %d: %d messages, %d lines", level, len(log), len(lines))
			}
			for _, m := range log[1:] {
				var step stepArguments
				if err := toolcall.Arguments(m.ToolCalls[0], &step); err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(lines, line{step.Key, step.Entity}) {
					t.Fatalf("level %d: %+v does not stand on %q", level, step, log[0].Content)
				}
			}
			for i := range ids {
				if entity := strings.HasPrefix(world.Renderer.Spell(ids[i:i+1]), "Q"); mask[i] && !entity && world.Renderer.Spell(ids[i:i+1]) != "<|end|>" {
					t.Fatalf("level %d: %q is to be learnt", level, world.Renderer.Spell(ids[i:i+1]))
				}
			}
		}
	}
}

func BenchmarkReset(b *testing.B) {
	e := World().Tasks.New(0)
	for i := range b.N {
		if _, err := e.Reset(context.Background(), env.Task{Seed: uint64(i)}); err != nil {
			b.Fatal(err)
		}
	}
}
