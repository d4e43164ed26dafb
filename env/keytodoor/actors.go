package keytodoor

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/env/toolcall"
)

// act makes the next call of a window. choose picks a key, given the colour on the
// sign and the keys that hang there.
func act(messages []chat.Message, choose func(sign string, keys []string) string) (chat.Message, error) {
	window, err := toolcall.Read(messages)
	if err != nil {
		return chat.Message{}, err
	}
	if !window.HasCall {
		return lookCall(), nil
	}
	switch window.Call.Name {
	case "look":
		result := strings.Fields(window.Result) // the sign says C . keys : C C C C .
		if len(result) != keys+8 {
			return chat.Message{}, fmt.Errorf("result %q: want a sign and %d keys", window.Result, keys)
		}
		return takeCall(choose(result[3], result[7:7+keys])), nil
	case "take":
		task := strings.Fields(window.Task) // walk N rooms …
		if len(task) < 2 {
			return chat.Message{}, fmt.Errorf("task %q: want a number of rooms", window.Task)
		}
		rooms, err := strconv.Atoi(task[1])
		if err != nil {
			return chat.Message{}, fmt.Errorf("task %q: %w", window.Task, err)
		}
		return walkCall(rooms), nil
	case "walk":
		var last walkArguments
		if err := toolcall.Arguments(window.Call, &last); err != nil {
			return chat.Message{}, err
		}
		if last.Step > 1 {
			return walkCall(last.Step - 1), nil
		}
		return openCall(), nil
	}
	return chat.Message{}, fmt.Errorf("no call follows %s", window.Call.Name)
}

func lookCall() chat.Message           { return toolcall.New("look", noArguments{}) }
func takeCall(key string) chat.Message { return toolcall.New("take", takeArguments{key}) }
func walkCall(step int) chat.Message   { return toolcall.New("walk", walkArguments{step}) }
func openCall() chat.Message           { return toolcall.New("open", noArguments{}) }

// expert takes the key of the sign.
type expert struct{}

var _ curriculum.Actor = expert{}

func (expert) Act(window []chat.Message) (chat.Message, error) {
	m, err := act(window, func(sign string, _ []string) string { return sign })
	if err != nil {
		return chat.Message{}, fmt.Errorf("keytodoor: expert: %w", err)
	}
	return m, nil
}

// demonstrator does everything right but for the key: it takes any.
type demonstrator struct{ rng *rand.Rand }

func newDemonstrator(seed uint64) *demonstrator {
	return &demonstrator{rand.New(rand.NewPCG(seed, 0))}
}

var _ curriculum.Actor = (*demonstrator)(nil)

func (d *demonstrator) Act(window []chat.Message) (chat.Message, error) {
	m, err := act(window, func(_ string, keys []string) string { return keys[d.rng.IntN(len(keys))] })
	if err != nil {
		return chat.Message{}, fmt.Errorf("keytodoor: demonstrator: %w", err)
	}
	return m, nil
}
