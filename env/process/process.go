// Package process runs the commands that environments are made of: no shell, a process
// group of its own that ends as a whole, the end of stderr kept for errors.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// kept is how much of the end of stderr is remembered, in bytes.
	kept = 4096
	// drain is how long the rest of stderr is waited for once all processes of the group
	// have ended: one that left the group may hold it open.
	drain = time.Second
)

// Command is what to run.
type Command struct {
	// Args are the program and its arguments. A program without a slash is looked for in
	// PATH. There is no shell.
	Args []string
	// Dir is where it runs, here if empty.
	Dir string
	// Env are variables beyond those of this process, NAME=value.
	Env []string
}

// Check tells before the first start whether there is such a program.
func (c Command) Check() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("command: none: want a program and its arguments")
	}
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil {
			return fmt.Errorf("command %s: folder: %w", c.name(), err)
		} else if !info.IsDir() {
			return fmt.Errorf("command %s: folder %s: it is none", c.name(), c.Dir)
		}
	}
	program := c.Args[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		if program = filepath.Join(c.Dir, program); !strings.Contains(program, "/") {
			program = "./" + program // not one of PATH
		}
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("command %s: %w", c.name(), err)
	}
	return nil
}

func (c Command) name() string { return strings.Join(c.Args, " ") }

// Process is a command that runs. Requests are written to Stdin and answers read from
// Stdout; both obey deadlines. Its methods may be called at any time, by any goroutine.
type Process struct {
	Stdin, Stdout *os.File
	name          string
	command       *exec.Cmd
	stderr        *tail
	exited        chan struct{} // closed when the process and its group have ended
	err           error         // how it ended, once exited is closed
}

// Start starts a command. It is killed, with all processes of its group, when ctx ends.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("command %s: %w", c.name(), err)
	}
	var pipes [6]*os.File // stdin, stdout, stderr: the end to read and the end to write
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	for i := 0; i < len(pipes); i += 2 {
		var err error
		if pipes[i], pipes[i+1], err = os.Pipe(); err != nil {
			closeAll(pipes[:]...)
			return nil, fmt.Errorf("command %s: %w", c.name(), err)
		}
	}
	p := &Process{Stdin: pipes[1], Stdout: pipes[2], name: c.name(), stderr: &tail{}, exited: make(chan struct{})}
	p.command = exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	p.command.Dir = c.Dir
	p.command.Env = append(os.Environ(), c.Env...)
	p.command.Stdin, p.command.Stdout, p.command.Stderr = pipes[0], pipes[3], pipes[5]
	p.command.Cancel = func() error { return killGroup(p.command) }
	ownGroup(p.command)
	err := p.command.Start()
	closeAll(pipes[0], pipes[3], pipes[5])
	if err != nil {
		closeAll(pipes[1], pipes[2], pipes[4])
		return nil, fmt.Errorf("command %s: %w", c.name(), err)
	}
	go p.watch(pipes[4])
	return p, nil
}

// watch waits for the end of the process, and ends what is left of its group.
func (p *Process) watch(stderr *os.File) {
	defer close(p.exited)
	defer stderr.Close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		p.stderr.readFrom(stderr)
	}()
	p.err = p.command.Wait()
	killGroup(p.command)
	stderr.SetReadDeadline(time.Now().Add(drain))
	<-copied
}

// Exited is closed when the process and its group have ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the process and its group, and waits for them.
func (p *Process) Kill() {
	p.Close(0)
}

// Close ends stdin, which asks the process to end, kills its group if it has not within
// grace, and waits for it.
func (p *Process) Close(grace time.Duration) {
	p.Stdin.Close()
	if grace > 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.exited:
		case <-timer.C:
		}
	}
	select {
	case <-p.exited: // its number may be another's by now
	default:
		killGroup(p.command)
		<-p.exited
	}
	p.Stdout.Close()
}

// Explain adds to err how the process ended, if it has, and the end of what it wrote to
// stderr, in one line.
func (p *Process) Explain(err error) error {
	text := ""
	select {
	case <-p.exited:
		text = ": it exited with status 0"
		if p.err != nil {
			text = ": it ended with " + p.err.Error()
		}
	default:
	}
	if said := p.stderr.String(); said != "" {
		text += ": stderr: " + said
	}
	return fmt.Errorf("command %s: %w%s", p.name, err, text)
}

// tail remembers the end of a stream.
type tail struct {
	mutex sync.Mutex
	end   []byte
}

func (t *tail) readFrom(f *os.File) {
	buffer := make([]byte, kept)
	for {
		n, err := f.Read(buffer)
		t.mutex.Lock()
		t.end = append(t.end, buffer[:n]...)
		if over := len(t.end) - kept; over > 0 {
			t.end = t.end[:copy(t.end, t.end[over:])]
		}
		t.mutex.Unlock()
		if err != nil {
			return
		}
	}
}

// String returns the last lines as one: the last of a Python traceback is the exception.
func (t *tail) String() string {
	const lines, length = 3, 400
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var last []string
	for line := range bytes.Lines(t.end) {
		if text := strings.TrimSpace(strings.ToValidUTF8(string(line), "�")); text != "" {
			last = append(last, text)
		}
	}
	text := []rune(strings.Join(last[max(0, len(last)-lines):], " | "))
	if over := len(text) - length; over > 0 {
		return "…" + string(text[over:])
	}
	return string(text)
}
