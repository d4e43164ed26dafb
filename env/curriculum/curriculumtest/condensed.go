package curriculumtest

import (
	"context"
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/condense"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/curriculum"
	"github.com/infinirl/infinirl/trajectory"
)

// PlayCondensed plays a task with an actor that sees the messages that the token
// ids of a condensed prompt spell, replies of at most reply tokens reserved, and
// returns the closed trajectory and whether it succeeded.
func PlayCondensed(world curriculum.World, task env.Task, actor curriculum.Actor, config condense.Config, reply int) (*trajectory.Trajectory, bool, error) {
	ctx := context.Background()
	condenser, err := condense.New(config)
	if err != nil {
		return nil, false, err
	}
	recorder := trajectory.NewRecorder(task.ID, task.ID, world.Renderer, condenser)
	e := world.Tasks.New(0)
	defer e.Close()
	o, err := e.Reset(ctx, task)
	if err != nil {
		return nil, false, err
	}
	if err := recorder.Start(o.Messages, o.Tools); err != nil {
		return nil, false, err
	}
	for !o.Done {
		prompt, err := recorder.Prompt(reply)
		if err != nil {
			return nil, false, err
		}
		window, err := world.Renderer.DecodeMessages(prompt)
		if err != nil {
			return nil, false, err
		}
		action, err := actor.Act(window)
		if err != nil {
			return nil, false, err
		}
		sampled, err := chat.Reply(world.Renderer, action)
		if err != nil {
			return nil, false, err
		}
		if len(sampled) > reply {
			return nil, false, fmt.Errorf("reply of %d tokens, %d reserved", len(sampled), reply)
		}
		if action, err = recorder.Reply(sampled, nil, trajectory.Versions{}); err != nil {
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
