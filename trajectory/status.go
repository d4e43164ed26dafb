// Package trajectory holds what was played: an append-only message log and the
// segments that a condenser cut it into.
package trajectory

import (
	"fmt"

	"github.com/infinirl/infinirl/chat"
)

// Status tells how a trajectory ended.
type Status string

// Failed and aborted trajectories never enter a batch; truncated ones do by
// choice, with a bootstrap value or zero.
const (
	Finished        Status = "finished"
	Truncated       Status = "truncated"        // max turns, max segments, max time
	ContextOverflow Status = "context_overflow" // system and task, or one message, exceed the window
	Failed          Status = "failed"           // environment or server error
	Aborted         Status = "aborted"          // cancelled from outside
)

// Validate returns an error unless s is one of the statuses above.
func (s Status) Validate() error {
	switch s {
	case Finished, Truncated, ContextOverflow, Failed, Aborted:
		return nil
	}
	return fmt.Errorf("status %q: want finished, truncated, context_overflow, failed or aborted", chat.Excerpt(s))
}

// Trainable reports whether rows of a trajectory that ended so may be trained on.
func (s Status) Trainable() bool { return s != Failed && s != Aborted }
