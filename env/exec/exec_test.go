//go:build unix

package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/envtest"
	"github.com/infinirl/infinirl/env/process"
	"github.com/infinirl/infinirl/env/question"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/toolcall"
	"github.com/infinirl/infinirl/env/tools"
)

// behave names the variable that makes the test's own program an environment of a kind.
const behave = "INFINIRL_TEST_ENVIRONMENT"

func TestMain(m *testing.M) {
	if kind := os.Getenv(behave); kind != "" {
		serve(kind)
		return
	}
	os.Exit(m.Run())
}

// serve answers as its kind does; in kind, step= names what happens at a step only.
func serve(kind string) {
	kind, atStep := strings.CutPrefix(kind, "step=")
	lines := bufio.NewReader(os.Stdin)
	if kind == "deaf" {
		select {}
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &struct {
			ID   *int64
			Type *string
		}{&r.ID, &r.Type}); err != nil {
			panic(err)
		}
		if atStep && r.Type == "reset" {
			fmt.Printf(`{"id":%d,"messages":[{"role":"user","content":"go"}]}`+"\n", r.ID)
			continue
		}
		switch kind {
		case "pid":
			fmt.Printf(`{"id":%d,"messages":[{"role":"user","content":"%d"}]}`+"\n", r.ID, os.Getpid())
		case "exit":
			fmt.Fprintln(os.Stderr, "Traceback:\n  line 3\nKeyError: 'turns'")
			os.Exit(3)
		case "hang":
			select {}
		case "silent exit":
			os.Exit(0)
		case "huge":
			chunk := []byte(strings.Repeat("x", 1<<20))
			for range 1 << 10 {
				os.Stdout.Write(chunk)
			}
		case "huge stderr":
			chunk := []byte(strings.Repeat("x", 1<<20))
			for range 64 {
				os.Stderr.Write(chunk)
			}
			os.Exit(1)
		case "grandchild": // which holds stdout, stderr and a pipe, and outlives its parent
			pipe, err := os.OpenFile(os.Getenv("PIPE"), os.O_WRONLY, 0)
			c := osexec.Command("sleep", "1000")
			c.Stdout, c.Stderr, c.ExtraFiles = os.Stdout, os.Stderr, []*os.File{pipe}
			if err = errors.Join(err, c.Start()); err != nil {
				panic(err)
			}
			os.Exit(4)
		default: // an answer, with the id in place of ID
			fmt.Println(strings.ReplaceAll(kind, "ID", strconv.FormatInt(r.ID, 10)))
		}
	}
}

func open(t testing.TB, cfg Config) *Tasks {
	t.Helper()
	host, err := NewHost(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	return New("test", file(t), host)
}

func file(t testing.TB) *taskfile.File {
	t.Helper()
	f, err := taskfile.Open("../../examples/exec/tasks.jsonl", taskfile.Split{Field: "split"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func kind(t testing.TB, name string) Config {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	cfg.Command = process.Command{Args: []string{program}, Env: []string{behave + "=" + name}}
	return cfg
}

func python(t testing.TB, script string) Config {
	t.Helper()
	path, err := osexec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	cfg := Default()
	cfg.Command = process.Command{Args: []string{path, script}, Dir: "../../examples/exec"}
	return cfg
}

func TestTheExample(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		t.Run(fmt.Sprint("reuse ", reuse), func(t *testing.T) {
			cfg := python(t, "numbers.py")
			cfg.Reuse = reuse
			envtest.Run(t, open(t, cfg))
		})
	}
}

// Every task of the example is solved by halving.
func TestTheExampleIsSolved(t *testing.T) {
	t.Parallel()
	cfg := python(t, "numbers.py")
	cfg.Reuse = true
	tasks := open(t, cfg)
	e := tasks.New(1)
	defer e.Close()
	for i := range tasks.Len(env.Train) {
		o, err := e.Reset(context.Background(), tasks.Task(env.Train, i))
		if err != nil {
			t.Fatal(err)
		}
		var high int
		if _, err := fmt.Sscanf(o.Messages[0].Content, "Find the number: it is one of 1 to %d.", &high); err != nil {
			t.Fatal(err)
		}
		for low := 1; !o.Done; {
			middle := (low + high) / 2
			if o, err = e.Step(context.Background(), toolcall.New("guess", map[string]int{"number": middle})); err != nil {
				t.Fatal(err)
			}
			switch o.Messages[0].Content {
			case "too low":
				low = middle + 1
			case "too high":
				high = middle - 1
			}
		}
		if !o.Success || o.Reward != 1 {
			t.Errorf("task %d: %+v", i, o)
		}
	}
}

func TestTheExampleOfAReward(t *testing.T) {
	t.Parallel()
	cfg := python(t, "grader.py")
	cfg.Reuse = true
	host, err := NewHost(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	tasks, err := question.New(question.Config{Name: "graded", Tasks: file(t), Tools: tools.Default(), Grader: Grader{host}})
	if err != nil {
		t.Fatal(err)
	}
	envtest.Run(t, tasks)
	for _, test := range []struct {
		say  string
		want float64
	}{{"it is 2", 1}, {"no idea", 0}} {
		e := tasks.New(0)
		if _, err := e.Reset(context.Background(), env.Task{ID: "a", Data: []byte(`{"prompt":"?","answer":2}`)}); err != nil {
			t.Fatal(err)
		}
		o, err := e.Step(context.Background(), chat.Message{Role: chat.Assistant, Content: test.say})
		if err != nil || !o.Done || o.Reward != test.want || o.Success != (test.want == 1) {
			t.Errorf("%q: %+v, error %v, want reward %v", test.say, o, err, test.want)
		}
	}
}

// play resets, and steps with two calls if that went well.
func play(ctx context.Context, tasks *Tasks) (env.Observation, error) {
	e := tasks.New(0)
	defer e.Close()
	o, err := e.Reset(ctx, tasks.Task(env.Train, 0))
	if err != nil {
		return o, err
	}
	return e.Step(ctx, chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}, {ID: "b", Name: "g", Arguments: "{"}}})
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	const tool = `{"role":"tool","content":"x"}`
	for _, test := range []struct {
		kind string
		want []string
	}{
		{"exit", []string{"no answer to reset", "exit status 3", "KeyError: 'turns'"}},
		{"step=exit", []string{"no answer to step", "exit status 3", "KeyError: 'turns'"}},
		{"silent exit", []string{"no answer to reset", "exited with status 0"}},
		{"hang", []string{"no answer to reset within 500ms"}},
		{"step=hang", []string{"no answer to step within 500ms"}},
		{"huge", []string{"too large: a line of more than 4194304 bytes"}},
		{"huge stderr", []string{"exit status 1", "stderr: …xxx"}},
		{"Hello, world", []string{`the answer to reset is "Hello, world"`, "nothing else on stdout"}},
		{" ", []string{`the answer to reset is ""`}},
		{`{"id":ID}{"id":ID}`, []string{"text behind the JSON object"}},
		{"{\"id\":ID}\n{\"id\":ID}", []string{"answer to step"}}, // it depends on whether both were read at once
		{`{"id":7777}`, []string{"want the id of the request"}},
		{`{"messages":[]}`, []string{"want the id of the request"}},
		{`{"id":ID,"error":"out of memory"}`, []string{`reset: it reports the error "out of memory"`}},
		{`{"id":ID,"tool":[]}`, []string{`unknown field "tool"`}},
		{`{"id":ID,"reward":1}`, []string{"reset: reward, done or success"}},
		{`{"id":ID,"messages":[` + tool + `]}`, []string{`reset: messages[0]: role "tool"`}},
		{`{"id":ID,"tools":[{"name":"f"},{"name":"f"}]}`, []string{"tool f: two have this name"}},
		{`{"id":ID,"tools":[{"name":"f","parameters":[]}]}`, []string{"want a JSON Schema object"}},
		{`step={"id":ID}`, []string{"step: no messages, and the trajectory goes on"}},
		{`step={"id":ID,"done":true,"success":false}`, []string{"step: done without a reward"}},
		{`step={"id":ID,"done":true,"reward":null,"success":false}`, []string{"step: done without a reward"}},
		{`step={"id":ID,"done":true,"reward":NaN,"success":false}`, []string{"the answer to step", "invalid character 'N'"}},
		{`step={"id":ID,"done":true,"reward":1e999,"success":true}`, []string{"cannot unmarshal number 1e999"}},
		{`step={"id":ID,"done":true,"reward":1}`, []string{"step: done without a reward and success"}},
		{`step={"id":ID,"messages":[` + tool + `]}`, []string{"step: 1 messages for 2 calls"}},
		{`step={"id":ID,"messages":[` + tool + `,{"role":"tool","tool_call_id":"a"}]}`, []string{`tool_call_id "a": want the result of call "b" of g`}},
		{`step={"id":ID,"messages":[` + tool + `,` + tool + `,` + tool + `]}`, []string{"messages[2]", "want user"}},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			cfg := kind(t, test.kind)
			if strings.Contains(test.kind, "hang") {
				cfg.Timeout = 500 * time.Millisecond
			}
			_, err := play(context.Background(), open(t, cfg))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(test.want, "command "+cfg.Command.Args[0]) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 1500 {
				t.Errorf("the error is not one line: %q", err)
			}
		})
	}
}

func TestAnswersInOrder(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	cfg := kind(t, `step={"id":ID,"reward":0.5,"metrics":{"lines":2},"messages":[{"role":"tool","content":"one"},{"role":"tool","tool_call_id":"b","content":"`+long+`"},{"role":"user","content":"and"}]}`)
	cfg.Budget = tools.Budget{Most: 64}
	o, err := play(context.Background(), open(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	want := []chat.Message{
		{Role: chat.ToolRole, ToolCallID: "a", Name: "f", Content: "one"},
		{Role: chat.ToolRole, ToolCallID: "b", Name: "g", Content: strings.Repeat("x", 31) + "\n[169 of 200 characters left out]"},
		{Role: chat.User, Content: "and"},
	}
	if fmt.Sprint(o.Messages) != fmt.Sprint(want) || o.Reward != 0.5 || o.Metrics["lines"] != 2 {
		t.Errorf("got %+v, want %+v", o, want)
	}
}

// The end of a context ends the wait, and the process with all that it started.
func TestTheEndOfAContext(t *testing.T) {
	t.Parallel()
	tasks := open(t, kind(t, "hang"))
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() { _, err := play(ctx, tasks); failed <- err }()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	host := tasks.host
	if err := host.Close(); err != nil { // waits for every process
		t.Error(err)
	}
	if _, err := play(context.Background(), tasks); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after close: error %v", err)
	}
}

func TestTheGroupEndsWithItsHead(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { // the pipe ends with the last that holds it, which is the grandchild
		f, err := os.Open(pipe)
		if err == nil {
			_, err = io.ReadAll(f)
			f.Close()
		}
		ended <- err
	}()
	cfg := kind(t, "grandchild")
	cfg.Command.Env = append(cfg.Command.Env, "PIPE="+pipe)
	if _, err := play(context.Background(), open(t, cfg)); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("error %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestProcessesAreReusedOrNot(t *testing.T) {
	t.Parallel()
	for _, reuse := range []bool{false, true} {
		cfg := kind(t, "pid")
		cfg.Reuse = reuse
		tasks := open(t, cfg)
		var pids []string
		for range 3 {
			e := tasks.New(0)
			o, err := e.Reset(context.Background(), tasks.Task(env.Train, 0))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, o.Messages[0].Content)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(pids)
		if got, want := len(slices.Compact(pids)), map[bool]int{false: 3, true: 1}[reuse]; got != want {
			t.Errorf("reuse %v: %d processes for 3 trajectories, want %d", reuse, got, want)
		}
	}
}

// A process that died while it was idle is replaced.
func TestAnIdleProcessThatDied(t *testing.T) {
	t.Parallel()
	cfg := kind(t, "pid")
	cfg.Reuse = true
	tasks := open(t, cfg)
	for range 2 {
		e := tasks.New(0)
		o, err := e.Reset(context.Background(), tasks.Task(env.Train, 0))
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		pid, err := strconv.Atoi(o.Messages[0].Content)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-tasks.host.idle[0].process.Exited()
	}
}

// A request that fills the pipe of a command that does not read ends in time, too.
func TestADeafCommand(t *testing.T) {
	t.Parallel()
	cfg := kind(t, "deaf")
	cfg.Timeout = 500 * time.Millisecond
	e := open(t, cfg).New(0)
	defer e.Close()
	task := env.Task{ID: "long", Data: []byte(`{"prompt":"` + strings.Repeat("x", 1<<20) + `"}`)}
	if _, err := e.Reset(context.Background(), task); err == nil || !strings.Contains(err.Error(), "no answer to reset within 500ms") {
		t.Errorf("error %v", err)
	}
}

func TestEnoughIsEnough(t *testing.T) {
	t.Parallel()
	cfg := kind(t, `step={"id":ID,"messages":[{"role":"user","content":"`+strings.Repeat("x", 900)+`"}]}`)
	cfg.MaxLine, cfg.MaxTrajectory = 1000, 2500
	tasks := open(t, cfg)
	e := tasks.New(0)
	defer e.Close()
	if _, err := e.Reset(context.Background(), tasks.Task(env.Train, 0)); err != nil {
		t.Fatal(err)
	}
	for step := 0; ; step++ {
		_, err := e.Step(context.Background(), chat.Message{Role: chat.Assistant, Content: "more"})
		if err != nil {
			if step != 2 || !strings.Contains(err.Error(), "too large") {
				t.Errorf("step %d: %v", step, err)
			}
			return
		}
	}
}

// endpoint plays numbers.py's game over HTTP, many trajectories at once.
type endpoint struct {
	mutex sync.Mutex
	left  map[string]int
}

func (s *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Trajectory, Type string
		ID               int64
		Version          int
		Task             struct{ Turns int }
		Calls            []call `json:"tool_calls"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Version != Version || r.Header.Get("Authorization") != "Bearer x" {
		http.Error(w, fmt.Sprint("bad request: ", err), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var messages []chat.Message
	switch q.Type {
	case "reset":
		s.left[q.Trajectory] = q.Task.Turns
	case "close":
		delete(s.left, q.Trajectory)
	case "step":
		s.left[q.Trajectory]--
		for range q.Calls {
			messages = append(messages, chat.Message{Role: chat.ToolRole, Content: "no"})
		}
		if len(messages) == 0 {
			messages = []chat.Message{{Role: chat.User, Content: "call guess"}}
		}
	}
	answer := map[string]any{"id": q.ID, "messages": messages}
	if q.Type == "step" && s.left[q.Trajectory] == 0 {
		answer["reward"], answer["done"], answer["success"] = 0, true, false
	}
	json.NewEncoder(w).Encode(answer)
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	service := &endpoint{left: map[string]int{}}
	server := httptest.NewServer(service)
	defer server.Close()
	cfg := Default()
	cfg.URL, cfg.Headers = server.URL, map[string]string{"Authorization": "Bearer x"}
	tasks := open(t, cfg)
	if err := envtest.Check(tasks); err != nil {
		t.Fatal(err)
	}
	if len(service.left) > 1 { // envtest leaves one open
		t.Errorf("%d trajectories were not closed", len(service.left))
	}
}

func TestBadEndpoints(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{}, 2) // one for the reset, one for the farewell
	for name, test := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no such model", http.StatusServiceUnavailable)
		}, `status 503 Service Unavailable: "no such model"`},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, "status 307"},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, `the answer to reset is "<html>"`},
		"hang": {func(w http.ResponseWriter, r *http.Request) {
			<-stop
		}, "no answer to reset within 300ms"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			chunk := []byte(strings.Repeat("x", 1<<20))
			for range 1 << 10 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "too large: more than 4194304 bytes"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.serve)
			defer server.Close()
			cfg := Default()
			cfg.URL = server.URL
			if name == "hang" {
				cfg.Timeout = 300 * time.Millisecond
			}
			_, err := play(context.Background(), open(t, cfg))
			if name == "hang" {
				stop <- struct{}{}
				stop <- struct{}{}
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), server.URL) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"a command and an address, or neither": func(c *Config) { c.Command.Args = nil },
		"want one of them":                     func(c *Config) { c.URL = "http://localhost" },
		"timeout":                              func(c *Config) { c.Timeout = 0 },
		"bytes an answer":                      func(c *Config) { c.MaxTrajectory = 1 },
		"tools.budget":                         func(c *Config) { c.Budget.Most = 3 },
		"executable file not found":            func(c *Config) { c.Command.Args = []string{"no-such-program-anywhere"} },
		"no-such-program: ":                    func(c *Config) { c.Command.Args = []string{"./no-such-program"} },
		"no such file":                         func(c *Config) { c.Command.Dir = filepath.Join("no", "such", "folder") },
		"want http:// or https://":             func(c *Config) { c.Command.Args, c.URL = nil, "localhost:80" },
	} {
		cfg := kind(t, "pid")
		change(&cfg)
		if _, err := NewHost(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The document shows the requests as they are.
func TestRequestsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/environments.md")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(7)
	for i, r := range []request{
		{Type: "reset", Task: json.RawMessage(`{"id":"a","prompt":"Find it."}`), Seed: &seed},
		{Type: "step", action: newAction(chat.Message{Role: chat.Assistant, NoContent: true, ToolCalls: []chat.ToolCall{{ID: "c1", Name: "guess", Arguments: `{"number": 5}`}}})},
		{Type: "grade", Task: json.RawMessage(`{"id":"a"}`), Messages: []chat.Message{{Role: chat.User, Content: "Find it."}, {Role: chat.Assistant, Content: "5"}}},
		{Type: "close"},
	} {
		r.Version, r.Trajectory, r.ID = Version, "T", int64(i+1)
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n    "+string(line)+"\n") {
			t.Errorf("docs/environments.md lacks %s", line)
		}
	}
}

// A grader that fails is no reward of 0.
func TestABrokenGraderFailsTheTrajectory(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"exit", "garbage", `{"id":ID}`, `{"id":ID,"reward":1}`, `{"id":ID,"success":true}`, `{"id":ID,"reward":null,"success":true}`} {
		host, err := NewHost(context.Background(), kind(t, name))
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := question.New(question.Config{Name: "graded", Tasks: file(t), Tools: tools.Default(), Grader: Grader{host}})
		if err != nil {
			t.Fatal(err)
		}
		e := tasks.New(0)
		if _, err := e.Reset(context.Background(), tasks.Task(env.Train, 0)); err != nil {
			t.Fatal(err)
		}
		o, err := e.Step(context.Background(), chat.Message{Role: chat.Assistant, Content: "5"})
		if err == nil || o.Done || !strings.Contains(err.Error(), "grade the answer to task number-0: ") {
			t.Errorf("%s: %+v, error %v", name, o, err)
		}
		host.Close()
	}
}
