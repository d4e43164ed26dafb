package keytodoor

import (
	"context"
	"flag"
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

// replyTokens is the longest valid reply: take amber <|end|>.
const replyTokens = 3

var update = flag.Bool("update", false, "rewrite the golden files")

func TestWorld(t *testing.T) {
	t.Parallel()
	curriculumtest.Run(t, World(), curriculumtest.OneReward())
}

func TestWorldsAreWellFormed(t *testing.T) {
	t.Parallel()
	place := map[int]int{} // of the sign's key among the keys
	rooms := map[int]int{}
	for seed := range uint64(2000) {
		w := newWorld(seed, full)
		sorted := slices.Sorted(slices.Values(w.keys))
		if len(slices.Compact(sorted)) != keys || !slices.Contains(w.keys, w.sign) {
			t.Fatalf("seed %d: sign %s, keys %v", seed, w.sign, w.keys)
		}
		place[slices.Index(w.keys, w.sign)]++
		rooms[w.rooms]++
		for room := range w.rooms + 1 {
			view := strings.Fields(w.viewText(room, full))
			if len(view) < full.minView || len(view) > full.maxView {
				t.Fatalf("seed %d: room %d shows %d words", seed, room, len(view))
			}
			for _, word := range view {
				if !slices.Contains(filler.Words(), word) {
					t.Fatalf("seed %d: room %d shows %q, which is no filler", seed, room, word)
				}
			}
		}
	}
	for i := range keys {
		if place[i] < 400 {
			t.Errorf("the right key hangs at place %d in %d of 2000 tasks", i, place[i])
		}
	}
	if len(rooms) != maxRooms-minRooms+1 || rooms[minRooms] < 400 || rooms[maxRooms] < 400 {
		t.Errorf("rooms: %v", rooms)
	}
}

func TestTaskAndCorridorTellNothingOfTheSign(t *testing.T) {
	t.Parallel()
	for _, word := range filler.Words() {
		if slices.Contains(colours, word) {
			t.Errorf("filler word %q is a colour", word)
		}
	}
	for seed := range uint64(100) {
		for _, word := range strings.Fields(newWorld(seed, full).taskText()) {
			if slices.Contains(colours, word) {
				t.Errorf("seed %d: the task names the colour %s", seed, word)
			}
		}
	}
}

func TestTrajectoryReads(t *testing.T) {
	t.Parallel()
	curriculumtest.Golden(t, World(), 0, *update)
}

// A call out of turn is an error observation; three end the trajectory.
func TestCallsOutOfTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(1, full)
	other := colours[slices.IndexFunc(colours, func(c string) bool { return !slices.Contains(w.keys, c) })]
	key := w.keys[0]
	for name, c := range map[string]struct {
		before []chat.Message
		action chat.Message
		want   string
	}{
		"walk without a key": {nil, walkCall(w.rooms), "error not here ."},
		"open without a key": {nil, openCall(), "error not here ."},
		"no such key":        {nil, takeCall(other), "error no such key ."},
		"look again inside":  {[]chat.Message{takeCall(key)}, lookCall(), "error not here ."},
		"second key":         {[]chat.Message{takeCall(key)}, takeCall(w.keys[1]), "error not here ."},
		"open too early":     {[]chat.Message{takeCall(key)}, openCall(), "error not here ."},
		"skipped room":       {[]chat.Message{takeCall(key)}, walkCall(w.rooms - 1), "error no such room ."},
		"same room again":    {[]chat.Message{takeCall(key), walkCall(w.rooms)}, walkCall(w.rooms), "error no such room ."},
		"text":               {nil, chat.Message{Role: chat.Assistant, Content: "walk"}, "error call one tool ."},
	} {
		e := World().Tasks.New(0)
		if _, err := e.Reset(context.Background(), env.Task{Seed: 1}); err != nil {
			t.Fatal(err)
		}
		for _, m := range c.before {
			o, err := e.Step(context.Background(), m)
			if err != nil || o.Done || strings.HasPrefix(o.Messages[0].Content, "error") {
				t.Fatalf("%s: %+v, %v", name, o, err)
			}
		}
		for i := 1; i <= maxErrors; i++ {
			o, err := e.Step(context.Background(), c.action)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Messages[0].Content; got != c.want {
				t.Errorf("%s: answered by %q, want %q", name, got, c.want)
			}
			if o.Done != (i == maxErrors) || o.Reward != 0 || o.Success {
				t.Errorf("%s: error %d: done %v, reward %v", name, i, o.Done, o.Reward)
			}
		}
	}
}

func TestLookingEndsWhenTheCallsAreUsedUp(t *testing.T) {
	t.Parallel()
	e := World().Tasks.New(0)
	if _, err := e.Reset(context.Background(), env.Task{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	limit := newWorld(1, full).rooms + spareCalls
	for i := 1; i <= limit; i++ {
		o, err := e.Step(context.Background(), lookCall())
		if err != nil {
			t.Fatal(err)
		}
		if o.Done != (i == limit) || o.Reward != 0 {
			t.Errorf("call %d of %d: done %v, reward %v", i, limit, o.Done, o.Reward)
		}
	}
}

func TestTheRewardDependsOnTheKeyAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(1, full)
	for _, key := range w.keys {
		e := World().Tasks.New(0)
		if _, err := e.Reset(context.Background(), env.Task{Seed: 1}); err != nil {
			t.Fatal(err)
		}
		actions := []chat.Message{takeCall(key)}
		for room := w.rooms; room > 0; room-- {
			actions = append(actions, walkCall(room))
		}
		var o env.Observation
		for _, action := range append(actions, openCall()) {
			if o.Done {
				t.Fatalf("key %s: the trajectory ends before the door", key)
			}
			var err error
			if o, err = e.Step(context.Background(), action); err != nil {
				t.Fatal(err)
			}
		}
		if right := key == w.sign; !o.Done || o.Success != right || (o.Reward == 1) != right {
			t.Errorf("key %s under the sign %s: done %v, reward %v", key, w.sign, o.Done, o.Reward)
		}
	}
}

func TestDemonstratorTakesAnyKey(t *testing.T) {
	t.Parallel()
	const tasks = 2000
	world := World()
	success := 0
	for i := range tasks {
		played, err := curriculumtest.Play(world, world.Tasks.Task(env.Clone, i), world.Demonstrator(uint64(i)), curriculumtest.LastRound)
		if err != nil {
			t.Fatal(err)
		}
		if played.Success {
			success++
		}
	}
	t.Logf("demonstrator: success %.3f", float64(success)/tasks)
	if got := float64(success) / tasks; got < 0.22 || got > 0.28 {
		t.Errorf("success %.3f, want about 1/4", got)
	}
}

func TestDrillsDoNotTellTheKey(t *testing.T) {
	t.Parallel()
	world := World()
	for level := range world.Levels() {
		right, taken := 0, 0
		for seed := range uint64(1500) {
			ids, _ := world.Drill(level, seed)
			log, err := world.Renderer.DecodeMessages(ids)
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range log {
				if len(m.ToolCalls) == 0 || m.ToolCalls[0].Name != "take" {
					continue
				}
				var take takeArguments
				if err := toolcall.Arguments(m.ToolCalls[0], &take); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(log[i-1].Content, "the sign says "+take.Key+" ") {
					right++
				}
				taken++
			}
		}
		if got := float64(right) / float64(taken); got < 0.21 || got > 0.29 {
			t.Errorf("level %d: the right key is taken in %.3f of the drills, want about 1/4", level, got)
		}
	}
}

// The window holds the task, any one room and a reply; the expert needs no more.
func TestExpertUnderCondensing(t *testing.T) {
	t.Parallel()
	world := World()
	for _, high := range []int{56, 64, 72, 80, 88} {
		segments, tokens, shortest, longest, worst := map[int]int{}, 0, 1<<30, 0, 0
		const tasks = 200
		for i, played := range rollouttest.PlayExpert(t, world, condense.DefaultFor(condense.ToolFIFO, high), replyTokens, tasks) {
			if !played.Success {
				t.Fatalf("window %d, task %d: no success: %s %s", high, i, played.Status, played.Error)
			}
			segments[len(played.Segments)]++
			n := 0
			for k := range played.Entries {
				n += len(played.Entries[k].IDs)
			}
			tokens += n
			shortest, longest = min(shortest, n), max(longest, n)
			head := len(played.IDs(0)) + len(played.IDs(1))
			for k := 2; k+2 < played.Len(); k += 2 {
				worst = max(worst, head+len(played.IDs(k))+len(played.IDs(k+1))+1+replyTokens)
			}
		}
		mean, fewest := 0.0, maxRooms
		for n, count := range segments {
			mean += float64(n*count) / tasks
			fewest = min(fewest, n)
		}
		t.Logf("window %d (%.2f of the mean trajectory of %.0f tokens, %d to %d): %.2f segments %v; system+task+round+reply at most %d",
			high, float64(high)*tasks/float64(tokens), float64(tokens)/tasks, shortest, longest, mean, segments, worst)
		if fewest < 3 {
			t.Errorf("window %d: %d segments, want at least 3", high, fewest)
		}
	}
}

func FuzzStep(f *testing.F) {
	f.Add("look", `{}`, uint64(1))
	f.Add("take", `{"key":"amber"}`, uint64(2))
	f.Add("walk", `{"step":9}`, uint64(3))
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
			if steps == maxRooms+spareCalls {
				t.Fatal("no end")
			}
			if o, err = e.Step(context.Background(), action); err != nil {
				t.Fatal(err)
			}
			curriculumtest.Tokens(t, world.Renderer, o.Messages...)
		}
	})
}
