package tinker_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/infinirl/infinirl/assembly"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/learner/tinker"
	"github.com/infinirl/infinirl/learner/tinker/tinkertest"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/policy"
	sampling "github.com/infinirl/infinirl/policy/tinker"
	wire "github.com/infinirl/infinirl/tinker"
	"github.com/infinirl/infinirl/train"
)

// folded is an embedded sampler with the seeds that go over the wire.
type folded struct{ *lm.Sampler }

func (f folded) Sample(ctx context.Context, request policy.Request) (policy.Completion, error) {
	request.Seed = uint64(sampling.Seed(request.Seed))
	return f.Sampler.Sample(ctx, request)
}

// small is the key-to-door configuration cut down to seconds.
func small(t *testing.T, overrides ...string) config.Config {
	t.Helper()
	cfg, err := config.Shipped("keytodoor")
	if err != nil {
		t.Fatal(err)
	}
	for _, assignment := range append([]string{"rollout.groups=4", "train.steps=3", "train.minibatches=2", "eval.tasks=8", "rollout.max_turns=12", "train.old_log_probs=learner"}, overrides...) {
		if err := cfg.Set(assignment); err != nil {
			t.Fatal(err)
		}
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// parts opens a configuration with an embedded learner, and a copy of its base model.
func parts(t *testing.T, cfg config.Config) (*assembly.Run, *lm.Model) {
	t.Helper()
	run, err := assembly.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	model := run.Parts.Learner.(*embedded.Actor).Model().Clone()
	model.Threads = 2
	return run, model
}

// trainOver trains over parts that have been exchanged for others.
func trainOver(t *testing.T, ctx context.Context, p train.Parts, cfg config.Config, opts train.Options) error {
	t.Helper()
	trainer, err := train.New(p, cfg.Loop())
	if err != nil {
		t.Fatal(err)
	}
	opts.Description = []byte("{}\n")
	_, err = trainer.Run(ctx, opts)
	return err
}

// remoteParts exchanges what samples and learns for parts on a server.
func remoteParts(t *testing.T, client *wire.Client, p train.Parts, cfg config.Config, model *lm.Model, rowMean bool) train.Parts {
	t.Helper()
	ctx := context.Background()
	settings := settings(rowMean)
	settings.Temperature, settings.MaxGradNorm, settings.WeightDecay = cfg.Rollout.Temperature, cfg.Train.MaxGradNorm, cfg.Train.WeightDecay
	settings.Vocabulary, settings.Positions = model.Config().VocabSize, model.Config().MaxPositionEmbeddings
	var err error
	if p.Learner, err = tinker.NewLearner(ctx, client, settings); err != nil {
		t.Fatal(err)
	}
	if p.Critic, err = tinker.NewCritic(ctx, client, settings); err != nil {
		t.Fatal(err)
	}
	if p.Reference, err = tinker.NewReference(ctx, client, settings); err != nil {
		t.Fatal(err)
	}
	if p.Sampler, err = sampling.New(client, sampling.Config{Vocabulary: settings.Vocabulary, Positions: settings.Positions}); err != nil {
		t.Fatal(err)
	}
	return p
}

// steps are the metrics of a run without its times.
func steps(t *testing.T, dir string) []train.StepMetrics {
	t.Helper()
	list, err := train.ReadMetrics(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Timing = train.Timing{}
	}
	return list
}

// A run over a Tinker server, over a real connection, ends at the losses of one with the
// embedded learner, whatever the reduction of the server, natively and by the surrogate.
func TestTrainingRunsAreTheEmbeddedOnes(t *testing.T) {
	for name, overrides := range map[string][]string{
		"surrogate": {"ppo.kl_coef=0.01"},
		"native":    {"ppo.dual_clip=0"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(t, overrides...)
			here, model := parts(t, cfg)
			p := here.Parts
			p.Sampler = folded{p.Sampler.(*lm.Sampler)}
			dir := filepath.Join(t.TempDir(), "embedded")
			if err := trainOver(t, context.Background(), p, cfg, train.Options{Dir: dir}); err != nil {
				t.Fatal(err)
			}
			want := steps(t, dir)
			reductions(t, func(t *testing.T, rowMean bool) {
				server := tinkertest.NewServer(tinkertest.Config{Base: model, Name: "tiny", RowMean: rowMean, Key: "k"})
				defer server.Close()
				network := httptest.NewServer(server)
				defer network.Close()
				client, err := wire.Dial(context.Background(), wire.Config{URL: network.URL, Key: "k"})
				if err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(t.TempDir(), "tinker")
				if err := trainOver(t, context.Background(), remoteParts(t, client, here.Parts, cfg, model, rowMean), cfg, train.Options{Dir: dir}); err != nil {
					t.Fatal(err)
				}
				if err := client.Close(); err != nil || server.Models() != 0 {
					t.Errorf("%d models are left: %v", server.Models(), err)
				}
				got := steps(t, dir)
				if len(got) != 3 || len(want) != 3 {
					t.Fatalf("%d and %d steps: want 3", len(got), len(want))
				}
				updates := 3 * cfg.Train.Epochs * cfg.Train.Minibatches
				if n := server.Steps(); n != 2*updates { // of actor and critic
					t.Errorf("%d optimizer steps: want %d", n, 2*updates)
				}
				for i := range want {
					if got[i].TrainableTokens != want[i].TrainableTokens || got[i].RowTokens != want[i].RowTokens || got[i].Success != want[i].Success {
						t.Errorf("step %d: rollouts of %d tokens: want %d", i+1, got[i].RowTokens, want[i].RowTokens)
					}
					a, b := got[i].Update, want[i].Update
					near(t, "loss", a.Loss, b.Loss, 1e-4)
					near(t, "policy loss", a.PolicyLoss, b.PolicyLoss, 1e-4)
					near(t, "value loss", a.ValueLoss, b.ValueLoss, 1e-4)
					near(t, "KL loss", a.KLLoss, b.KLLoss, 1e-4)
					near(t, "approximate KL", a.ApproxKL, b.ApproxKL, 1e-4)
					near(t, "actor's gradient norm", got[i].ActorGradNorm, want[i].ActorGradNorm, 1e-3)
					near(t, "critic's gradient norm", got[i].CriticGradNorm, want[i].CriticGradNorm, 1e-3)
					if drift := got[i].LogProbDriftMax; !(drift < 1e-5) {
						t.Errorf("step %d: sampler and learner differ by %v", i+1, drift)
					}
					t.Logf("step %d: loss %.8f, embedded %.8f (difference %.1e); drift %.1e", i+1, a.Loss, b.Loss, a.Loss-b.Loss, got[i].LogProbDriftMax)
				}
			})
		})
	}
}

// A run that is interrupted within an update, before its first checkpoint and after it,
// and whose server is restarted, goes on and ends as one that was not.
func TestTrainingGoesOn(t *testing.T) {
	cfg := small(t, "train.checkpoint_every=1", "train.steps=2")
	run, model := parts(t, cfg)
	whole, cut := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "cut")
	var left atomic.Int64 // gradients until the interrupt
	var stop atomic.Value
	server := tinkertest.NewServer(tinkertest.Config{Base: model, Name: "tiny", Fault: func(path string, _ int) tinkertest.Fault {
		if path == "forward_backward" && left.Add(-1) == 0 {
			stop.Load().(context.CancelFunc)()
		}
		return tinkertest.None
	}})
	defer server.Close()
	over := func(interrupt int64, opts train.Options) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stop.Store(cancel)
		left.Store(interrupt)
		client, err := wire.Dial(ctx, wire.Config{URL: "http://server", Transport: server.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		return trainOver(t, ctx, remoteParts(t, client, run.Parts, cfg, model, false), cfg, opts)
	}
	if err := over(0, train.Options{Dir: whole}); err != nil {
		t.Fatal(err)
	}
	aStep := int64(2 * cfg.Train.Epochs * cfg.Train.Minibatches)
	for n, interrupt := range []int64{3, aStep + 2} {
		if err := over(interrupt, train.Options{Dir: cut, Resume: n > 0}); !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted at gradient %d: error %v", interrupt, err)
		}
		server.Restart()
	}
	if err := over(0, train.Options{Dir: cut, Resume: true}); err != nil {
		t.Fatal(err)
	}
	if a, b := steps(t, whole), steps(t, cut); !reflect.DeepEqual(a, b) {
		t.Errorf("the run that was interrupted differs:\n%+v\n%+v", b, a)
	}
}

// distant is a connection that takes its time.
type distant struct{ http.RoundTripper }

func (d distant) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(10 * time.Millisecond)
	return d.RoundTripper.RoundTrip(r)
}

// Whatever passes, wherever in a run, does not show in what it comes to, and no step is
// taken twice.
func TestTrainingThroughFaults(t *testing.T) {
	cfg := small(t, "train.steps=2", "rollout.groups=2", "eval.tasks=2", "rollout.concurrency=4", "train.epochs=1")
	here, model := parts(t, cfg)
	faults := []tinkertest.Fault{
		tinkertest.Refused, tinkertest.Killed, tinkertest.HalfBody, tinkertest.CutShort, tinkertest.Busy, tinkertest.Timeout, tinkertest.Broken, tinkertest.Page, tinkertest.Endless,
	}
	over := func(faulty bool) (metrics []train.StepMetrics) {
		synctest.Test(t, func(t *testing.T) {
			hit := 0
			server := tinkertest.NewServer(tinkertest.Config{Base: model, Name: "tiny", Fault: func(path string, call int) tinkertest.Fault {
				if !faulty || call%5 != 2 {
					return tinkertest.None
				}
				hit++
				fault := faults[hit%len(faults)]
				if path == "retrieve_future" && hit%4 == 0 {
					fault = []tinkertest.Fault{tinkertest.Gone, tinkertest.TryAgain}[hit/4%2]
				}
				return fault
			}})
			defer server.Close()
			client, err := wire.Dial(context.Background(), wire.Config{URL: "http://server", Transport: distant{server.Transport()}, Request: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			dir := filepath.Join(t.TempDir(), "run")
			if err := trainOver(t, context.Background(), remoteParts(t, client, here.Parts, cfg, model, false), cfg, train.Options{Dir: dir}); err != nil {
				t.Fatal(err)
			}
			if n, want := server.Steps(), 2*2*cfg.Train.Minibatches; n != want { // of actor and critic
				t.Errorf("%d optimizer steps: want %d", n, want)
			}
			if faulty && hit < 100 {
				t.Errorf("%d faults: want more", hit)
			}
			if err := client.Close(); err != nil || server.Models() != 0 {
				t.Errorf("%d models are left: %v", server.Models(), err)
			}
			metrics = steps(t, dir)
		})
		return metrics
	}
	if a, b := over(false), over(true); !reflect.DeepEqual(a, b) {
		t.Errorf("the run with faults differs:\n%+v\n%+v", b, a)
	}
}

// A server that is killed in the middle of a run, and started again without its models,
// ends the run with an error; resumed, it goes on from its checkpoint and ends as one
// whose server stayed.
func TestTrainingGoesOnAfterTheServerWasKilled(t *testing.T) {
	cfg := small(t, "train.checkpoint_every=1", "train.steps=2", "rollout.groups=2", "eval.tasks=2", "rollout.concurrency=4", "train.epochs=1")
	here, model := parts(t, cfg)
	for path, call := range map[string]int{"asample": 90, "forward": 7, "forward_backward": 7, "optim_step": 6, "save_weights": 2, "save_weights_for_sampler": 2} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole, cut := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "cut")
				var kill atomic.Bool
				restarted := make(chan struct{})
				var server *tinkertest.Server
				server = tinkertest.NewServer(tinkertest.Config{Base: model, Name: "tiny", Fault: func(p string, n int) tinkertest.Fault {
					if p == path && n >= call && kill.Swap(false) {
						go func() { // the request that kills it is in flight
							server.Restart()
							close(restarted)
						}()
						return tinkertest.Endless
					}
					return tinkertest.None
				}})
				defer server.Close()
				over := func(opts train.Options) error {
					client, err := wire.Dial(context.Background(), wire.Config{URL: "http://server", Transport: distant{server.Transport()}, Request: 5 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					defer client.Close() // its models may have gone
					return trainOver(t, context.Background(), remoteParts(t, client, here.Parts, cfg, model, false), cfg, opts)
				}
				kill.Store(true)
				if err := over(train.Options{Dir: cut}); err == nil || !strings.Contains(err.Error(), "no model") && !strings.Contains(err.Error(), "no sampling session") {
					t.Fatalf("the server was killed: error %v", err)
				}
				<-restarted
				if err := over(train.Options{Dir: cut, Resume: true}); err != nil {
					t.Fatal(err)
				}
				if err := over(train.Options{Dir: whole}); err != nil {
					t.Fatal(err)
				}
				if a, b := steps(t, whole), steps(t, cut); !reflect.DeepEqual(a, b) {
					t.Errorf("the run whose server was killed differs:\n%+v\n%+v", b, a)
				}
			})
		})
	}
}
