package keytodoor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/filler"
	"github.com/infinirl/infinirl/env/toolcall"
)

const (
	systemText = "use look , take , walk and open ."

	keys               = 4
	minRooms, maxRooms = 6, 9

	// maxErrors is the error observation that ends the trajectory.
	maxErrors = 3
	// spareCalls is how many calls a trajectory may make beyond one a room. An
	// undisturbed one makes three more: look, take and open.
	spareCalls = 8
)

// scale bounds the length of the corridor and of what is seen in it.
type scale struct {
	minRooms, maxRooms int
	minView, maxView   int // words
}

var (
	full  = scale{minRooms: minRooms, maxRooms: maxRooms, minView: 12, maxView: 20}
	short = scale{minRooms: 1, maxRooms: 3, minView: 12, maxView: 20} // for drills
)

// world is what one task holds: the sign, the keys and the number of rooms.
type world struct {
	seed  uint64
	sign  string
	keys  []string
	rooms int
}

func newWorld(seed uint64, s scale) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{seed: seed, rooms: s.minRooms + rng.IntN(s.maxRooms-s.minRooms+1)}
	for _, i := range rng.Perm(len(colours))[:keys] {
		w.keys = append(w.keys, colours[i])
	}
	w.sign = w.keys[rng.IntN(keys)]
	return w
}

// taskText says how many rooms there are and nothing of the sign.
func (w *world) taskText() string { return fmt.Sprintf("walk %d rooms then open the door", w.rooms) }

// signText shows the hint:
//
//	the sign says amber . keys : red amber blue jade .
func (w *world) signText() string {
	return "the sign says " + w.sign + " . keys : " + strings.Join(w.keys, " ") + " ."
}

// viewText is what is seen on entering the corridor, and then in every room: it
// depends on the place alone and tells nothing.
func (w *world) viewText(room int, s scale) string {
	rng := rand.New(rand.NewPCG(w.seed, uint64(1+room)))
	return filler.Text(rng, s.minView+rng.IntN(s.maxView-s.minView+1))
}

// environment plays one trajectory.
type environment struct {
	scale  scale
	world  *world // nil before the first reset
	taken  string // "" until a key is taken
	left   int    // rooms before the door
	calls  int
	errors int
	done   bool
}

// Reset starts the trajectory of a task.
func (e *environment) Reset(ctx context.Context, task env.Task) (env.Observation, error) {
	if err := ctx.Err(); err != nil {
		return env.Observation{}, fmt.Errorf("keytodoor: reset to task %s: %w", task.ID, err)
	}
	w := newWorld(task.Seed, e.scale)
	*e = environment{scale: e.scale, world: w, left: w.rooms}
	return env.Observation{
		Messages: []chat.Message{
			{Role: chat.System, Content: systemText},
			{Role: chat.User, Content: w.taskText()},
		},
		Tools: tools(),
	}, nil
}

// Step answers one action. Whatever is no valid call, or comes out of turn, is
// answered by an error observation.
func (e *environment) Step(ctx context.Context, action chat.Message) (env.Observation, error) {
	if err := ctx.Err(); err != nil {
		return env.Observation{}, fmt.Errorf("keytodoor: step: %w", err)
	}
	if e.world == nil || e.done {
		return env.Observation{}, errors.New("keytodoor: step: no trajectory is running: reset first")
	}
	e.calls++
	var o env.Observation
	if len(action.ToolCalls) == 1 {
		o = e.call(action.ToolCalls[0])
	} else {
		e.errors++
		o.Messages = toolcall.Refuse(action, "error call one tool .")
	}
	if e.errors == maxErrors || e.calls == e.world.rooms+spareCalls {
		o.Done = true
	}
	e.done = o.Done
	return o, nil
}

// Close ends the trajectory. Nothing is held that had to be freed.
func (e *environment) Close() error {
	e.done = true
	return nil
}

// call runs one tool.
func (e *environment) call(call chat.ToolCall) env.Observation {
	show := func(text string) env.Observation {
		return env.Observation{Messages: []chat.Message{toolcall.Result(call, text)}}
	}
	fail := func(text string) env.Observation {
		e.errors++
		return show(text)
	}
	var take takeArguments
	var walk walkArguments
	var err error
	switch call.Name {
	case "look", "open":
		err = toolcall.Arguments(call, &noArguments{})
	case "take":
		err = toolcall.Arguments(call, &take)
	case "walk":
		err = toolcall.Arguments(call, &walk)
	default:
		return fail("error unknown tool .")
	}
	if err != nil {
		return fail("error arguments .")
	}

	outside := e.taken == ""
	switch call.Name {
	case "look":
		if !outside {
			return fail("error not here .")
		}
		return show(e.world.signText())
	case "take":
		if !outside {
			return fail("error not here .")
		}
		if !slices.Contains(e.world.keys, take.Key) {
			return fail("error no such key .")
		}
		e.taken = take.Key
		return show(e.world.viewText(0, e.scale))
	case "walk":
		if outside || e.left == 0 {
			return fail("error not here .")
		}
		if walk.Step != e.left {
			return fail("error no such room .")
		}
		e.left--
		return show(e.world.viewText(walk.Step, e.scale))
	default: // open
		if outside || e.left > 0 {
			return fail("error not here .")
		}
		o := show("wrong .")
		if e.taken == e.world.sign {
			o = show("right .")
			o.Reward, o.Success = 1, true
		}
		o.Done = true
		return o
	}
}
