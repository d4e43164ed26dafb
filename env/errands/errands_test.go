package errands

import (
	"context"
	"flag"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/curriculum/curriculumtest"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/rollout/rollouttest"
	"github.com/infinirl/infinirl/trajectory"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// both are the worlds by name.
var both = map[string]func() curriculum.World{"errands": World, "errands-luck": WithLuck}

func TestWorlds(t *testing.T) {
	t.Parallel()
	for name, of := range both {
		world := of()
		coins := world.Tasks.New(0).(*environment).coins
		luck := func(task env.Task) float64 { return float64(coins*len(newDoors(task.Seed, full))) / 6 }
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			curriculumtest.Run(t, world, curriculumtest.Returns{
				Idle:   luck,
				Expert: func(task env.Task) float64 { return luck(task) + float64(len(newDoors(task.Seed, full))) },
			})
		})
	}
}

func TestDoorsAreWellFormed(t *testing.T) {
	t.Parallel()
	place := map[int]int{} // of the sign's key among the keys
	rows := map[int]int{}  // by number of doors
	all := 0
	for seed := range uint64(500) {
		doors := newDoors(seed, full)
		rows[len(doors)]++
		for i, d := range doors {
			if d.number != len(doors)-i {
				t.Fatalf("seed %d: door %d of %d has number %d", seed, i, len(doors), d.number)
			}
			sorted := slices.Sorted(slices.Values(d.keys))
			if len(slices.Compact(sorted)) != keys || !slices.Contains(d.keys, d.sign) {
				t.Fatalf("seed %d, door %d: sign %s, keys %v", seed, d.number, d.sign, d.keys)
			}
			place[slices.Index(d.keys, d.sign)]++
			all++
		}
	}
	for i := range keys {
		if share := float64(place[i]) / float64(all); share < 0.24 || share > 0.26 {
			t.Errorf("the right key hangs at place %d at %.3f of the doors, want 1/4", i, share)
		}
	}
	if len(rows) != maxDoors-minDoors+1 || rows[minDoors] < 30 || rows[maxDoors] < 30 {
		t.Errorf("doors: %v", rows)
	}
}

func TestTrajectoryReads(t *testing.T) {
	t.Parallel()
	curriculumtest.Golden(t, WithLuck(), 0, *update)
}

// steps resets an environment to a task and plays an action at every door, chosen by
// its index. It returns what was observed after the look.
func steps(t *testing.T, e env.Environment, seed uint64, act func(i int, d door) chat.Message) []env.Observation {
	t.Helper()
	ctx := context.Background()
	if _, err := e.Reset(ctx, env.Task{Seed: seed}); err != nil {
		t.Fatal(err)
	}
	o, err := e.Step(ctx, lookCall())
	if err != nil {
		t.Fatal(err)
	}
	if o.Reward != 0 || o.Metrics != nil {
		t.Errorf("looking is rewarded with %v and counted as %v", o.Reward, o.Metrics)
	}
	var all []env.Observation
	for i, d := range newDoors(seed, full) {
		if o.Done {
			t.Fatalf("seed %d: the trajectory ends before door %d", seed, d.number)
		}
		if o, err = e.Step(ctx, act(i, d)); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	if !o.Done {
		t.Fatalf("seed %d: no end after the last door", seed)
	}
	return all
}

// wrongKey returns a key that hangs at a door and does not fit.
func wrongKey(d door) string {
	return d.keys[slices.IndexFunc(d.keys, func(k string) bool { return k != d.sign })]
}

// A key pays two doors later and nowhere else; at the last door the rest is paid.
func TestKeysPayTwoDoorsLater(t *testing.T) {
	t.Parallel()
	const seed = 1
	n := len(newDoors(seed, full))
	for right := range n { // only this one fits
		all := steps(t, World().Tasks.New(0), seed, func(i int, d door) chat.Message {
			if i == right {
				return takeCall(d.sign)
			}
			return takeCall(wrongKey(d))
		})
		for i, o := range all {
			want := 0.0
			if i == min(right+2, n-1) {
				want = 1
			}
			if o.Reward != want {
				t.Errorf("key %d of %d: door %d pays %v, want %v", right, n, i, o.Reward, want)
			}
		}
	}
}

// What is no call of take with the fitting key is a door that pays nothing, and no more.
func TestEveryActionGoesOn(t *testing.T) {
	t.Parallel()
	const seed = 1
	other := func(d door) string {
		return colours[slices.IndexFunc(colours, func(c string) bool { return !slices.Contains(d.keys, c) })]
	}
	for name, act := range map[string]func(i int, d door) chat.Message{
		"text":         func(int, door) chat.Message { return chat.Message{Role: chat.Assistant, Content: "take"} },
		"look":         func(int, door) chat.Message { return lookCall() },
		"wrong key":    func(_ int, d door) chat.Message { return takeCall(wrongKey(d)) },
		"no such key":  func(_ int, d door) chat.Message { return takeCall(other(d)) },
		"no key":       func(int, door) chat.Message { return takeCall("") },
		"unknown tool": func(_ int, d door) chat.Message { return toolcall.New("open", takeArguments{d.sign}) },
		"no arguments": func(int, door) chat.Message { return toolcall.New("take", noArguments{}) },
		"two calls": func(_ int, d door) chat.Message {
			m := takeCall(d.sign)
			m.ToolCalls = append(m.ToolCalls, m.ToolCalls[0])
			return m
		},
	} {
		for i, o := range steps(t, World().Tasks.New(0), seed, act) {
			if o.Reward != 0 || o.Success || o.Metrics[MetricRightKeys] != 0 {
				t.Errorf("%s: door %d: %+v", name, i, o)
			}
		}
	}
}

// A task is done with nine keys of ten, and the share of right keys is stated.
func TestSuccessIsNineOfTen(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		n := len(newDoors(seed, full))
		need := int(math.Ceil(0.9 * float64(n)))
		for _, right := range []int{0, need - 1, need, n} {
			all := steps(t, World().Tasks.New(0), seed, func(i int, d door) chat.Message {
				if i < right {
					return takeCall(d.sign)
				}
				return takeCall(wrongKey(d))
			})
			last, total := all[n-1], 0.0
			for i, o := range all {
				total += o.Reward
				if want := float64(min(i+1, right)) / float64(i+1); o.Metrics[MetricRightKeys] != want {
					t.Errorf("%d of %d keys right: %v after door %d, want %v", right, n, o.Metrics, i, want)
				}
			}
			if last.Success != (right >= need) || total != float64(right) {
				t.Errorf("%d of %d keys right: success %v, return %v", right, n, last.Success, total)
			}
		}
	}
}

// Coins are drawn for each trajectory, are the same at every door of it, stand there, and
// are paid whichever key is taken.
func TestCoins(t *testing.T) {
	t.Parallel()
	const seed, trajectories = 1, 900
	drawn, mean, variance := map[int]int{}, 0.0, 0.0
	for k := range uint64(trajectories) {
		coins := WithLuck().Tasks.New(k).(*environment).coins
		drawn[coins]++
		mean += float64(coins) / 6 / trajectories
		variance += float64(coins*coins) / 36 / trajectories
		if again := WithLuck().Tasks.New(k).(*environment).coins; again != coins {
			t.Errorf("seed %d draws %d coins and then %d", k, coins, again)
		}
		if coins := World().Tasks.New(k).(*environment).coins; coins != 0 {
			t.Errorf("seed %d: %d coins without luck", k, coins)
		}
	}
	for coins := -maxCoins; coins <= maxCoins; coins++ {
		if drawn[coins] < 60 || drawn[coins] > 140 {
			t.Errorf("%d coins in %d of %d trajectories, want about 1/9", coins, drawn[coins], trajectories)
		}
	}
	if math.Abs(mean) > 0.05 || math.Abs(math.Sqrt(variance)-0.43) > 0.03 {
		t.Errorf("a door's coins are worth %.3f ± %.3f, want 0 ± 0.43 as a key taken at random", mean, math.Sqrt(variance))
	}
	for k := range uint64(40) {
		e := WithLuck().Tasks.New(k)
		coins := e.(*environment).coins
		for _, take := range []func(i int, d door) chat.Message{
			func(_ int, d door) chat.Message { return takeCall(d.sign) },
			func(_ int, d door) chat.Message { return takeCall(wrongKey(d)) },
			func(int, door) chat.Message { return chat.Message{Role: chat.Assistant} },
		} {
			plain := steps(t, World().Tasks.New(k), seed, take)
			for i, o := range steps(t, e, seed, take) {
				if got := o.Reward - plain[i].Reward; math.Abs(got-float64(coins)/6) > 1e-9 {
					t.Errorf("%d coins: door %d pays %v more than without luck", coins, i, got)
				}
				word := " coins " + coinWord(coins) + " ."
				if !o.Done && o.Messages[0].Content != strings.Replace(plain[i].Messages[0].Content, " coins 0 .", word, 1) {
					t.Errorf("%d coins: door %d reads %q, without luck %q", coins, i, o.Messages[0].Content, plain[i].Messages[0].Content)
				}
			}
		}
	}
}

// One base model does for both worlds: they have the same words and drills.
func TestWorldsShareTheirModel(t *testing.T) {
	t.Parallel()
	plain, luck := World(), WithLuck()
	if plain.VocabularySize != luck.VocabularySize {
		t.Fatalf("vocabularies of %d and %d", plain.VocabularySize, luck.VocabularySize)
	}
	all := make([]int32, plain.VocabularySize)
	for id := range all {
		all[id] = int32(id)
	}
	if plain.Renderer.Spell(all) != luck.Renderer.Spell(all) {
		t.Error("the vocabularies differ")
	}
	for level := range plain.Levels() {
		ids, _ := plain.Drill(level, 1)
		others, _ := luck.Drill(level, 1)
		if !slices.Equal(ids, others) {
			t.Errorf("level %d: the drills differ", level)
		}
	}
}

func TestDemonstratorTakesAnyKey(t *testing.T) {
	t.Parallel()
	const tasks = 200
	world := World()
	right, doors := 0.0, 0.0
	for i := range tasks {
		played, err := curriculumtest.Play(world, world.Tasks.Task(env.Clone, i), world.Demonstrator(uint64(i)), curriculumtest.LastRound)
		if err != nil {
			t.Fatal(err)
		}
		right += played.Return
		doors += float64(played.Calls - 1)
	}
	t.Logf("demonstrator: %.3f of %.0f keys right", right/doors, doors)
	if got := right / doors; got < 0.23 || got > 0.27 {
		t.Errorf("%.3f of the keys right, want about 1/4", got)
	}
}

func TestDrillsDoNotTellTheKey(t *testing.T) {
	t.Parallel()
	world := World()
	for level := range world.Levels() {
		right, taken, coins := 0, 0, map[string]bool{}
		for seed := range uint64(1000) {
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
				seen := strings.Fields(log[i-1].Content)
				if seen[6] == take.Key {
					right++
				}
				if !slices.Contains(seen[10:10+keys], take.Key) {
					t.Fatalf("level %d, seed %d: %s is taken at %q", level, seed, take.Key, log[i-1].Content)
				}
				coins[seen[16]] = true
				taken++
			}
		}
		if got := float64(right) / float64(taken); got < 0.23 || got > 0.27 {
			t.Errorf("level %d: the right key is taken in %.3f of the drills, want about 1/4", level, got)
		}
		if len(coins) != 2*maxCoins+1 {
			t.Errorf("level %d: coins %v, want all there are", level, coins)
		}
	}
}

// In the shipped window the expert succeeds over 22 segments on average, and nearly
// every key pays when the window in which it was taken has been cut, though not often.
func TestExpertUnderCondensing(t *testing.T) {
	t.Parallel()
	for name, of := range both {
		world := of()
		shipped := condense.DefaultFor(condense.ToolFIFO, 80)
		shipped.Low = 56
		const tasks = 200
		segments, most, tokens, paid, past, furthest := 0, 0, 0, 0, 0, 0
		for i, played := range rollouttest.PlayExpert(t, world, shipped, 8, tasks) {
			if !played.Success {
				t.Fatalf("%s: task %d: no success: %s %s", name, i, played.Status, played.Error)
			}
			segments += len(played.Segments)
			most = max(most, len(played.Segments))
			for k := range played.Entries {
				tokens += len(played.Entries[k].IDs)
			}
			takes := segmentsOfReplies(played)[1:] // after the look
			for k, s := range takes {
				crossed := takes[min(k+delay, len(takes)-1)] - s
				paid++
				furthest = max(furthest, crossed)
				if crossed > 0 {
					past++
				}
			}
		}
		mean := float64(segments) / tasks
		t.Logf("%s: %.2f segments (at most %d) and %.0f tokens a trajectory, window 80; %.3f of the keys pay past a cut, %d cuts later at most",
			name, mean, most, float64(tokens)/tasks, float64(past)/float64(paid), furthest)
		if mean < 20 || mean > 24 {
			t.Errorf("%s: %.2f segments, want about 22", name, mean)
		}
		if share := float64(past) / float64(paid); share < 0.9 || furthest > 2 {
			t.Errorf("%s: %.3f of the keys pay past a cut, %d later at most: want nearly all, and 1 or 2", name, share, furthest)
		}
	}
}

// segmentsOfReplies returns the segment of each reply.
func segmentsOfReplies(t *trajectory.Trajectory) (of []int) {
	for k, s := range t.Segments {
		for i := s.Start; i < s.End; i++ {
			if t.Entries[i].Sampled() {
				of = append(of, k)
			}
		}
	}
	return of
}

func FuzzStep(f *testing.F) {
	f.Add("look", `{}`, uint64(1))
	f.Add("take", `{"key":"amber"}`, uint64(2))
	f.Add("", ``, uint64(4))
	world := WithLuck()
	f.Fuzz(func(t *testing.T, name, arguments string, seed uint64) {
		e := world.Tasks.New(seed)
		o, err := e.Reset(context.Background(), env.Task{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		action := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: name, Arguments: arguments}}}
		calls := 0
		for ; !o.Done; calls++ {
			if o, err = e.Step(context.Background(), action); err != nil {
				t.Fatal(err)
			}
			curriculumtest.Tokens(t, world.Renderer, o.Messages...)
		}
		if want := len(newDoors(seed, full)) + 1; calls != want {
			t.Errorf("%d calls, want %d", calls, want)
		}
	})
}
