// Package tinker is a client of the Tinker protocol: training and sampling on someone
// else's accelerators, as JSON over HTTP. Servers of it are Thinking Machines' service,
// SkyRL, TuFT and Twinkle.
//
// Every operation is submitted, which gives a number, and its result is polled for. The
// client asks again where that is safe. An operation carries its place in the order of its
// model (seq_id), under which some servers take it once, however often it is submitted;
// with others, what changes weights is submitted once, and an answer that is lost leaves
// the model in doubt. Errors that may pass are marked by policy.Transient when the client
// has given up.
package tinker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/infinirl/infinirl/policy"
)

// Config says where the server is and how long to wait for it. Zero durations and sizes
// stand for the defaults.
type Config struct {
	// URL is where the server's paths begin: https://host, http://host:port.
	URL string
	// Key is sent as X-API-Key; "" for servers that want none. No error shows it.
	Key string
	// Transport carries the requests; nil: one of its own, over the network.
	Transport http.RoundTripper
	// Heartbeat is the time between two signs of life; 10 s. After 300 s without one,
	// servers unload the models of a session.
	Heartbeat time.Duration
	// Request bounds one request or poll; 45 s. A poll that takes longer is made again.
	Request time.Duration
	// Patience is how long a server may give no answer, or none but "later", before the
	// client gives up; 5 min.
	Patience time.Duration
	// Operation bounds an operation from its submission to its result; 1 h.
	Operation time.Duration
	// MaxResponse bounds the bytes of a response; 256 MiB.
	MaxResponse int64
}

func (c Config) withDefaults() Config {
	for _, field := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&c.Heartbeat, 10 * time.Second}, {&c.Request, 45 * time.Second}, {&c.Patience, 5 * time.Minute}, {&c.Operation, time.Hour},
	} {
		if *field.value == 0 {
			*field.value = field.otherwise
		}
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = 256 << 20
	}
	return c
}

func (c Config) validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return fmt.Errorf("tinker: URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("tinker: URL: %q: want http://… or https://…", c.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("tinker: URL: want neither a user, a query nor a fragment in it")
	case strings.ContainsAny(c.Key, "\r\n"):
		return errors.New("tinker: key: want one line")
	case c.Heartbeat < 0 || c.Request < 0 || c.Patience < 0 || c.Operation < 0 || c.MaxResponse < 0:
		return errors.New("tinker: durations and sizes: want none below 0")
	}
	return nil
}

// Client is a session with a server: signs of life are sent until Close. It is safe for
// concurrent use.
type Client struct {
	cfg     Config
	http    *http.Client
	session string
	stop    context.CancelFunc
	beating sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	alive    time.Time // when the last sign of life was answered
	deaf     error     // why the one after was not
	models   map[string]*Model
	created  int // models
	sampling int // sampling sessions
}

// Dial opens a session. Its context is for the opening alone.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	cfg.URL = strings.TrimRight(cfg.URL, "/")
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if cfg.Transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = 64
		// Less than servers keep connections (uvicorn: 5 s): a request into one that the
		// server is closing leaves it open whether it has arrived.
		own.IdleConnTimeout = 2 * time.Second
		cfg.Transport = own
	}
	c := &Client{cfg: cfg, models: map[string]*Model{}}
	c.http = &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the key is for this server
	}}
	var session createSessionResponse
	if err := c.ask(ctx, http.MethodPost, "create_session", createSession{Tags: []string{}, Metadata: map[string]string{}, SDKVersion: protocolVersion, Type: "create_session"}, &session, mayPass); err != nil {
		return nil, fmt.Errorf("tinker: open a session: %w", err)
	}
	if session.ErrorMessage != nil && *session.ErrorMessage != "" {
		return nil, fmt.Errorf("tinker: open a session: the server says: %s", *session.ErrorMessage)
	}
	if session.SessionID == "" {
		return nil, errors.New("tinker: open a session: the server names none")
	}
	c.session, c.alive = session.SessionID, time.Now()
	beat, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.beating.Go(func() { c.beat(beat) })
	return c, nil
}

// beat sends signs of life, the first at once: SkyRL never ends a session that has given
// none, and keeps its models.
func (c *Client) beat(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Heartbeat)
	defer ticker.Stop()
	for {
		err := c.once(ctx, http.MethodPost, "session_heartbeat", heartbeat{SessionID: c.session, Type: "session_heartbeat"}, nil)
		c.mu.Lock()
		if c.deaf = err; err == nil {
			c.alive = time.Now()
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// unloadedAfter is the silence after which servers unload the models of a session.
const unloadedAfter = 300 * time.Second

// usable returns an error if the session has ended.
func (c *Client) usable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch silence := time.Since(c.alive); {
	case c.closed:
		return ErrClosed
	case c.deaf != nil && silence > unloadedAfter:
		return fmt.Errorf("the session is lost: no sign of life was answered for %v: %w", silence.Round(time.Second), c.deaf)
	}
	return nil
}

// ErrClosed is the error of operations of a session that is closed.
var ErrClosed = errors.New("the session is closed")

// closing bounds what Close waits for.
const closing = 15 * time.Second

// Close unloads the models of the session and ends it. It waits for at most some
// seconds: what cannot be unloaded, the server unloads by itself when it hears no more.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	models := make([]*Model, 0, len(c.models))
	for _, m := range c.models {
		models = append(models, m)
	}
	c.mu.Unlock()
	c.stop()
	c.beating.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	var failed []error
	for _, m := range models {
		failed = append(failed, m.Unload(ctx))
	}
	c.http.CloseIdleConnections()
	return errors.Join(failed...)
}

// Capabilities lists the base models of the server.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	var out Capabilities
	err := c.ask(ctx, http.MethodGet, "get_server_capabilities", nil, &out, mayPass)
	return out, wrap("capabilities", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tinker: %s: %w", what, err)
}

// StatusError is an answer other than 200.
type StatusError struct {
	Path   string
	Status int
	Detail string
}

func (e *StatusError) Error() string {
	advice := ""
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		advice = ": want a key that this server knows"
	case http.StatusConflict:
		advice = ": the server has had another request under this number"
	}
	return fmt.Sprintf("%s: status %d: %s%s", e.Path, e.Status, e.Detail, advice)
}

// FailedError is an operation that the server has tried and that failed.
type FailedError struct {
	Operation string
	Detail    string
}

func (e *FailedError) Error() string { return fmt.Sprintf("%s failed: %s", e.Operation, e.Detail) }

// passing tells whether a status may be another one when asked again.
func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
}

// mayPass tells whether to ask again: connections that break, and servers that are busy.
func mayPass(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		return passing(status.Status)
	}
	return policy.IsTransient(err)
}

// notTaken tells that a server has certainly not taken a request.
func notTaken(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Status == http.StatusTooManyRequests
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}
