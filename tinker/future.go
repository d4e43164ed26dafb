package tinker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/infinirl/infinirl/policy"
)

// errGone tells that the server no longer knows an operation.
var errGone = errors.New("the server no longer knows the operation")

// The pause between polls that were answered at once grows to the second.
const (
	firstPoll = 20 * time.Millisecond
	mostPoll  = time.Second
)

// wait polls for the result of an operation until it is there.
func (c *Client) wait(ctx context.Context, operation, id string, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Operation, policy.Transient(fmt.Errorf("%s: no result after %v", operation, c.cfg.Operation)))
	defer cancel()
	metadata := true // may be answered first
	heard := time.Now()
	between := firstPoll
	var later, broken backoff
	for {
		asked := time.Now()
		data, err := c.poll(ctx, id, metadata)
		var status *StatusError
		errors.As(err, &status)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case status != nil && status.Status == http.StatusTooManyRequests:
			heard, broken = time.Now(), backoff{}
			if err := later.pause(ctx); err != nil {
				return err
			}
			continue
		case status != nil && status.Status == http.StatusRequestTimeout: // try_again by another name
			heard, later, broken = time.Now(), backoff{}, backoff{}
		case status != nil && status.Status == http.StatusGone:
			return fmt.Errorf("%s: %w", operation, errGone)
		case status != nil && status.Status == http.StatusBadRequest:
			return &FailedError{operation, status.Detail}
		case err != nil && mayPass(err):
			if quiet := time.Since(heard); quiet > c.cfg.Patience {
				return policy.Transient(fmt.Errorf("%s: no answer for %v: %w", operation, quiet.Round(time.Second), err))
			}
			if err := broken.pause(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", operation, err)
		default:
			heard, later, broken = time.Now(), backoff{}, backoff{}
			done, more, err := c.result(operation, data, metadata, result)
			if done || err != nil {
				return err
			}
			if more {
				metadata = false
				continue
			}
		}
		if rest := between - time.Since(asked); rest > 0 { // the poll was not held
			if err := policy.Pause(ctx, rest); err != nil {
				return err
			}
		}
		between = min(2*between, mostPoll)
	}
}

func (c *Client) poll(ctx context.Context, id string, metadata bool) ([]byte, error) {
	body, err := json.Marshal(retrieve{RequestID: id, AllowMetadataOnly: metadata})
	if err != nil {
		return nil, err
	}
	return c.exchange(ctx, http.MethodPost, "retrieve_future", body)
}

// result reads a poll's answer: a result, a size that tells that the result is larger
// than a first answer may be (more), or neither yet.
func (c *Client) result(operation string, data []byte, metadata bool, into any) (done, more bool, err error) {
	var p polled
	if err := json.Unmarshal(data, &p); err != nil {
		return false, false, fmt.Errorf("%s: the result: %w", operation, err)
	}
	switch {
	case p.Type == "try_again":
		return false, false, nil
	case p.Status == "complete_metadata":
		if !metadata {
			return false, false, fmt.Errorf("%s: the server tells the size of the result instead of the result", operation)
		}
		if p.PayloadSize > c.cfg.MaxResponse {
			return false, false, fmt.Errorf("%s: a result of %d bytes, want at most %d", operation, p.PayloadSize, c.cfg.MaxResponse)
		}
		return false, true, nil
	case p.Error != nil && string(p.Error) != "null":
		return false, false, &FailedError{operation, detail(data)}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, false, fmt.Errorf("%s: the result: %w", operation, err)
	}
	return true, false, nil
}
