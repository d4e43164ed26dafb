package curriculum

import (
	"context"
	"fmt"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
)

// Sheet is an exercise that grows message by message. Mask[i] tells whether
// IDs[i] is to be learnt from what stands before it.
type Sheet struct {
	renderer chat.Renderer
	IDs      []int32
	Mask     []bool
}

// NewSheet returns an empty exercise.
func NewSheet(renderer chat.Renderer) *Sheet { return &Sheet{renderer: renderer} }

// Show appends messages of which nothing is to be learnt.
func (s *Sheet) Show(messages ...chat.Message) {
	for _, m := range messages {
		s.write(m, 0)
	}
}

// Learn appends an assistant message that is to be learnt whole, but for the
// generation prefix.
func (s *Sheet) Learn(m chat.Message) {
	start := len(s.IDs)
	s.write(m, 0)
	for i := start + len(s.renderer.GenerationPrefix()); i < len(s.IDs); i++ {
		s.Mask[i] = true
	}
}

// LearnEnd appends a message of which only the last n ids are to be learnt.
func (s *Sheet) LearnEnd(m chat.Message, n int) { s.write(m, n) }

// write panics when a message is outside the vocabulary: a world writes its own.
func (s *Sheet) write(m chat.Message, learnt int) {
	ids, err := s.renderer.Extend(nil, []chat.Message{m})
	if err != nil {
		panic(fmt.Sprintf("curriculum: %v", err))
	}
	for i, id := range ids {
		s.IDs = append(s.IDs, id)
		s.Mask = append(s.Mask, i >= len(ids)-learnt)
	}
}

// Play appends a whole trajectory, nothing dropped, of which the actor's messages are
// to be learnt. It panics when the environment or the actor fails: a world's own
// cannot.
func (s *Sheet) Play(e env.Environment, task env.Task, actor Actor) {
	ctx := context.Background()
	o, err := e.Reset(ctx, task)
	if err != nil {
		panic(fmt.Sprintf("curriculum: %v", err))
	}
	log := o.Messages
	s.Show(o.Messages...)
	for !o.Done {
		action, err := actor.Act(log)
		if err != nil {
			panic(fmt.Sprintf("curriculum: task %s: %v", task.ID, err))
		}
		if o, err = e.Step(ctx, action); err != nil {
			panic(fmt.Sprintf("curriculum: task %s: %v", task.ID, err))
		}
		s.Learn(action)
		s.Show(o.Messages...)
		log = append(append(log, action), o.Messages...)
	}
}
