package exec

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/chat"
	"github.com/infinirl/infinirl/env/process"
)

// grace is how long a command has to end once its stdin has.
const grace = 2 * time.Second

// commandPeer is a process that answers a line with a line.
type commandPeer struct {
	host    *Host
	process *process.Process
	lines   *bufio.Reader
}

func newCommandPeer(h *Host, p *process.Process) *commandPeer {
	return &commandPeer{h, p, bufio.NewReaderSize(p.Stdout, 1<<16)}
}

func (p *commandPeer) exchange(ctx context.Context, data []byte, limit int64) ([]byte, error) {
	deadline, _ := ctx.Deadline()
	p.process.Stdin.SetWriteDeadline(deadline)
	p.process.Stdout.SetReadDeadline(deadline)
	// The end of the context ends the wait. Its function has run, or never will, before
	// the next deadlines are set.
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		now := time.Unix(1, 0)
		p.process.Stdin.SetWriteDeadline(now)
		p.process.Stdout.SetReadDeadline(now)
	})
	defer func() {
		if !stop() {
			<-ended
		}
	}()
	if n := p.lines.Buffered(); n > 0 {
		return nil, errors.New("it wrote more than one line for one request: want one, and nothing else on stdout")
	}
	if _, err := p.process.Stdin.Write(append(data, '\n')); err != nil {
		return nil, p.over(ctx, err)
	}
	var line []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		if int64(len(line)+len(part)) > limit {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", bounded.ErrTooLarge, limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSpace(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return line, p.over(ctx, err)
		}
	}
}

// over says why nothing is written or read any more.
func (p *commandPeer) over(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		// The deadline of the pipe and that of the context are the same moment.
		<-ctx.Done()
		return ctx.Err()
	}
	// It closed its stdin or stdout: as a rule because it has ended, and then that says more.
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.process.Exited():
	case <-timer.C:
	case <-ctx.Done():
	}
	return errors.New("it closed stdin or stdout")
}

func (p *commandPeer) explain(err error) error { return p.process.Explain(err) }

// end needs no farewell: the end of stdin, or the next reset, is one.
func (p *commandPeer) end(broken bool, _ []byte) {
	if broken {
		p.process.Kill()
		return
	}
	if p.host.cfg.Reuse {
		p.host.mutex.Lock()
		keep := !p.host.closed
		if keep {
			p.host.idle = append(p.host.idle, p)
		}
		p.host.mutex.Unlock()
		if keep {
			return
		}
	}
	p.process.Close(grace)
}

// client follows no redirect: what is posted goes where the user said.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// httpPeer is an endpoint that answers a request with a response.
type httpPeer struct{ host *Host }

func (p *httpPeer) exchange(ctx context.Context, data []byte, limit int64) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.host.cfg.URL, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range p.host.cfg.Headers {
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return nil, fmt.Errorf("status %s: %q", response.Status, chat.Excerpt(string(bytes.TrimSpace(said))))
	}
	return bounded.ReadAll(response.Body, limit)
}

func (p *httpPeer) explain(err error) error {
	return fmt.Errorf("environment %s: %w", p.host.cfg.URL, err)
}

// end tells the endpoint that a trajectory is over, also a broken one. That it does not
// hear is no failure: it has to forget trajectories by itself too, for we may be gone.
func (p *httpPeer) end(_ bool, farewell []byte) {
	ctx, cancel := context.WithTimeout(p.host.life, grace)
	defer cancel()
	_, _ = p.exchange(ctx, farewell, p.host.cfg.MaxLine)
}

func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("environment: address: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("environment: address %q: want http:// or https:// and a host", address)
	}
	return nil
}
