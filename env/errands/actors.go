package errands

import (
	"fmt"
	"math/rand/v2"
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
	result := strings.Fields(window.Result) // door N : the sign says C . keys : C C C C . coins N .
	if len(result) != keys+14 {
		return chat.Message{}, fmt.Errorf("result %q: want a sign and %d keys", window.Result, keys)
	}
	return takeCall(choose(result[6], result[10:10+keys])), nil
}

func lookCall() chat.Message           { return toolcall.New("look", noArguments{}) }
func takeCall(key string) chat.Message { return toolcall.New("take", takeArguments{key}) }

// expert takes the key of the sign.
type expert struct{}

var _ curriculum.Actor = expert{}

func (expert) Act(window []chat.Message) (chat.Message, error) {
	m, err := act(window, func(sign string, _ []string) string { return sign })
	if err != nil {
		return chat.Message{}, fmt.Errorf("errands: expert: %w", err)
	}
	return m, nil
}

// demonstrator takes any of the keys.
type demonstrator struct{ rng *rand.Rand }

func newDemonstrator(seed uint64) *demonstrator {
	return &demonstrator{rand.New(rand.NewPCG(seed, 0))}
}

var _ curriculum.Actor = (*demonstrator)(nil)

func (d *demonstrator) Act(window []chat.Message) (chat.Message, error) {
	m, err := act(window, func(_ string, keys []string) string { return keys[d.rng.IntN(len(keys))] })
	if err != nil {
		return chat.Message{}, fmt.Errorf("errands: demonstrator: %w", err)
	}
	return m, nil
}
