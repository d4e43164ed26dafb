package errands

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/toolcall"
)

const (
	systemText = "use look and take ."

	keys               = 4
	minDoors, maxDoors = 40, 48

	// delay is how many doors later a key pays.
	delay     = 2
	keyReward = 1.0

	// Coins go from −maxCoins to maxCoins. A door's coins vary as much over trajectories
	// as what its key pays if any is taken: the standard deviation is 0.43 of both.
	maxCoins   = 4
	coinReward = 1.0 / 6

	// A task is done when at least doneKeys of doneOf keys fit.
	doneKeys, doneOf = 9, 10
)

// MetricRightKeys names the share of the doors so far at which the fitting key was taken.
const MetricRightKeys = "right_keys"

// scale bounds the number of doors.
type scale struct{ minDoors, maxDoors int }

var (
	full  = scale{minDoors, maxDoors}
	short = scale{2, 6} // for drills
)

// door is a sign and the keys that hang below it.
type door struct {
	number int // of doors that are left, this one included
	sign   string
	keys   []string
}

// newDoors returns the doors of a task in the order in which they are come to.
func newDoors(seed uint64, s scale) []door {
	rng := rand.New(rand.NewPCG(seed, 0))
	doors := make([]door, s.minDoors+rng.IntN(s.maxDoors-s.minDoors+1))
	for i := range doors {
		doors[i] = newDoor(rng, len(doors)-i)
	}
	return doors
}

func newDoor(rng *rand.Rand, number int) door {
	d := door{number: number}
	for _, i := range rng.Perm(len(colours))[:keys] {
		d.keys = append(d.keys, colours[i])
	}
	d.sign = d.keys[rng.IntN(keys)]
	return d
}

// text is what is seen at the door:
//
//	door 44 : the sign says amber . keys : red amber blue jade . coins +3 .
func (d door) text(coins int) string {
	return fmt.Sprintf("door %d : the sign says %s . keys : %s . coins %s .", d.number, d.sign, strings.Join(d.keys, " "), coinWord(coins))
}

// coinWord writes a number of coins as one word: -4 … -1, 0, +1 … +4.
func coinWord(coins int) string {
	if coins == 0 {
		return "0"
	}
	return fmt.Sprintf("%+d", coins)
}

// environment plays one trajectory.
type environment struct {
	scale  scale
	coins  int    // at every door; lost where negative
	doors  []door // nil before the first reset
	at     int    // index of the door that is stood at; −1 before the first
	right  int    // keys that fitted
	unpaid []bool // whether the last keys fitted, oldest first
	done   bool
}

// Reset starts the trajectory of a task.
func (e *environment) Reset(ctx context.Context, task env.Task) (env.Observation, error) {
	if err := ctx.Err(); err != nil {
		return env.Observation{}, fmt.Errorf("errands: reset to task %s: %w", task.ID, err)
	}
	*e = environment{scale: e.scale, coins: e.coins, doors: newDoors(task.Seed, e.scale), at: -1}
	return env.Observation{
		Messages: []chat.Message{
			{Role: chat.System, Content: systemText},
			{Role: chat.User, Content: fmt.Sprintf("open %d doors", len(e.doors))},
		},
		Tools: tools(),
	}, nil
}

// Step goes on to the next door, whatever the action is: no trajectory ends before the
// last one, so that its length tells nothing.
func (e *environment) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	if err := ctx.Err(); err != nil {
		return env.Observation{}, fmt.Errorf("errands: step: %w", err)
	}
	if e.doors == nil || e.done {
		return env.Observation{}, errors.New("errands: step: no trajectory is running: reset first")
	}
	var o env.Observation
	if e.at >= 0 {
		o = e.leave(taken(action) == e.doors[e.at].sign)
	}
	e.at++
	text := "done ."
	if !o.Done {
		text = e.doors[e.at].text(e.coins)
	}
	o.Messages = toolcall.Refuse(action, text) // every call is answered alike, and none too
	e.done = o.Done
	return o, nil
}

// Close ends the trajectory. Nothing is held that had to be freed.
func (e *environment) Close() error {
	e.done = true
	return nil
}

// leave pays what is due on leaving a door, whose key was right or not.
func (e *environment) leave(right bool) (o env.Observation) {
	if right {
		e.right++
	}
	e.unpaid = append(e.unpaid, right)
	o.Done = e.at == len(e.doors)-1
	o.Reward = float64(e.coins) * coinReward
	for len(e.unpaid) > delay || o.Done && len(e.unpaid) > 0 {
		if e.unpaid[0] {
			o.Reward += keyReward
		}
		e.unpaid = e.unpaid[1:]
	}
	o.Success = o.Done && doneOf*e.right >= doneKeys*len(e.doors)
	o.Metrics = map[string]float64{MetricRightKeys: float64(e.right) / float64(e.at+1)}
	return o
}

// taken returns the key that an action takes, "" if it takes none.
func taken(action chat.Message) string {
	var take takeArguments
	if len(action.ToolCalls) != 1 || action.ToolCalls[0].Name != "take" || toolcall.Arguments(action.ToolCalls[0], &take) != nil {
		return ""
	}
	return take.Key
}
