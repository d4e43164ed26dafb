//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/envtest"
	"github.com/infinirl/infinirl/env/process"
	"github.com/infinirl/infinirl/env/question"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/tools"
)

// behave names the variable that makes the test's own program a server of a kind.
const behave = "INFINIRL_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	switch kind := os.Getenv(behave); kind {
	case "":
		os.Exit(m.Run())
	case "good":
		if err := newServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "no database")
		os.Exit(3)
	case "hang":
		select {}
	case "garbage":
		fmt.Println("Hello, world")
		select {}
	case "huge":
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 1 << 10 {
			if _, err := os.Stdout.Write(chunk); err != nil {
				return
			}
		}
	}
}

type word struct {
	Word string `json:"word"`
}

// newServer has tools that behave, and one that ends the server.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	text := func(t string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: t}}}
	}
	calls := 0
	mcp.AddTool(s, &mcp.Tool{Name: "shout", Description: "Shouts a word."}, func(_ context.Context, _ *mcp.CallToolRequest, w word) (*mcp.CallToolResult, any, error) {
		return text(strings.ToUpper(w.Word)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		calls++
		return text(fmt.Sprint(calls)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "draw"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "a mill"}, &mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"},
			&mcp.ResourceLink{Name: "plan", URI: "file:///plan"}, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///note", Text: "note"}},
		}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("the mill is broken")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "die"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(9)
		return nil, nil, nil
	})
	return s
}

func command(t testing.TB, kind string) Config {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Name: "mill", Command: process.Command{Args: []string{program}, Env: []string{behave + "=" + kind}}, Timeout: 30 * time.Second}
}

func serve(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func set(t testing.TB, cfg tools.Config, s *Server) *tools.Set {
	t.Helper()
	set, err := tools.Open(context.Background(), cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

func overHTTP(t testing.TB) Config {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newServer() }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return Config{Name: "mill", URL: server.URL, Headers: map[string]string{"Authorization": "Bearer x"}, Timeout: 30 * time.Second}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"stdio": command(t, "good"), "http": overHTTP(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := tools.Default()
			limits.Timeout = 5 * time.Second
			set := set(t, limits, serve(t, cfg))
			var schema chat.Tool
			for _, tool := range set.Schemas() {
				if tool.Name == "shout" {
					schema = tool
				}
			}
			if schema.Description != "Shouts a word." || !strings.Contains(string(schema.Parameters), `"word":{"type":"string"}`) {
				t.Errorf("schema %+v: %s", schema, schema.Parameters)
			}
			calls := []chat.ToolCall{
				{ID: "a", Name: "shout", Arguments: `{"word": "mill"}`}, {ID: "b", Name: "draw", Arguments: "{}"}, {ID: "c", Name: "fail"},
				{ID: "d", Name: "shout", Arguments: `{"word": 7}`}, {ID: "e", Name: "shout", Arguments: `mill`}, {ID: "f", Name: "dance", Arguments: `{}`},
				{ID: "g", Name: "wait", Arguments: `{}`},
			}
			results, err := set.Run(context.Background(), calls)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{
				"MILL", "a mill\n[image]\n[resource plan: file:///plan]\nnote", "error: the mill is broken", "error: ",
				"error: arguments of shout: want a JSON object", `error: unknown tool "dance"`, "error: wait: no result within 5s",
			} {
				if got := results[i]; got.ToolCallID != calls[i].ID || !strings.HasPrefix(got.Content, want) {
					t.Errorf("call %d: %+v, want %q", i, got, want)
				}
			}
			// A call that took too long is no end of the session.
			again, err := set.Run(context.Background(), calls[:1])
			if err != nil || again[0].Content != "MILL" {
				t.Errorf("%+v, error %v", again, err)
			}
		})
	}
}

func TestSessionsAreSharedOrNot(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		cfg := command(t, "good")
		cfg.Shared, cfg.Only = shared, []string{"count"}
		s := serve(t, cfg)
		var last string
		for range 3 {
			set, err := tools.Open(context.Background(), tools.Default(), s)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(set.Schemas()); n != 1 {
				t.Errorf("%d tools, want 1", n)
			}
			results, err := set.Run(context.Background(), []chat.ToolCall{{Name: "count"}})
			if err != nil {
				t.Fatal(err)
			}
			last = results[0].Content
			if err := set.Close(); err != nil {
				t.Error(err)
			}
		}
		if want := map[bool]string{false: "1", true: "3"}[shared]; last != want {
			t.Errorf("shared %v: the third trajectory counts %s, want %s", shared, last, want)
		}
	}
}

// A server that dies fails the trajectory and says how; a shared one is there again for
// the next.
func TestAServerThatDies(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		cfg := command(t, "good")
		cfg.Shared = shared
		s := serve(t, cfg)
		for range 2 {
			set := set(t, tools.Default(), s)
			_, err := set.Run(context.Background(), []chat.ToolCall{{Name: "die"}})
			for _, want := range []string{"tool die: mcp server mill: ", "exit status 9", "out of memory"} {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("shared %v: error %v, want %q", shared, err, want)
				}
			}
		}
	}
}

func TestBadServers(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"exit": "exit status 3: stderr: no database", "garbage": "invalid character 'H'", "huge": "invalid character 'x'", "hang": "it has not told its tools within 500ms",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cfg := command(t, kind)
			if kind == "hang" {
				cfg.Timeout = 500 * time.Millisecond
			}
			_, err := tools.Open(context.Background(), tools.Default(), serve(t, cfg))
			if err == nil || !strings.Contains(err.Error(), "mcp server mill: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
	cfg := overHTTP(t)
	cfg.Headers = nil
	if _, err := tools.Open(context.Background(), tools.Default(), serve(t, cfg)); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("error %v", err)
	}
	cfg.URL = "http://127.0.0.1:1"
	if _, err := tools.Open(context.Background(), tools.Default(), serve(t, cfg)); err == nil || !strings.Contains(err.Error(), "connect") {
		t.Errorf("error %v", err)
	}
	only := command(t, "good")
	only.Only = []string{"shout", "whisper"}
	if _, err := tools.Open(context.Background(), tools.Default(), serve(t, only)); err == nil || !strings.Contains(err.Error(), `it has no tool "whisper"`) {
		t.Errorf("error %v", err)
	}
}

// graded gives 1 to whoever says something.
type graded struct{}

func (graded) Grade(context.Context, env.Task, []chat.Message) (question.Grade, error) {
	return question.Grade{Reward: 1, Success: true}, nil
}

func TestTasksWithServers(t *testing.T) {
	t.Parallel()
	file, err := taskfile.Read(strings.NewReader(`{"prompt": "Shout."}`+"\n"+`{"prompt": "Be silent."}`), "tasks", taskfile.Split{})
	if err != nil {
		t.Fatal(err)
	}
	shared := command(t, "good")
	shared.Shared = true
	tasks, err := question.New(question.Config{Name: "shouts", Tasks: file, Tools: tools.Default(), Grader: graded{}})
	if err != nil {
		t.Fatal(err)
	}
	with, err := tools.With(tasks, tools.Default(), serve(t, shared))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("envtest", func(t *testing.T) { envtest.Run(t, with) })
}

// The context ends a call, and its process.
func TestTheEndOfAContext(t *testing.T) {
	t.Parallel()
	s := serve(t, command(t, "good"))
	set := set(t, tools.Default(), s)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() { _, err := set.Run(ctx, []chat.ToolCall{{Name: "wait"}}); failed <- err }()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(set.Close(), s.Close()); err != nil { // waits for every process
		t.Error(err)
	}
}

func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"name":                             func(c *Config) { c.Name = "" },
		"want one of them":                 func(c *Config) { c.URL = "http://localhost" },
		"an address, or neither":           func(c *Config) { c.Command.Args = nil },
		"timeout":                          func(c *Config) { c.Timeout = 0 },
		"executable file not found":        func(c *Config) { c.Command.Args = []string{"no-such-program-anywhere"} },
		"want http:// or https:// and a h": func(c *Config) { c.Command.Args, c.URL = nil, "localhost:80" },
	} {
		cfg := command(t, "good")
		change(&cfg)
		if _, err := New(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
