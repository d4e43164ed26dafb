package assembly

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/env"
	"github.com/infinirl/infinirl/env/corpus"
	"github.com/infinirl/infinirl/env/exec"
	"github.com/infinirl/infinirl/env/mcp"
	"github.com/infinirl/infinirl/env/process"
	"github.com/infinirl/infinirl/env/question"
	"github.com/infinirl/infinirl/env/taskfile"
	"github.com/infinirl/infinirl/env/tools"
)

// ownTasks are the user's own: those of a file, played by a command or an endpoint, or
// questions with a grader, with the tools of a corpus and of MCP servers. Errors begin with
// the key of tasks at fault.
func (r *Run) ownTasks(ctx context.Context, renderer chat.Renderer) (env.Tasks, error) {
	cfg := r.cfg.Tasks
	if cfg.File == "" {
		return nil, fmt.Errorf("file: want the tasks, JSON Lines with one task a line (--%s FILE)", config.OwnTasks)
	}
	split := taskfile.Split{Field: cfg.Split}
	if cfg.Split == "" {
		split.Eval, split.Clone = cfg.Eval, cfg.Clone
	}
	file, err := taskfile.Open(cfg.File, split)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	if file.Len(env.Eval) == 0 {
		return nil, fmt.Errorf("file: %s: none of its tasks is held out to evaluate on: want tasks.eval above 0, or a tasks.split that says eval of some", cfg.File)
	}
	budget := tools.Budget{Most: cfg.MaxResult, Count: func(text string) (int, error) {
		ids, err := renderer.EncodeText(text)
		return len(ids), err
	}}
	calls := tools.Config{Parallel: cfg.Parallel, Timeout: seconds(cfg.ToolTimeout), Budget: budget}
	if info, err := os.Stat(cfg.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("dir: %s: want the folder that commands run in", cfg.Dir)
	}
	sources, err := r.sources(ctx)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(cfg.File), filepath.Ext(cfg.File))
	if cfg.Playing() {
		host, err := r.host(ctx, "env", cfg.EnvCommand, cfg.EnvURL, budget)
		if err != nil {
			return nil, err
		}
		tasks := exec.New(name, file, host)
		if len(sources) == 0 {
			return tasks, nil
		}
		return tools.With(tasks, calls, sources...)
	}
	grader, err := r.grader(ctx, file, budget)
	if err != nil {
		return nil, err
	}
	questions, err := question.New(question.Config{Name: name, Tasks: file, System: cfg.System, Sources: sources, Tools: calls, Grader: grader})
	if err != nil {
		return nil, fmt.Errorf("file: %s: %w", cfg.File, err)
	}
	return questions, nil
}

// host is a command or an endpoint, of the keys that begin with role.
func (r *Run) host(ctx context.Context, role string, command []string, address string, budget tools.Budget) (*exec.Host, error) {
	cfg := exec.Default()
	cfg.Timeout, cfg.Budget = seconds(r.cfg.Tasks.Timeout), budget
	key := role + "_command"
	if len(command) > 0 {
		cfg.Command, cfg.Reuse = process.Command{Args: command, Dir: r.cfg.Tasks.Dir}, r.cfg.Tasks.Reuse
	} else {
		headers, err := expanded(r.cfg.Tasks.Headers)
		if err != nil {
			return nil, err
		}
		key, cfg.URL, cfg.Headers = role+"_url", address, headers
	}
	host, err := exec.NewHost(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	r.closes(host.Close)
	return host, nil
}

// grader grades questions: a command, an endpoint, or a comparison with the answer of the task.
func (r *Run) grader(ctx context.Context, file *taskfile.File, budget tools.Budget) (question.Grader, error) {
	cfg := r.cfg.Tasks
	if len(cfg.RewardCommand) > 0 || cfg.RewardURL != "" {
		host, err := r.host(ctx, "reward", cfg.RewardCommand, cfg.RewardURL, budget)
		if err != nil {
			return nil, err
		}
		return exec.Grader{Host: host}, nil
	}
	grader := corpus.Grader{Reward: cfg.Reward}
	if err := grader.Check(file); err != nil {
		return nil, fmt.Errorf("reward: %w", err)
	}
	return grader, nil
}

// sources have the tools that are not the environment's.
func (r *Run) sources(ctx context.Context) ([]tools.Source, error) {
	cfg := r.cfg.Tasks
	var sources []tools.Source
	if cfg.Corpus != "" {
		documents, err := corpus.Open(ctx, corpus.Config{Path: cfg.Corpus, Index: cfg.Index, Analyzer: cfg.Analyzer, Page: cfg.Page})
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		r.closes(documents.Close)
		sources = append(sources, documents.Tools())
	}
	for i, s := range cfg.MCP {
		name := s.Name
		if name == "" {
			name = fmt.Sprint(i + 1)
		}
		headers, err := expanded(s.Headers)
		if err != nil {
			return nil, fmt.Errorf("mcp: server %s: %w", name, err)
		}
		server, err := mcp.New(ctx, mcp.Config{
			Name: name, Command: process.Command{Args: s.Command, Dir: cfg.Dir}, URL: s.URL, Headers: headers,
			Shared: s.Shared, Only: s.Only, Timeout: seconds(cfg.Timeout),
		})
		if err != nil {
			return nil, fmt.Errorf("mcp: server %s: %w", name, err)
		}
		r.closes(server.Close)
		sources = append(sources, server)
	}
	return sources, nil
}

// expanded replaces $NAME in headers by variables of the environment, which holds the
// secrets that a configuration should not.
func expanded(headers map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		var unset error
		out[name] = os.Expand(headers[name], func(variable string) string {
			value, ok := os.LookupEnv(variable)
			if !ok {
				unset = fmt.Errorf("headers: %s: the environment variable %s is not set", name, variable)
			}
			return value
		})
		if unset != nil {
			return nil, unset
		}
	}
	return out, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
