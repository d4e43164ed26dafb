// Package tools runs the tools that an agent calls: the calls of one message in parallel,
// each with its result in order, within a time and a size.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/toolcall"
)

// Tool is a schema and what runs its calls.
type Tool struct {
	chat.Tool
	// Call returns the text of the result. What the model did wrong is a text; an error is
	// the tool's own failure, and ends the trajectory as failed. It is safe for concurrent use.
	Call func(ctx context.Context, call chat.ToolCall) (string, error)
}

// Source has tools for trajectories: one of its own for each, or the same for all. It is
// safe for concurrent use.
type Source interface {
	// Open returns the tools for one trajectory, and what ends them, nil for nothing.
	Open(ctx context.Context) (tools []Tool, end func() error, err error)
}

// Fixed is a source whose tools keep nothing between calls.
type Fixed []Tool

// Open returns the tools.
func (f Fixed) Open(context.Context) ([]Tool, func() error, error) { return f, nil, nil }

// Config bounds the calls.
type Config struct {
	// Parallel is how many calls of one message run at once.
	Parallel int
	// Timeout is how long a call may take. One that takes longer is answered by an error
	// result, for it may be what the model asked for that takes so long.
	Timeout time.Duration
	// Budget is what a result is cut to.
	Budget Budget
}

// Default returns 8 calls at once, 30 s for each, results of 20,000 characters.
func Default() Config {
	return Config{Parallel: 8, Timeout: 30 * time.Second, Budget: Budget{Most: 20_000}}
}

// Validate says what is wrong.
func (c Config) Validate() error {
	switch {
	case c.Parallel < 1:
		return fmt.Errorf("tools.parallel: %d: want 1 or more", c.Parallel)
	case c.Timeout <= 0:
		return fmt.Errorf("tools.timeout: %v: want more than 0", c.Timeout)
	}
	return c.Budget.Validate()
}

// Set holds the tools of one trajectory.
type Set struct {
	cfg   Config
	tools []Tool
	named map[string]Tool
	ends  []func() error
}

// Open opens the tools of all sources. Their names differ.
func Open(ctx context.Context, cfg Config, sources ...Source) (*Set, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	set := &Set{cfg: cfg, named: map[string]Tool{}}
	for _, source := range sources {
		tools, end, err := source.Open(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tools: %w", err), set.Close())
		}
		if end != nil {
			set.ends = append(set.ends, end)
		}
		for _, tool := range tools {
			if err := Check(tool.Tool); err != nil {
				return nil, errors.Join(err, set.Close())
			}
			if _, taken := set.named[tool.Name]; taken {
				return nil, errors.Join(fmt.Errorf("tool %s: two have this name", tool.Name), set.Close())
			}
			set.tools, set.named[tool.Name] = append(set.tools, tool), tool
		}
	}
	return set, nil
}

// Check says what is wrong with a schema.
func Check(tool chat.Tool) error {
	if tool.Name == "" {
		return errors.New("tool: no name")
	}
	parameters := bytes.TrimSpace(tool.Parameters)
	if len(parameters) > 0 && (parameters[0] != '{' || !json.Valid(parameters)) {
		return fmt.Errorf("tool %s: parameters: %s: want a JSON Schema object", tool.Name, chat.Excerpt(string(parameters)))
	}
	return nil
}

// Close ends the tools.
func (s *Set) Close() error {
	var failed []error
	for _, end := range s.ends {
		failed = append(failed, end())
	}
	s.ends = nil
	return errors.Join(failed...)
}

// Schemas returns what the agent may call.
func (s *Set) Schemas() []chat.Tool {
	var schemas []chat.Tool
	for _, tool := range s.tools {
		schemas = append(schemas, tool.Tool)
	}
	return schemas
}

// Has tells whether there is a tool of a name.
func (s *Set) Has(name string) bool {
	_, has := s.named[name]
	return has
}

// Run runs calls in parallel and returns a result for each, in their order, or the error of
// the first that failed.
func (s *Set) Run(ctx context.Context, calls []chat.ToolCall) ([]chat.Message, error) {
	results, failed := make([]chat.Message, len(calls)), make([]error, len(calls))
	free := make(chan struct{}, s.cfg.Parallel)
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			var text string
			if text, failed[i] = s.call(ctx, call); failed[i] == nil {
				results[i] = toolcall.Result(call, text)
			}
		})
	}
	running.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, err := range failed { // the first: those of a server that has died are all the same
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Set) call(ctx context.Context, call chat.ToolCall) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	tool, has := s.named[call.Name]
	if !has {
		var names []string
		for _, t := range s.tools {
			names = append(names, t.Name)
		}
		return fmt.Sprintf("error: unknown tool %q: want %s", chat.Excerpt(call.Name), strings.Join(names, ", ")), nil
	}
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	text, err := tool.Call(limited, call)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && limited.Err() != nil {
			return fmt.Sprintf("error: %s: no result within %v", call.Name, s.cfg.Timeout), nil
		}
		return "", fmt.Errorf("tool %s: %w", call.Name, err)
	}
	return s.cfg.Budget.Cut(text)
}
