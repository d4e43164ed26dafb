// Package mcp is tools from servers of the Model Context Protocol: a command that speaks
// it on stdin and stdout, or an address (streamable HTTP).
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/process"
	"github.com/infinirl/infinirl/env/tools"
)

const (
	// maxMessage is the longest message of a server, in bytes.
	maxMessage = 16 << 20
	// grace is how long a server has to end once it is asked to.
	grace = 2 * time.Second
)

// Config is how a server is reached. It has a command or an address.
type Config struct {
	// Name is the server's in errors.
	Name    string
	Command process.Command
	// URL is an address of streamable HTTP. Headers go with each request.
	URL     string
	Headers map[string]string
	// Shared is one session for all trajectories: for servers that remember nothing. Without,
	// every trajectory has a session, and a process, of its own.
	Shared bool
	// Only are the names of the tools that are offered; all, if empty.
	Only []string
	// Timeout is how long a server may take to begin a session and tell its tools.
	Timeout time.Duration
}

// Validate says what is wrong.
func (c Config) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("mcp: name: want one")
	case (len(c.Command.Args) > 0) == (c.URL != ""):
		return fmt.Errorf("mcp server %s: a command and an address, or neither: want one of them", c.Name)
	case c.Timeout <= 0:
		return fmt.Errorf("mcp server %s: timeout: %v: want more than 0", c.Name, c.Timeout)
	}
	if c.URL == "" {
		if err := c.Command.Check(); err != nil {
			return fmt.Errorf("mcp server %s: %w", c.Name, err)
		}
		return nil
	}
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("mcp server %s: address %q: want http:// or https:// and a host", c.Name, c.URL)
	}
	return nil
}

// Server is a source of tools. It is safe for concurrent use.
type Server struct {
	cfg  Config
	life context.Context
	stop context.CancelFunc

	mutex   sync.Mutex
	shared  *session
	closed  bool
	running sync.WaitGroup // processes
}

var _ tools.Source = (*Server)(nil)

// New returns a server that ends with ctx or Close. It is first reached when tools are
// opened.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	s.life, s.stop = context.WithCancel(ctx)
	return s, nil
}

// Close ends all sessions, and waits for their processes.
func (s *Server) Close() error {
	s.mutex.Lock()
	shared := s.shared
	s.shared, s.closed = nil, true
	s.mutex.Unlock()
	if shared != nil {
		shared.end()
	}
	s.stop()
	s.running.Wait()
	return nil
}

// Open begins a session, or goes on with the shared one if it is still alive.
func (s *Server) Open(ctx context.Context) ([]tools.Tool, func() error, error) {
	if s.cfg.Shared {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.shared != nil && s.shared.over() {
			s.shared.end()
			s.shared = nil
		}
		if s.shared == nil {
			if s.closed {
				return nil, nil, fmt.Errorf("mcp server %s: closed", s.cfg.Name)
			}
			var err error
			if s.shared, err = s.begin(ctx); err != nil {
				return nil, nil, err
			}
		}
		return s.shared.tools, nil, nil
	}
	begun, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	return begun.tools, begun.end, nil
}

// session is a connection to a server.
type session struct {
	server  *Server
	process *process.Process // nil over HTTP
	client  *mcp.ClientSession
	tools   []tools.Tool
	ended   chan struct{} // closed when the connection has
}

// begin connects and lists the tools.
func (s *Server) begin(ctx context.Context) (*session, error) {
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	begun := &session{server: s, ended: make(chan struct{})}
	var transport mcp.Transport
	if s.cfg.URL != "" {
		transport = &mcp.StreamableClientTransport{
			Endpoint: s.cfg.URL, HTTPClient: &http.Client{Transport: headers(s.cfg.Headers)},
			MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxMessage,
		}
	} else {
		started, err := process.Start(s.life, s.cfg.Command)
		if err != nil {
			return nil, fmt.Errorf("mcp server %s: %w", s.cfg.Name, err)
		}
		s.running.Go(func() { <-started.Exited() })
		begun.process = started
		transport = &mcp.IOTransport{Reader: started.Stdout, Writer: started.Stdin, MaxLineLength: maxMessage}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "infinirl", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	var err error
	if begun.client, err = client.Connect(limited, transport, nil); err == nil {
		go func() {
			defer close(begun.ended)
			_ = begun.client.Wait() // how it ended, the next call tells
		}()
		err = begun.list(limited)
	}
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("it has not told its tools within %v", s.cfg.Timeout)
		}
		err = begun.explain(limited, err)
		begun.end()
		return nil, err
	}
	return begun, nil
}

// list makes tools of the server's.
func (b *session) list(ctx context.Context) error {
	wanted := map[string]bool{}
	for _, name := range b.server.cfg.Only {
		wanted[name] = true
	}
	for tool, err := range b.client.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list of tools: %w", err)
		}
		if len(b.server.cfg.Only) > 0 && !wanted[tool.Name] {
			continue
		}
		delete(wanted, tool.Name)
		parameters, err := json.Marshal(tool.InputSchema)
		if err != nil {
			return fmt.Errorf("tool %s: schema: %w", tool.Name, err)
		}
		b.tools = append(b.tools, tools.Tool{
			Tool: chat.Tool{Name: tool.Name, Description: tool.Description, Parameters: parameters},
			Call: b.call,
		})
	}
	for _, name := range b.server.cfg.Only {
		if wanted[name] {
			return fmt.Errorf("it has no tool %q", name)
		}
	}
	if len(b.tools) == 0 {
		return errors.New("it has no tools")
	}
	return nil
}

// call runs one call. What the server answers is for the model to read, errors included;
// that it does not answer any more is a failure.
func (b *session) call(ctx context.Context, call chat.ToolCall) (string, error) {
	arguments := json.RawMessage(call.Arguments)
	if strings.TrimSpace(call.Arguments) == "" {
		arguments = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &object); err != nil || object == nil {
		return fmt.Sprintf("error: arguments of %s: want a JSON object", call.Name), nil
	}
	result, err := b.client.CallTool(ctx, &mcp.CallToolParams{Name: call.Name, Arguments: arguments})
	if err != nil {
		if text, answered := refusal(err); answered {
			return "error: " + text, nil
		}
		return "", b.explain(ctx, err)
	}
	text, err := written(result)
	if err != nil {
		return "", fmt.Errorf("mcp server %s: %w", b.server.cfg.Name, err)
	}
	return text, nil
}

// over tells whether the connection has ended.
func (b *session) over() bool {
	if b.process != nil {
		select {
		case <-b.process.Exited():
			return true
		default:
		}
	}
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// explain says whose error it is, and how the process ended. Unless the context has ended,
// an error is the end of the connection, and as a rule that of the process, which is known
// in a moment.
func (b *session) explain(ctx context.Context, err error) error {
	if b.process != nil {
		if ctx.Err() == nil {
			b.process.Close(grace)
		}
		err = b.process.Explain(err)
	}
	return fmt.Errorf("mcp server %s: %w", b.server.cfg.Name, err)
}

// end ends the session and its process.
func (b *session) end() error {
	if b.process != nil {
		b.process.Close(grace)
	}
	if b.client != nil {
		_ = b.client.Close() // over a process it has ended by now, and over HTTP it is a courtesy
		<-b.ended
	}
	return nil
}

// headers adds headers to every request.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if r.Method == http.MethodDelete { // the end of a session, which nobody waits for long
		limited, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		ctx = limited
	}
	r = r.Clone(ctx)
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}
