package tinker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/policy"
)

// backoff waits 1 s, 2 s, 4 s, … up to 30 s.
type backoff struct{ attempt int }

const mostBackoff = 30 * time.Second

func (b *backoff) pause(ctx context.Context) error {
	wait := mostBackoff
	if b.attempt < 5 {
		wait = time.Second << b.attempt
	}
	b.attempt++
	return policy.Pause(ctx, wait)
}

// ask makes a request, again and again while its error is a reason to.
func (c *Client) ask(ctx context.Context, method, path string, request, response any, repeat func(error) bool) error {
	var again backoff
	start := time.Now()
	for {
		err := c.once(ctx, method, path, request, response)
		if err == nil || !repeat(err) {
			return err
		}
		if time.Since(start) > c.cfg.Patience {
			return policy.Transient(fmt.Errorf("given up after %v: %w", time.Since(start).Round(time.Second), err))
		}
		if ended := again.pause(ctx); ended != nil {
			return fmt.Errorf("%w (the last try: %v)", ended, err)
		}
	}
}

// once makes a request. An error that comes of the connection is marked as transient.
func (c *Client) once(ctx context.Context, method, path string, request, response any) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return fmt.Errorf("%s: the request is no JSON: %w", path, err)
		}
	}
	data, err := c.exchange(ctx, method, path, body)
	if err != nil {
		return err
	}
	if response == nil {
		return nil
	}
	if err := json.Unmarshal(data, response); err != nil {
		return fmt.Errorf("%s: the response: %w", path, err)
	}
	return nil
}

// exchange sends a body and returns that of the answer, whole and valid JSON.
func (c *Client) exchange(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	timed, cancel := context.WithTimeout(ctx, c.cfg.Request)
	defer cancel()
	r, err := http.NewRequestWithContext(timed, method, c.cfg.URL+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Key != "" {
		r.Header.Set("X-API-Key", c.cfg.Key)
	}
	lost := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return policy.Transient(fmt.Errorf("%s: %w", path, err))
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, lost(err)
	}
	defer answer.Body.Close()
	limit := c.cfg.MaxResponse
	if answer.StatusCode != http.StatusOK {
		limit = min(limit, 1<<20)
	}
	data, err := bounded.ReadAll(answer.Body, limit)
	switch {
	case errors.Is(err, bounded.ErrTooLarge):
		return nil, fmt.Errorf("%s: the response: %w", path, err)
	case err != nil:
		return nil, lost(err)
	case answer.StatusCode != http.StatusOK:
		return nil, &StatusError{path, answer.StatusCode, detail(data)}
	}
	return data, malformed(path, data, lost)
}

// malformed is the error of a response that is no JSON. Half a body and the page of a
// proxy may pass; a number that JSON does not have is what the server has computed.
func malformed(path string, data []byte, lost func(error) error) error {
	var whole json.RawMessage
	err := json.Unmarshal(data, &whole)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		rest := data[max(0, syntax.Offset-1):]
		for _, number := range []string{"NaN", "Infinity"} {
			if bytes.HasPrefix(rest, []byte(number)) {
				return fmt.Errorf("%s: the response: byte %d is %s: want numbers that JSON has", path, syntax.Offset-1, number)
			}
		}
	}
	return lost(fmt.Errorf("a response of %d bytes that is no JSON: %w", len(data), err))
}

// detail is what an answer says of its error, on one line of bounded length.
func detail(data []byte) string {
	var said struct {
		Detail json.RawMessage `json:"detail"`
		Error  json.RawMessage `json:"error"`
	}
	text := string(data)
	if json.Unmarshal(data, &said) == nil {
		for _, field := range []json.RawMessage{said.Detail, said.Error} {
			if field != nil {
				text = plain(field)
				break
			}
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	if text == "" {
		return "no reason given"
	}
	return text
}

// plain is a JSON string without its quotes, and any other value as it is.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
