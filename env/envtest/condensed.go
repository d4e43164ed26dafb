package envtest

import (
	"context"
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/trajectory"
)

// PlayCondensed plays a task with an actor that sees the messages that the token
// ids of a condensed prompt spell, replies of at most reply tokens reserved, and
// returns the closed trajectory with the episode's success.
func PlayCondensed(suite env.Suite, task env.Task, actor env.Actor, config condense.Config, reply int) (*trajectory.Trajectory, bool, error) {
	ctx := context.Background()
	codec, ok := suite.Codec().(*chat.Words)
	if !ok {
		return nil, false, fmt.Errorf("codec %T, want *chat.Words", suite.Codec())
	}
	condenser, err := condense.New(config)
	if err != nil {
		return nil, false, err
	}
	recorder := trajectory.NewRecorder(task.ID, task.ID, codec, condenser, 0)
	e := suite.New()
	defer e.Close()
	o, err := e.Reset(ctx, task)
	if err != nil {
		return nil, false, err
	}
	if err := recorder.Observe(o.Messages...); err != nil {
		return nil, false, err
	}
	for !o.Done {
		prompt, err := recorder.Prompt(reply)
		if err != nil {
			return nil, false, err
		}
		window, err := codec.DecodeMessages(prompt)
		if err != nil {
			return nil, false, err
		}
		action, err := actor.Act(window)
		if err != nil {
			return nil, false, err
		}
		ids, err := codec.Encode(action)
		if err != nil {
			return nil, false, err
		}
		sampled := ids[len(codec.GenerationPrefix()):]
		if len(sampled) > reply {
			return nil, false, fmt.Errorf("reply of %d tokens, %d reserved", len(sampled), reply)
		}
		if action, err = recorder.Reply(sampled, nil, 0); err != nil {
			return nil, false, err
		}
		if o, err = e.Step(ctx, action); err != nil {
			return nil, false, err
		}
		recorder.Reward(o.Reward)
		if err := recorder.Observe(o.Messages...); err != nil {
			return nil, false, err
		}
	}
	return recorder.Close(trajectory.Finished), o.Success, nil
}
