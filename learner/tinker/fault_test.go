package tinker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/learner/tinker"
	"github.com/infinirl/infinirl/learner/tinker/tinkertest"
	"github.com/infinirl/infinirl/policy"
	"github.com/infinirl/infinirl/ppo"
	wire "github.com/infinirl/infinirl/tinker"
)

// surrogate is a loss of two passes.
var surrogate = learner.UpdateConfig{
	Loss:         ppo.Config{Loss: ppo.LossPPO, ClipLow: 0.2, ClipHigh: 0.2, DualClip: 3, Aggregation: ppo.TokenMean, KLKind: ppo.K3, KLIn: ppo.KLInLoss, RolloutCorrection: ppo.CorrectionNone, RolloutCap: 2},
	LearningRate: 0.01,
}

// threeUpdates is a small run; it returns the log-probs at its end.
func threeUpdates(ctx context.Context, l *tinker.Learner) ([]float32, error) {
	mini := learnertest.Batch(3, vocabulary)
	for range 3 {
		if _, err := l.Update(ctx, mini, surrogate); err != nil {
			return nil, err
		}
		if _, err := l.Publish(ctx); err != nil {
			return nil, err
		}
	}
	return l.LogProbs(ctx, mini)
}

// open starts a server with a fault, and a learner on it.
func open(t *testing.T, cfg tinkertest.Config, client wire.Config) (*tinkertest.Server, *wire.Client, *tinker.Learner) {
	t.Helper()
	server := serve(t, cfg)
	c := dial(t, server, client)
	l, err := tinker.NewLearner(context.Background(), c, settings(cfg.RowMean))
	if err != nil {
		t.Fatal(err)
	}
	return server, c, l
}

// Whatever passes changes nothing: the run ends at the same weights, and the server has
// taken three steps.
func TestPassingFaults(t *testing.T) {
	var want []float32
	synctest.Test(t, func(t *testing.T) {
		_, _, l := open(t, tinkertest.Config{}, wire.Config{})
		var err error
		if want, err = threeUpdates(context.Background(), l); err != nil {
			t.Fatal(err)
		}
	})
	submissions := []tinkertest.Fault{tinkertest.Refused, tinkertest.Killed, tinkertest.HalfBody, tinkertest.Busy, tinkertest.Timeout, tinkertest.Broken, tinkertest.Page, tinkertest.CutShort, tinkertest.Endless}
	polls := append(slices.Clone(submissions), tinkertest.Gone, tinkertest.TryAgain)
	for path, faults := range map[string][]tinkertest.Fault{
		"create_session": submissions, "create_model": submissions, "forward": submissions, "forward_backward": submissions, "optim_step": submissions,
		"save_weights_for_sampler": submissions, "get_server_capabilities": submissions, "session_heartbeat": submissions, "retrieve_future": polls,
	} {
		for _, fault := range faults {
			t.Run(path+", "+string(fault), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hit := 0
					server, _, l := open(t, tinkertest.Config{Fault: func(p string, call int) tinkertest.Fault {
						// Now and then, and two in a row.
						if p == path && (call%5 == 0 || call%5 == 1) {
							hit++
							return fault
						}
						return tinkertest.None
					}}, wire.Config{})
					if path == "session_heartbeat" {
						time.Sleep(100 * time.Second)
					}
					got, err := threeUpdates(context.Background(), l)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got, want) || server.Steps() != 3 || l.Version() != 3 {
						t.Errorf("%d steps, version %d, and other log-probs: %v", server.Steps(), l.Version(), !slices.Equal(got, want))
					}
					if hit == 0 {
						t.Error("nothing went wrong")
					}
				})
			})
		}
	}
}

// A server that takes twice what is submitted twice is not asked twice: where it is not
// known whether it has a gradient or a step, the learner says so, and goes on from the
// checkpoint before to the same weights.
func TestServersThatTakeTwice(t *testing.T) {
	mini := learnertest.Batch(3, vocabulary)
	ctx := context.Background()
	var want []float32
	synctest.Test(t, func(t *testing.T) {
		_, _, l := open(t, tinkertest.Config{}, wire.Config{})
		var err error
		if want, err = threeUpdates(ctx, l); err != nil {
			t.Fatal(err)
		}
	})
	for _, path := range []string{"forward", "forward_backward", "optim_step", "retrieve_future", "retrieve_future of a step"} {
		for fault, known := range map[tinkertest.Fault]bool{ // that the server has not taken it
			tinkertest.Killed: false, tinkertest.HalfBody: false, tinkertest.CutShort: false, tinkertest.Broken: false, tinkertest.Page: false, tinkertest.Timeout: false, tinkertest.Endless: false, tinkertest.Busy: true, tinkertest.Gone: false,
		} {
			if fault == tinkertest.Gone && !strings.HasPrefix(path, "retrieve") {
				continue
			}
			t.Run(path+", "+string(fault), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var on atomic.Bool
					on.Store(true)
					server := serve(t, tinkertest.Config{Twice: true, Fault: func(p string, call int) tinkertest.Fault {
						of, _, step := strings.Cut(path, " ")
						first := map[bool]int{false: 2, true: 4}[step] // polls: creation, save, forward, backward, step
						if p == of && (of != "retrieve_future" && call == 0 || of == "retrieve_future" && call == first) && on.Swap(false) {
							return fault
						}
						return tinkertest.None
					}})
					cfg := settings(false)
					cfg.Profile.Once = false
					l, err := tinker.NewLearner(ctx, dial(t, server, wire.Config{}), cfg)
					if err != nil {
						t.Fatal(err)
					}
					doubts := 0
					for range 3 {
						dir := t.TempDir()
						if err := l.Save(ctx, dir); err != nil {
							t.Fatal(err)
						}
						_, err := l.Update(ctx, mini, surrogate)
						if err == nil {
							continue
						}
						doubts++
						if _, refused := l.Publish(ctx); policy.IsTransient(err) || refused == nil {
							t.Errorf("error %v, and then %v", err, refused)
						}
						if err := l.Load(ctx, dir); err != nil {
							t.Fatal(err)
						}
						if _, err := l.Update(ctx, mini, surrogate); err != nil {
							t.Fatal(err)
						}
					}
					got, err := l.LogProbs(ctx, mini)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got, want) || l.Version() != 3 {
						t.Errorf("version %d, and other weights", l.Version())
					}
					submission := path == "forward_backward" || path == "optim_step"
					lost := path == "retrieve_future of a step" && fault == tinkertest.Gone
					if wantDoubts := map[bool]int{true: 1}[submission && !known || lost]; doubts != wantDoubts || on.Load() {
						t.Errorf("%d times in doubt: want %d", doubts, wantDoubts)
					}
				})
			})
		}
	}
}

// Answers that are not what was asked for are errors, and the learner knows that its
// weights are in doubt, until it loads.
func TestSpoiledAnswers(t *testing.T) {
	for _, fault := range []tinkertest.Fault{
		tinkertest.NullLogProbs, tinkertest.SpelledNaN, tinkertest.BareNaN, tinkertest.FewerRows, tinkertest.OtherOrder, tinkertest.MoreTokens, tinkertest.DiskFull,
	} {
		for _, backward := range []bool{false, true} {
			if backward && (fault == tinkertest.OtherOrder || fault == tinkertest.MoreTokens) {
				continue // of a pass for the gradient alone nothing is read
			}
			t.Run(fmt.Sprint(fault, ", backward ", backward), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := context.Background()
					var spoil atomic.Bool
					var skip atomic.Int32
					server, _, l := open(t, tinkertest.Config{Fault: func(path string, _ int) tinkertest.Fault {
						if path != "retrieve_future" || !spoil.Load() || skip.Add(-1) >= 0 {
							return tinkertest.None
						}
						return fault
					}}, wire.Config{})
					mini := learnertest.Batch(3, vocabulary)
					if _, err := l.Update(ctx, mini, surrogate); err != nil {
						t.Fatal(err)
					}
					dir := t.TempDir()
					if err := l.Save(ctx, dir); err != nil {
						t.Fatal(err)
					}
					spoil.Store(true)
					if backward {
						skip.Store(1) // the forward pass
					}
					if _, err := l.LogProbs(ctx, mini); !backward && (err == nil || policy.IsTransient(err)) {
						t.Errorf("log-probs: error %v", err)
					}
					if backward {
						skip.Store(1)
					}
					if _, err := l.Update(ctx, mini, surrogate); err == nil || policy.IsTransient(err) {
						t.Errorf("update: error %v", err)
					}
					spoil.Store(false)
					if l.Version() != 1 || server.Steps() != 1 {
						t.Errorf("version %d after %d steps: want 1", l.Version(), server.Steps())
					}
					_, err := l.Publish(ctx)
					if doubt := err != nil; doubt != backward {
						t.Errorf("after the error: %v", err)
					}
					if backward {
						for _, err := range []error{second(l.LogProbs(ctx, mini)), second(l.Update(ctx, mini, surrogate)), l.Save(ctx, dir)} {
							if err == nil || !strings.Contains(err.Error(), "want a checkpoint loaded") {
								t.Errorf("in doubt: error %v", err)
							}
						}
						if err := l.Load(ctx, dir); err != nil {
							t.Fatal(err)
						}
						if server.Models() != 1 {
							t.Errorf("%d models are loaded: want that of the checkpoint", server.Models())
						}
					}
					if _, err := l.Update(ctx, mini, surrogate); err != nil || l.Version() != 2 {
						t.Errorf("version %d: %v", l.Version(), err)
					}
				})
			})
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A server that never comes back is given up, as is an operation that never ends.
func TestNothingHangs(t *testing.T) {
	for name, c := range map[string]struct {
		fault tinkertest.Fault
		path  string
		most  time.Duration
	}{
		"a poll that never ends":     {tinkertest.Endless, "retrieve_future", 7 * time.Minute},
		"a submission without end":   {tinkertest.Endless, "forward", 7 * time.Minute},
		"a dead server":              {tinkertest.Refused, "retrieve_future", 7 * time.Minute},
		"a server that only fails":   {tinkertest.Broken, "retrieve_future", 7 * time.Minute},
		"always later":               {tinkertest.TryAgain, "retrieve_future", 61 * time.Minute},
		"always busy":                {tinkertest.Busy, "retrieve_future", 61 * time.Minute},
		"lost again and again":       {tinkertest.Gone, "retrieve_future", 7 * time.Minute},
		"busy at the submission":     {tinkertest.Busy, "forward", 7 * time.Minute},
		"half a body, and no better": {tinkertest.HalfBody, "retrieve_future", 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var on atomic.Bool
				_, _, l := open(t, tinkertest.Config{Fault: func(path string, _ int) tinkertest.Fault {
					if on.Load() && path == c.path {
						return c.fault
					}
					return tinkertest.None
				}}, wire.Config{})
				on.Store(true)
				start := time.Now()
				_, err := l.LogProbs(context.Background(), learnertest.Batch(3, vocabulary))
				if took := time.Since(start); !policy.IsTransient(err) || took > c.most {
					t.Errorf("after %v: error %v: want one that may pass", took, err)
				}
				on.Store(false)
			})
		})
	}
}

// Ctrl-C ends a wait at once, wherever it is.
func TestInterrupt(t *testing.T) {
	for _, path := range []string{"forward", "forward_backward", "optim_step", "retrieve_future", "retrieve_future, again", "pause"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var on atomic.Bool
				server, client, l := open(t, tinkertest.Config{Fault: func(p string, _ int) tinkertest.Fault {
					switch {
					case on.Load() && p == path:
						return tinkertest.Endless
					case on.Load() && p == "retrieve_future" && path == "retrieve_future, again":
						return tinkertest.TryAgain
					case on.Load() && p == "forward" && path == "pause":
						return tinkertest.Busy
					}
					return tinkertest.None
				}}, wire.Config{})
				on.Store(true)
				ctx, cancel := context.WithCancelCause(context.Background())
				interrupted := errors.New("interrupted")
				var at time.Time
				time.AfterFunc(20*time.Second, func() {
					at = time.Now()
					cancel(interrupted)
				})
				_, err := l.Update(ctx, learnertest.Batch(3, vocabulary), surrogate)
				if !errors.Is(err, interrupted) || time.Since(at) > 0 {
					t.Errorf("%v after the interrupt: error %v", time.Since(at), err)
				}
				if l.Version() != 0 {
					t.Errorf("version %d", l.Version())
				}
				on.Store(false)
				if err := client.Close(); err != nil || server.Models() != 0 {
					t.Errorf("%d models after the end: %v", server.Models(), err)
				}
			})
		})
	}
}

// An operation that was left before its submission was answered keeps its number: those
// after it come in their turn, and it is done once.
func TestInterruptedSubmissionKeepsItsPlace(t *testing.T) {
	for _, fault := range []tinkertest.Fault{tinkertest.Killed, tinkertest.Endless} { // it arrived, or did not
		synctest.Test(t, func(t *testing.T) {
			var on atomic.Bool
			server, _, l := open(t, tinkertest.Config{Fault: func(path string, _ int) tinkertest.Fault {
				if on.Load() && path == "forward" {
					return fault
				}
				return tinkertest.None
			}}, wire.Config{})
			on.Store(true)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if _, err := l.LogProbs(ctx, learnertest.Batch(4, vocabulary)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			on.Store(false)
			if _, err := threeUpdates(context.Background(), l); err != nil || server.Steps() != 3 {
				t.Errorf("%d steps: %v", server.Steps(), err)
			}
		})
	}
}

// A key that the server does not know is an error at once, which does not show it.
func TestWrongKey(t *testing.T) {
	t.Parallel()
	server := serve(t, tinkertest.Config{Key: "right"})
	_, err := wire.Dial(context.Background(), wire.Config{URL: "http://server", Transport: server.Transport(), Key: "tml-secret"})
	if err == nil || policy.IsTransient(err) || !strings.Contains(err.Error(), "status 401") || !strings.Contains(err.Error(), "want a key") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	if n := server.Calls("create_session"); n != 1 {
		t.Errorf("asked %d times", n)
	}
	dial(t, server, wire.Config{Key: "right"})
}

// A server that is restarted has no models: the run says so, and goes on from its
// checkpoint over a new session, to the weights of one that was not interrupted.
func TestRestartedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		mini := learnertest.Batch(3, vocabulary)
		server, client, l := open(t, tinkertest.Config{}, wire.Config{})
		dir := t.TempDir()
		if _, err := l.Update(ctx, mini, surrogate); err != nil {
			t.Fatal(err)
		}
		if err := l.Save(ctx, dir); err != nil {
			t.Fatal(err)
		}
		server.Restart()
		_, err := l.Update(ctx, mini, surrogate)
		if err == nil || policy.IsTransient(err) || !strings.Contains(err.Error(), "no model") {
			t.Errorf("after the restart: error %v", err)
		}
		if err := client.Close(); err == nil {
			t.Error("a model that is gone was unloaded")
		}
		l, err = tinker.NewLearner(ctx, dial(t, server, wire.Config{}), settings(false))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Load(ctx, dir); err != nil {
			t.Fatal(err)
		}
		if server.Models() != 1 {
			t.Errorf("%d models: a fresh one can load", server.Models())
		}
		for range 2 {
			if _, err := l.Update(ctx, mini, surrogate); err != nil {
				t.Fatal(err)
			}
		}
		got, err := l.LogProbs(ctx, mini)
		if err != nil {
			t.Fatal(err)
		}
		_, _, whole := open(t, tinkertest.Config{}, wire.Config{})
		want, err := threeUpdates(ctx, whole)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) || l.Version() != 3 {
			t.Errorf("version %d, and other weights than those of a run that was not interrupted", l.Version())
		}
	})
}

// Without signs of life that are answered, the session is lost.
func TestLostSession(t *testing.T) {
	for _, fault := range []tinkertest.Fault{tinkertest.Refused, tinkertest.Expired, tinkertest.Page} {
		t.Run(string(fault), func(t *testing.T) { lostSession(t, fault) })
	}
}

func lostSession(t *testing.T, fault tinkertest.Fault) {
	synctest.Test(t, func(t *testing.T) {
		_, client, l := open(t, tinkertest.Config{Fault: func(path string, _ int) tinkertest.Fault {
			if path == "session_heartbeat" {
				return fault
			}
			return tinkertest.None
		}}, wire.Config{})
		mini := learnertest.Batch(3, vocabulary)
		time.Sleep(290 * time.Second)
		if _, err := l.LogProbs(context.Background(), mini); err != nil {
			t.Errorf("before the time is up: %v", err)
		}
		time.Sleep(20 * time.Second)
		if _, err := l.LogProbs(context.Background(), mini); err == nil || !strings.Contains(err.Error(), "the session is lost") {
			t.Errorf("error %v", err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.LogProbs(context.Background(), mini); !errors.Is(err, wire.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A server whose disk is full fails to save, and says why: the learner goes on, and is
// where it was.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var full atomic.Bool
		server, _, l := open(t, tinkertest.Config{Fault: func(path string, _ int) tinkertest.Fault {
			if full.Load() && path == "retrieve_future" {
				return tinkertest.DiskFull
			}
			return tinkertest.None
		}}, wire.Config{})
		mini := learnertest.Batch(3, vocabulary)
		if _, err := l.Update(ctx, mini, surrogate); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		full.Store(true)
		saved := l.Save(ctx, dir)
		_, published := l.Publish(ctx)
		for _, err := range []error{saved, published} {
			if err == nil || policy.IsTransient(err) || !strings.Contains(err.Error(), "No space left on device") {
				t.Errorf("error %v", err)
			}
		}
		if err := l.Load(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a checkpoint that was not saved is loaded: %v", err)
		}
		full.Store(false)
		for range 2 {
			if _, err := l.Update(ctx, mini, surrogate); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Save(ctx, dir); err != nil || l.Version() != 3 || server.Steps() != 3 {
			t.Errorf("version %d, %d steps: %v", l.Version(), server.Steps(), err)
		}
	})
}

// What is refused says so at once: a model that the server does not know, and a session
// that it has ended.
func TestRefusedAtOnce(t *testing.T) {
	for path, fault := range map[string]tinkertest.Fault{"forward": tinkertest.Expired, "create_model": tinkertest.Expired, "save_weights": tinkertest.Expired} {
		synctest.Test(t, func(t *testing.T) {
			var on atomic.Bool
			server, client, l := open(t, tinkertest.Config{Fault: func(p string, _ int) tinkertest.Fault {
				if on.Load() && p == path {
					return fault
				}
				return tinkertest.None
			}}, wire.Config{})
			on.Store(true)
			start, calls := time.Now(), server.Calls(path)
			var err error
			switch path {
			case "forward":
				_, err = l.LogProbs(context.Background(), learnertest.Batch(3, vocabulary))
			case "create_model":
				_, err = tinker.NewLearner(context.Background(), client, settings(false))
			case "save_weights":
				err = l.Save(context.Background(), t.TempDir())
			}
			if err == nil || policy.IsTransient(err) || !strings.Contains(err.Error(), "status 410") || time.Since(start) > 0 || server.Calls(path) != calls+1 {
				t.Errorf("%s: after %v and %d requests: error %v", path, time.Since(start), server.Calls(path)-calls, err)
			}
		})
	}
}

// A model whose unloading was done and whose answer was lost is unloaded; one that the
// server does not know is an error.
func TestUnloadedOnce(t *testing.T) {
	for _, fault := range []tinkertest.Fault{tinkertest.None, tinkertest.Killed, tinkertest.HalfBody, tinkertest.Busy, tinkertest.Refused, tinkertest.Expired} {
		synctest.Test(t, func(t *testing.T) {
			server, client, _ := open(t, tinkertest.Config{Fault: func(path string, call int) tinkertest.Fault {
				if path == "unload_model" && call == 0 {
					return fault
				}
				return tinkertest.None
			}}, wire.Config{})
			err := client.Close()
			if refused := fault == tinkertest.Expired; (err != nil) != refused || !refused && server.Models() != 0 {
				t.Errorf("%s: %d models are left: %v", fault, server.Models(), err)
			}
		})
	}
}

// A session gives a sign of life at once: some servers never end one that has given none.
func TestFirstSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, _ := open(t, tinkertest.Config{}, wire.Config{})
		synctest.Wait()
		if n := server.Calls("session_heartbeat"); n != 1 {
			t.Errorf("%d signs of life at once: want 1", n)
		}
		time.Sleep(25 * time.Second)
		if n := server.Calls("session_heartbeat"); n != 3 {
			t.Errorf("%d signs of life after 25 s: want 3", n)
		}
	})
}
