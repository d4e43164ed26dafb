// Package exec is environments and rewards of the user's own, in any language: a command
// that answers JSON lines, or an HTTP endpoint that answers the same messages.
// docs/environments.md has the protocol, examples/exec an environment in Python.
//
// What does not answer, or not by the protocol, fails the trajectory and says why: a
// reward that did not come is not a reward of 0, and what a command does after an answer
// that came too late is not known.
package exec

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/process"
	"github.com/infinirl/infinirl/env/question"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/tools"
)

// Config is how an environment is reached. It has a command or an address.
type Config struct {
	Command process.Command
	// Reuse keeps a process for further trajectories when one has ended as it should, as
	// many as ran at once. Without, every trajectory has a process of its own.
	Reuse bool
	// URL is where the requests are posted, http or https. Headers go with each.
	URL     string
	Headers map[string]string
	// Timeout is how long an answer may take.
	Timeout time.Duration
	// MaxLine is the most bytes of an answer, MaxTrajectory of all answers to a trajectory.
	MaxLine, MaxTrajectory int64
	// Budget is what each message of a step is cut to.
	Budget tools.Budget
}

// Default returns one minute and 4 MiB for an answer, 256 MiB for a trajectory, and the
// budget of tools.Default.
func Default() Config {
	return Config{Timeout: time.Minute, MaxLine: 4 << 20, MaxTrajectory: 256 << 20, Budget: tools.Default().Budget}
}

// Validate says what is wrong.
func (c Config) Validate() error {
	switch {
	case (len(c.Command.Args) > 0) == (c.URL != ""):
		return errors.New("environment: a command and an address, or neither: want one of them")
	case c.Timeout <= 0:
		return fmt.Errorf("environment: timeout: %v: want more than 0", c.Timeout)
	case c.MaxLine < 1 || c.MaxTrajectory < c.MaxLine:
		return fmt.Errorf("environment: at most %d bytes an answer, %d a trajectory: want 1 or more, and no less for a trajectory", c.MaxLine, c.MaxTrajectory)
	}
	if err := c.Budget.Validate(); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	if c.URL != "" {
		return checkURL(c.URL)
	}
	return c.Command.Check()
}

// peer is who answers the requests of one trajectory at a time.
type peer interface {
	// exchange returns the answer to a request, of at most limit bytes. After an error it
	// is not used again.
	exchange(ctx context.Context, data []byte, limit int64) ([]byte, error)
	// explain adds what the peer has said and done beside the protocol to an error.
	explain(err error) error
	// end ends the trajectory. A peer whose talk is not broken may go on with another, and
	// hears farewell, a request, where it would not know otherwise.
	end(broken bool, farewell []byte)
}

// Host starts, keeps and ends who answers. It is safe for concurrent use.
type Host struct {
	cfg  Config
	life context.Context
	stop context.CancelFunc

	id      atomic.Int64 // of the last request
	mutex   sync.Mutex
	idle    []*commandPeer
	closed  bool
	running sync.WaitGroup // processes
}

// NewHost returns a host whose processes end with ctx or Close.
func NewHost(ctx context.Context, cfg Config) (*Host, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Host{cfg: cfg}
	h.life, h.stop = context.WithCancel(ctx)
	return h, nil
}

// Close ends all processes and waits for them.
func (h *Host) Close() error {
	h.mutex.Lock()
	idle := h.idle
	h.idle, h.closed = nil, true
	h.mutex.Unlock()
	for _, p := range idle {
		p.process.Close(grace)
	}
	h.stop()
	h.running.Wait()
	return nil
}

// take returns a peer for a trajectory.
func (h *Host) take() (peer, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return nil, errors.New("environment: closed")
	}
	if h.cfg.URL != "" {
		return &httpPeer{host: h}, nil
	}
	for len(h.idle) > 0 {
		p := h.idle[len(h.idle)-1]
		h.idle = h.idle[:len(h.idle)-1]
		select {
		case <-p.process.Exited(): // it ended between two trajectories
			p.process.Kill()
		default:
			return p, nil
		}
	}
	started, err := process.Start(h.life, h.cfg.Command)
	if err != nil {
		return nil, err
	}
	h.running.Go(func() { <-started.Exited() })
	return newCommandPeer(h, started), nil
}

// talk is the conversation with a peer about one trajectory.
type talk struct {
	host   *Host
	peer   peer
	name   string // of the trajectory
	bytes  int64  // of the answers
	broken bool
}

func (h *Host) talk(ctx context.Context) (*talk, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := h.take()
	if err != nil {
		return nil, err
	}
	return &talk{host: h, peer: p, name: rand.Text()}, nil
}

// ask sends a request and reads the answer with use. Whatever goes wrong breaks the talk.
func (t *talk) ask(ctx context.Context, r request, use func(answer) error) error {
	// No two requests of a host have the same id: an answer too many is never taken for
	// that to a later request.
	r.Version, r.Trajectory, r.ID = Version, t.name, t.host.id.Add(1)
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("environment: %s: %w", r.Type, err)
	}
	limited, cancel := context.WithTimeout(ctx, t.host.cfg.Timeout)
	defer cancel()
	limit := min(t.host.cfg.MaxLine, t.host.cfg.MaxTrajectory-t.bytes)
	line, err := t.peer.exchange(limited, data, limit)
	t.bytes += int64(len(line))
	switch {
	case err == nil:
		var a answer
		if a, err = read(line, r); err == nil {
			if err = use(a); err == nil {
				return nil
			}
		}
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("no answer to %s within %v", r.Type, t.host.cfg.Timeout)
	default:
		err = fmt.Errorf("no answer to %s: %w", r.Type, err)
	}
	t.broken = true
	return t.peer.explain(err)
}

// end ends the talk: the peer may be kept if all went well.
func (t *talk) end() {
	farewell, err := json.Marshal(request{Version: Version, Trajectory: t.name, ID: t.host.id.Add(1), Type: "close"})
	if err != nil {
		panic(err) // numbers and names always encode
	}
	t.peer.end(t.broken, farewell)
}

// Tasks are those of a file, in the environment of a host.
type Tasks struct {
	name string
	file *taskfile.File
	host *Host
}

var _ env.Tasks = (*Tasks)(nil)

// New returns tasks whose environment is the host's.
func New(name string, file *taskfile.File, host *Host) *Tasks { return &Tasks{name, file, host} }

// Name returns the name.
func (t *Tasks) Name() string { return t.name }

// Len returns the number of tasks of a split.
func (t *Tasks) Len(split env.Split) int { return t.file.Len(split) }

// Task returns a task.
func (t *Tasks) Task(split env.Split, i int) env.Task { return t.file.Task(split, i) }

// New returns a fresh environment. The command hears of the low 53 bits of the seed, which
// every JSON reader takes as they are.
func (t *Tasks) New(seed uint64) env.Environment {
	return &environment{host: t.host, seed: seed & (1<<53 - 1)}
}

type environment struct {
	host *Host
	seed uint64
	talk *talk // nil unless a trajectory is running
}

// Reset begins a trajectory.
func (e *environment) Reset(ctx context.Context, task env.Task) (o env.Observation, err error) {
	e.end()
	if e.talk, err = e.host.talk(ctx); err != nil {
		return o, err
	}
	err = e.talk.ask(ctx, request{Type: "reset", Task: task.Data, Seed: &e.seed}, func(a answer) error {
		o, err = a.opening(task)
		return err
	})
	if err != nil {
		e.end()
		return env.Observation{}, err
	}
	return o, nil
}

// Step hands an action on.
func (e *environment) Step(ctx context.Context, m chat.Message) (o env.Observation, err error) {
	switch {
	case e.talk == nil:
		return o, errors.New("step: no trajectory is running: reset first")
	case ctx.Err() != nil:
		return o, ctx.Err()
	}
	err = e.talk.ask(ctx, request{Type: "step", action: newAction(m)}, func(a answer) error {
		o, err = a.observation(m.ToolCalls, e.host.cfg.Budget)
		return err
	})
	if err != nil {
		o = env.Observation{}
	}
	if err != nil || o.Done {
		e.end()
	}
	return o, err
}

func (e *environment) end() {
	if e.talk != nil {
		e.talk.end()
		e.talk = nil
	}
}

// Close ends the trajectory and its process, or gives the process back.
func (e *environment) Close() error {
	e.end()
	return nil
}

// Grader grades answers by a host: a command or an endpoint that answers grade.
type Grader struct{ Host *Host }

var _ question.Grader = Grader{}

// Grade asks what the answer is worth.
func (g Grader) Grade(ctx context.Context, task env.Task, conversation []chat.Message) (grade question.Grade, err error) {
	t, err := g.Host.talk(ctx)
	if err != nil {
		return grade, err
	}
	defer t.end()
	err = t.ask(ctx, request{Type: "grade", Task: task.Data, Messages: conversation}, func(a answer) error {
		grade, err = a.grade()
		return err
	})
	return grade, err
}
