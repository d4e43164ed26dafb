package tinker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/infinirl/infinirl/policy"
)

// ModelConfig says what a model is made of.
type ModelConfig struct {
	Base string
	LoRA LoRA
	Role string // "": a policy; critic: a value function, where the server has them
	// Once tells that the server takes an operation of one number (seq_id) once, however
	// often it is submitted. Where it does not, what changes weights is never submitted
	// again.
	Once bool
}

// Model is a model that a session trains. Its operations are taken in the order in
// which they are called, one submission at a time; safe for concurrent use.
type Model struct {
	client *Client
	id     string
	once   bool

	turn chan struct{} // holds one token: who has it submits
	// What the turn protects:
	seq       int         // of the next operation
	unsettled *submission // one of which is not known whether the server has it
}

type submission struct {
	path string
	body []byte
	err  error // why its answer is not known
}

// CreateModel makes a model from a base model.
func (c *Client) CreateModel(ctx context.Context, cfg ModelConfig) (*Model, error) {
	if err := c.usable(); err != nil {
		return nil, wrap("create_model", err)
	}
	c.mu.Lock()
	number := c.created
	c.created++
	c.mu.Unlock()
	request := createModel{SessionID: c.session, ModelSeqID: number, BaseModel: cfg.Base, LoRA: cfg.LoRA, Role: cfg.Role, Type: "create_model"}
	var created modelResponse
	if err := c.operation(ctx, "create_model", request, &created); err != nil {
		return nil, wrap("create_model", err)
	}
	m := &Model{client: c, id: created.ModelID, once: cfg.Once, turn: make(chan struct{}, 1), seq: 1} // the creation was 0
	m.turn <- struct{}{}
	switch {
	case created.ModelID == "":
		return nil, errors.New("tinker: create_model: the server names no model")
	case created.BaseModel != "" && created.BaseModel != cfg.Base:
		return nil, errors.Join(fmt.Errorf("tinker: create_model: the server made it of %q: want %q", created.BaseModel, cfg.Base), m.Unload(ctx))
	}
	c.mu.Lock()
	c.models[m.id] = m
	closed := c.closed
	c.mu.Unlock()
	if closed { // Close has not seen it
		return nil, errors.Join(wrap("create_model", ErrClosed), m.Unload(ctx))
	}
	return m, nil
}

// ID names the model on the server.
func (m *Model) ID() string { return m.id }

// operation submits what has no place in the order of a model, and waits for its result.
func (c *Client) operation(ctx context.Context, path string, request, result any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	id, err := c.submit(ctx, path, body, mayPass)
	if err != nil {
		return err
	}
	return c.waitAgain(ctx, path, id, body, result)
}

// resubmissions is how often an operation that the server has lost is submitted again.
const resubmissions = 3

// waitAgain waits for a result, and submits again what the server has lost.
func (c *Client) waitAgain(ctx context.Context, path, id string, body []byte, result any) error {
	for attempt := 0; ; attempt++ {
		err := c.wait(ctx, path, id, result)
		if !errors.Is(err, errGone) {
			return err
		}
		if attempt == resubmissions {
			return policy.Transient(fmt.Errorf("submitted %d times: %w", attempt+1, err))
		}
		if id, err = c.submit(ctx, path, body, mayPass); err != nil {
			return err
		}
	}
}

// submit returns the number under which the result can be polled for. again tells
// which errors are a reason to submit once more.
func (c *Client) submit(ctx context.Context, path string, body []byte, again func(error) bool) (string, error) {
	var s submitted
	if err := c.ask(ctx, http.MethodPost, path, json.RawMessage(body), &s, again); err != nil {
		return "", err
	}
	if s.RequestID == "" {
		return "", fmt.Errorf("%s: the server gives no request_id", path)
	}
	return s.RequestID, nil
}

// kind tells what an operation does.
type kind bool

const (
	reads   kind = false
	changes kind = true // weights, gradients, or what is kept of them
)

// do takes an operation through: its place in the order, the submission, the result.
func (m *Model) do(ctx context.Context, path string, what kind, request func(seq int) any, result any) error {
	if err := m.client.usable(); err != nil {
		return wrap(path, err)
	}
	if ctx.Err() != nil { // nothing is sent
		return wrap(path, context.Cause(ctx))
	}
	repeatable := m.once || what == reads
	id, body, err := m.inTurn(ctx, path, repeatable, request)
	switch {
	case err != nil:
	case repeatable:
		err = m.client.waitAgain(ctx, path, id, body, result)
	default:
		err = m.client.wait(ctx, path, id, result)
	}
	return wrap(path, err)
}

// inTurn submits an operation as the next in the order. Where an operation was left
// before its submission was answered, it is submitted once more first, if it may be: no
// number is skipped, and none stands for two operations.
func (m *Model) inTurn(ctx context.Context, path string, repeatable bool, request func(seq int) any) (id string, body []byte, err error) {
	select {
	case <-m.turn:
	case <-ctx.Done():
		return "", nil, context.Cause(ctx)
	}
	defer func() { m.turn <- struct{}{} }()
	if err := m.settle(ctx); err != nil {
		return "", nil, err
	}
	if body, err = json.Marshal(request(m.seq)); err != nil {
		return "", nil, err
	}
	again := mayPass
	if !repeatable {
		again = notTaken
	}
	id, err = m.client.submit(ctx, path, body, again)
	var status *StatusError
	switch {
	case err == nil:
		m.seq++
	case notTaken(err) || errors.As(err, &status) && !passing(status.Status): // the number is free
	case m.once || !repeatable:
		m.unsettled = &submission{path, body, err}
	default: // it may be there, and does not matter
		m.seq++
	}
	if m.unsettled != nil && !m.once {
		err = m.settle(ctx)
	}
	return id, body, err
}

// settle submits what was left once more. A server that would take it twice is not
// asked: the model is of no use any more.
func (m *Model) settle(ctx context.Context) error {
	u := m.unsettled
	if u == nil {
		return nil
	}
	if !m.once {
		const what = "it is not known whether the server has %s, and it would take it twice: "
		if policy.IsTransient(u.err) { // this does not pass
			return fmt.Errorf(what+"%v", u.path, u.err)
		}
		return fmt.Errorf(what+"%w", u.path, u.err)
	}
	if _, err := m.client.submit(ctx, u.path, u.body, mayPass); err != nil {
		return fmt.Errorf("submit %s once more, whose answer was lost: %w", u.path, err)
	}
	m.unsettled = nil
	m.seq++
	return nil
}

// Forward evaluates a loss and its columns, without a gradient.
func (m *Model) Forward(ctx context.Context, loss Loss) (Output, error) {
	var out Output
	err := m.do(ctx, "forward", reads, func(seq int) any { return forward{loss, m.id, seq} }, &out)
	return out, err
}

// ForwardBackward adds the gradient of a loss to those since the last step.
func (m *Model) ForwardBackward(ctx context.Context, loss Loss) (Output, error) {
	var out Output
	err := m.do(ctx, "forward_backward", changes, func(seq int) any { return forwardBackward{loss, m.id, seq} }, &out)
	return out, err
}

// Step takes an optimizer step and clears the gradients.
func (m *Model) Step(ctx context.Context, adam Adam) (Stepped, error) {
	var out Stepped
	err := m.do(ctx, "optim_step", changes, func(seq int) any { return optimStep{adam, m.id, seq, "optim_step"} }, &out)
	return out, err
}

// SaveForSampler makes the weights available to sampling and returns the name of a new
// sampling session.
func (m *Model) SaveForSampler(ctx context.Context) (session string, err error) {
	m.client.mu.Lock()
	number := m.client.sampling
	m.client.sampling++
	m.client.mu.Unlock()
	var out savedForSampler
	err = m.do(ctx, "save_weights_for_sampler", reads, func(seq int) any { return saveForSampler{m.id, number, seq, "save_weights_for_sampler"} }, &out)
	if err == nil && out.SamplingSessionID == "" {
		err = errors.New("tinker: save_weights_for_sampler: the server names no sampling session")
	}
	return out.SamplingSessionID, err
}

// Save keeps weights and optimizer under a name and returns their tinker:// path.
func (m *Model) Save(ctx context.Context, name string) (path string, err error) {
	var out savedWeights
	err = m.do(ctx, "save_weights", reads, func(seq int) any { return saveWeights{m.id, name, seq, false, "save_weights"} }, &out)
	if err == nil && out.Path == "" {
		err = errors.New("tinker: save_weights: the server gives no path")
	}
	return out.Path, err
}

// Load reads weights and optimizer. It has to be the first operation of a model.
func (m *Model) Load(ctx context.Context, path string) error {
	var out savedWeights
	return m.do(ctx, "load_weights", changes, func(seq int) any { return loadWeights{m.id, seq, path, true, "load_weights"} }, &out)
}

// Unload frees the model on the server.
func (m *Model) Unload(ctx context.Context) error {
	const path = "unload_model"
	body, err := json.Marshal(unloadModel{m.id, path})
	if err != nil {
		return wrap(path, err)
	}
	lost := false // an answer was, and it was submitted again
	again := func(err error) bool {
		lost = lost || mayPass(err) && !notTaken(err)
		return mayPass(err)
	}
	id, err := m.client.submit(ctx, path, body, again)
	if err == nil {
		var out modelResponse
		err = m.client.wait(ctx, path, id, &out)
	}
	var refused *StatusError
	var failed *FailedError
	switch {
	case errors.Is(err, errGone): // a server that has forgotten the operation has had it
	case lost && (errors.As(err, &failed) || errors.As(err, &refused) && refused.Status == http.StatusNotFound):
		// The submission before, whose answer was lost, has unloaded it.
	case err != nil:
		return wrap(path, err)
	}
	m.client.mu.Lock()
	defer m.client.mu.Unlock()
	delete(m.client.models, m.id)
	return nil
}
