package scripted_test

import (
	"testing"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env/keytodoor"
	"github.com/infinirl/infinirl/policy/scripted"
	"github.com/infinirl/infinirl/rollout/rollouttest"
	"github.com/infinirl/infinirl/token"
)

// An expert that sees only the window plays a world in the text of a language model, and
// always succeeds, whatever a condenser drops.
func TestExpertInText(t *testing.T) {
	t.Parallel()
	world := keytodoor.World()
	text, err := chat.NewChatML(token.Bytes{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{condense.None, condense.ToolFIFO} {
		cfg := condense.DefaultFor(rule, 3200)
		if rule == condense.None {
			cfg.High = 1 << 20
		}
		played := rollouttest.PlayExpertIn(t, world, scripted.NewRecall(text), cfg, 200, 8)
		segments := 0
		for _, p := range played {
			if segments += len(p.Segments); !p.Success {
				t.Errorf("%s: task %s: %s %s", rule, p.ID, p.Status, p.Error)
			}
		}
		if rule != condense.None && segments < 12 {
			t.Errorf("%s: %d segments of %d trajectories: want cuts", rule, segments, len(played))
		}
	}
}

// A prompt that nobody has written cannot be read.
func TestRecallOfTheUnknown(t *testing.T) {
	t.Parallel()
	text, err := chat.NewChatML(token.Bytes{})
	if err != nil {
		t.Fatal(err)
	}
	recall := scripted.NewRecall(text)
	ids, err := recall.Start([]chat.Message{{Role: chat.User, Content: "hello"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if messages, err := recall.DecodeMessages(ids); err != nil || len(messages) != 1 || messages[0].Content != "hello" {
		t.Errorf("%v, error %v", messages, err)
	}
	if messages, err := recall.DecodeMessages(ids[1:]); err == nil {
		t.Errorf("read %v from a prompt that was not written", messages)
	}
}
