package tinker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/learner"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/learner/learnertest"
	"github.com/infinirl/infinirl/learner/tinker"
	"github.com/infinirl/infinirl/learner/tinker/tinkertest"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/ppo"
	wire "github.com/infinirl/infinirl/tinker"
)

const vocabulary = 19

func base(t *testing.T) *lm.Model {
	t.Helper()
	m, err := lm.NewActor(lm.Config{VocabSize: vocabulary, HiddenSize: 16, IntermediateSize: 32, NumHiddenLayers: 2, NumAttentionHeads: 2,
		MaxPositionEmbeddings: 64, InitializerRange: 0.2, EmbeddingInit: 0.5}, 1)
	if err != nil {
		t.Fatal(err)
	}
	m.Threads = 2
	return m
}

// serve starts a server; reduction is sum or row mean.
func serve(t *testing.T, cfg tinkertest.Config) *tinkertest.Server {
	t.Helper()
	cfg.Base, cfg.Name = base(t), "tiny"
	s := tinkertest.NewServer(cfg)
	t.Cleanup(func() { s.Close() })
	return s
}

func dial(t *testing.T, s *tinkertest.Server, cfg wire.Config) *wire.Client {
	t.Helper()
	cfg.URL, cfg.Transport = "http://server", s.Transport()
	c, err := wire.Dial(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// settings suit the test server.
func settings(rowMean bool) tinker.Config {
	fill := map[bool]int{true: 4}[rowMean]
	return tinker.Config{
		Profile:   tinker.Profile{Name: "test", RowMean: rowMean, Rows: fill, PPO: true, GradClip: tinker.ClipAsAsked, WeightDecay: true, CriticRole: true, Reference: true, Once: true},
		BaseModel: "tiny", Temperature: 1, MaxGradNorm: 1, Vocabulary: vocabulary,
	}
}

func reductions(t *testing.T, do func(t *testing.T, rowMean bool)) {
	for name, rowMean := range map[string]bool{"sum": false, "row mean": true} {
		t.Run(name, func(t *testing.T) { do(t, rowMean) })
	}
}

func TestConformance(t *testing.T) {
	reductions(t, func(t *testing.T, rowMean bool) {
		for _, kind := range []string{"critic by role", "token critic"} {
			t.Run(kind, func(t *testing.T) {
				server := serve(t, tinkertest.Config{RowMean: rowMean})
				ctx := context.Background()
				learnertest.Run(t, func() (s learnertest.Subject, err error) {
					client := dial(t, server, wire.Config{})
					s = learnertest.Subject{Vocabulary: vocabulary, LearningRate: 0.01, Tolerance: 1e-5}
					if s.Learner, err = tinker.NewLearner(ctx, client, settings(rowMean)); err != nil {
						return s, err
					}
					if kind == "token critic" {
						s.Critic, err = tinker.NewTokenCritic(ctx, client, settings(rowMean), 3, 4)
					} else {
						s.Critic, err = tinker.NewCritic(ctx, client, settings(rowMean))
					}
					return s, err
				})
			})
		}
	})
}

// near holds numbers to a relative tolerance.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(1, math.Abs(want))) {
		t.Errorf("%s: %v: want %v", what, got, want)
	}
}

// Every loss is, over the wire, that of the embedded learner: the same losses, gradient
// norms and log-probs after each of three steps, natively and by the surrogate, in one
// request and in several.
func TestLossesAreTheEmbeddedOnes(t *testing.T) {
	plain := ppo.Config{Loss: ppo.LossPPO, ClipLow: 0.2, ClipHigh: 0.28, KLKind: ppo.K3, KLIn: ppo.KLInLoss, Aggregation: ppo.TokenMean, RolloutCorrection: ppo.CorrectionNone, RolloutCap: 2}
	losses := map[string]func(*ppo.Config){
		"plain clip":           func(*ppo.Config) {},
		"trajectory mean":      func(c *ppo.Config) { c.Aggregation = ppo.TrajectoryMean },
		"seq-mean-token-mean":  func(c *ppo.Config) { c.Aggregation = ppo.SeqMeanTokenMean },
		"dual clip":            func(c *ppo.Config) { c.DualClip = 1.5 },
		"gspo":                 func(c *ppo.Config) { c.Loss, c.Aggregation = ppo.LossGSPO, ppo.SeqMeanTokenSum },
		"cispo":                func(c *ppo.Config) { c.Loss = ppo.LossCISPO },
		"pg":                   func(c *ppo.Config) { c.Loss = ppo.LossPG },
		"KL in the loss":       func(c *ppo.Config) { c.KLCoef = 0.3 },
		"rollout correction":   func(c *ppo.Config) { c.RolloutCorrection = ppo.CorrectionTruncate },
		"values clipped":       func(c *ppo.Config) { c.ValueClip = 0.05 },
		"small requests, clip": func(c *ppo.Config) {},
	}
	reductions(t, func(t *testing.T, rowMean bool) {
		for name, change := range losses {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx := context.Background()
				loss := plain
				change(&loss)
				server := serve(t, tinkertest.Config{RowMean: rowMean})
				client := dial(t, server, wire.Config{})
				cfg := settings(rowMean)
				if strings.HasPrefix(name, "small requests") {
					cfg.MaxTokens = 24
				}
				there, err := tinker.NewLearner(ctx, client, cfg)
				if err != nil {
					t.Fatal(err)
				}
				criticThere, err := tinker.NewCritic(ctx, client, settings(rowMean))
				if err != nil {
					t.Fatal(err)
				}
				here, err := embedded.NewActor(base(t), embedded.Config{Threads: 2, Temperature: 1, MaxGradNorm: 1})
				if err != nil {
					t.Fatal(err)
				}
				criticHere, err := embedded.NewCritic(base(t), embedded.Config{Threads: 2, Temperature: 1, MaxGradNorm: 1})
				if err != nil {
					t.Fatal(err)
				}
				mini := learnertest.Batch(3, vocabulary)
				mini.RefLogProbs, mini.RolloutLogProbs = mini.Values, make([]float32, mini.Tokens())
				if mini.OldLogProbs, err = here.LogProbs(ctx, mini); err != nil {
					t.Fatal(err)
				}
				for k, p := range mini.OldLogProbs {
					mini.RolloutLogProbs[k] = p * 1.3
				}
				update := learner.UpdateConfig{Loss: loss, LearningRate: 0.01}
				for step := range 3 {
					want, err := here.Update(ctx, mini, update)
					if err != nil {
						t.Fatal(err)
					}
					got, err := there.Update(ctx, mini, update)
					if err != nil {
						t.Fatal(err)
					}
					near(t, "loss", got.Metrics.Loss, want.Metrics.Loss, 1e-5)
					near(t, "clip fraction", got.Metrics.ClipFraction, want.Metrics.ClipFraction, 1e-9)
					near(t, "KL", got.Metrics.KL, want.Metrics.KL, 1e-5)
					near(t, "gradient norm", got.GradNorm, want.GradNorm, 1e-4)
					wantValues, err := criticHere.Update(ctx, mini, update)
					if err != nil {
						t.Fatal(err)
					}
					gotValues, err := criticThere.Update(ctx, mini, update)
					if err != nil {
						t.Fatal(err)
					}
					near(t, "value loss", gotValues.Metrics.ValueLoss, wantValues.Metrics.ValueLoss, 1e-5)
					near(t, "critic's gradient norm", gotValues.GradNorm, wantValues.GradNorm, 1e-4)
					a, err := here.LogProbs(ctx, mini)
					if err != nil {
						t.Fatal(err)
					}
					b, err := there.LogProbs(ctx, mini)
					if err != nil {
						t.Fatal(err)
					}
					for k := range a {
						near(t, "log-prob", float64(b[k]), float64(a[k]), 1e-4)
					}
					if t.Failed() {
						t.Fatalf("at step %d", step)
					}
				}
				// A plain clip takes one pass an update; beside it are three of the critic's
				// updates and three of the log-probs.
				passes := map[bool]int{true: 6, false: 9}[loss.Loss == ppo.LossPPO && loss.DualClip == 0 && loss.KLCoef == 0 && loss.RolloutCorrection == ppo.CorrectionNone]
				if got := server.Calls("forward"); cfg.MaxTokens == 0 && got != passes {
					t.Errorf("%d forward passes: want %d", got, passes)
				}
			})
		}
	})
}

// A token critic learns targets.
func TestTokenCriticLearns(t *testing.T) {
	reductions(t, func(t *testing.T, rowMean bool) {
		ctx := context.Background()
		critic, err := tinker.NewTokenCritic(ctx, dial(t, serve(t, tinkertest.Config{RowMean: rowMean}), wire.Config{}), settings(rowMean), 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		mini := learnertest.Batch(6, vocabulary).Select([]int{0, 1})
		for i, target := range []float32{0.9, 0.2} {
			start, end := mini.Span(i)
			for k := start; k < end; k++ {
				mini.Returns[k] = target
			}
		}
		cfg := learner.UpdateConfig{Loss: ppo.Config{Aggregation: ppo.TokenMean}, LearningRate: 0.005}
		for range 60 {
			if _, err := critic.Update(ctx, mini, cfg); err != nil {
				t.Fatal(err)
			}
		}
		values, err := critic.Values(ctx, mini)
		if err != nil {
			t.Fatal(err)
		}
		for k, trainable := range mini.LossMask {
			if trainable {
				near(t, "value", float64(values[k]), float64(mini.Returns[k]), 0.1)
			}
		}
	})
}

// What servers accept without a word is refused here.
func TestWhatServersAccept(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := serve(t, tinkertest.Config{})
	client := dial(t, server, wire.Config{})
	l, err := tinker.NewLearner(ctx, client, settings(false))
	if err != nil {
		t.Fatal(err)
	}
	loss := ppo.Config{Loss: ppo.LossPPO, ClipLow: 0.2, ClipHigh: 0.2, Aggregation: ppo.TokenMean, KLKind: ppo.K3, KLIn: ppo.KLInLoss, RolloutCorrection: ppo.CorrectionNone, RolloutCap: 2}
	before := server.Calls("forward_backward")
	for want, change := range map[string]func(b *batch.Batch, l *ppo.Config){
		"id 19":                      func(b *batch.Batch, _ *ppo.Config) { b.TokenIDs[3] = vocabulary },
		"id -1":                      func(b *batch.Batch, _ *ppo.Config) { b.TokenIDs[0] = -1 },
		"old_log_probs: 0 entries":   func(b *batch.Batch, _ *ppo.Config) { b.OldLogProbs = nil },
		"advantages: 0 entries":      func(b *batch.Batch, _ *ppo.Config) { b.Advantages = nil },
		"advantages: 3 entries":      func(b *batch.Batch, _ *ppo.Config) { b.Advantages = b.Advantages[:3] },
		"ref_log_probs: 0 entries":   func(_ *batch.Batch, l *ppo.Config) { l.KLCoef = 1 },
		"rollout_log_probs: 0 entri": func(_ *batch.Batch, l *ppo.Config) { l.RolloutCorrection = ppo.CorrectionMask },
		"ppo.entropy_coef":           func(_ *batch.Batch, l *ppo.Config) { l.EntropyCoef = 0.1 },
		"aggregation":                func(_ *batch.Batch, l *ppo.Config) { l.Aggregation = "sum" },
		"first token is trainable":   func(b *batch.Batch, _ *ppo.Config) { b.LossMask[0] = true },
		"NaN":                        func(b *batch.Batch, _ *ppo.Config) { b.Advantages[b.Rows[0].PromptLen] = float32(math.NaN()) },
		"without a trainable token":  func(b *batch.Batch, _ *ppo.Config) { clear(b.LossMask) },
		"positions": func(b *batch.Batch, _ *ppo.Config) {
			n := 65
			*b = batch.Batch{Rows: []batch.Row{{TrajectoryID: "long", PromptLen: 1}}, CuSeqLens: []int64{0, int64(n)}, TokenIDs: make([]int32, n), LossMask: make([]bool, n)}
			b.LossMask[n-1] = true
			b.OldLogProbs, b.Advantages = make([]float32, n), make([]float32, n)
		},
	} {
		b, cfg := learnertest.Batch(1, vocabulary), loss
		change(b, &cfg)
		if _, err := l.Update(ctx, b, learner.UpdateConfig{Loss: cfg, LearningRate: 0.01}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
	if server.Calls("forward_backward") != before || l.Version() != 0 {
		t.Error("a gradient was sent")
	}
	if _, err := l.Update(ctx, learnertest.Batch(1, vocabulary), learner.UpdateConfig{Loss: loss, LearningRate: 0.01}); err != nil {
		t.Errorf("after refusals: %v", err)
	}
	for want, change := range map[string]func(*tinker.Config){
		`base model "other"`:  func(c *tinker.Config) { c.BaseModel = "other" },
		"rollout.temperature": func(c *tinker.Config) { c.Temperature = 0.7 },
		"train.max_grad_norm": func(c *tinker.Config) { c.Profile = tinker.SkyRLJAX },
		"train.weight_decay":  func(c *tinker.Config) { c.Profile, c.WeightDecay = tinker.SkyRLFSDP, 0.1 },
		"vocabulary 0":        func(c *tinker.Config) { c.Vocabulary = 0 },
	} {
		cfg := settings(false)
		change(&cfg)
		if _, err := tinker.NewLearner(ctx, client, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
	for name, profile := range map[string]tinker.Profile{"hosted": tinker.Hosted, "skyrl-jax": tinker.SkyRLJAX, "skyrl-fsdp": tinker.SkyRLFSDP} {
		if p, err := tinker.Lookup(name); err != nil || p != profile {
			t.Errorf("profile %s: %+v, %v", name, p, err)
		}
	}
	if _, err := tinker.Lookup("vllm"); err == nil {
		t.Error("a profile that does not exist")
	}
	cfg := settings(false)
	cfg.Profile.CriticRole, cfg.Profile.Reference = false, false
	if _, err := tinker.NewCritic(ctx, client, cfg); err == nil {
		t.Error("a critic on a server that has none")
	}
	if _, err := tinker.NewReference(ctx, client, cfg); err == nil {
		t.Error("a reference on a server that has no room")
	}
}

// counting counts the rows of each request for a pass.
type counting struct {
	http.RoundTripper
	mu   sync.Mutex
	rows []int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "forward") || strings.HasSuffix(r.URL.Path, "forward_backward") {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		var sent map[string]json.RawMessage
		var input struct{ Data []json.RawMessage }
		if err := json.Unmarshal(text, &sent); err != nil {
			return nil, err
		}
		for name, value := range sent {
			if strings.HasSuffix(name, "_input") {
				if err := json.Unmarshal(value, &input); err != nil {
					return nil, err
				}
			}
		}
		c.mu.Lock()
		c.rows = append(c.rows, len(input.Data))
		c.mu.Unlock()
	}
	return c.RoundTripper.RoundTrip(r)
}

// Every request has a whole multiple of the profile's rows, long batches too, which are
// sent in several; and an update is the same in one request and in several.
func TestRequestsAreFilledUp(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var want []float32
	for _, most := range []int{0, 40} {
		server := serve(t, tinkertest.Config{RowMean: true})
		count := &counting{RoundTripper: server.Transport()}
		client, err := wire.Dial(ctx, wire.Config{URL: "http://server", Transport: count})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		cfg := settings(true)
		cfg.Profile.Rows, cfg.MaxTokens = 3, most
		l, err := tinker.NewLearner(ctx, client, cfg)
		if err != nil {
			t.Fatal(err)
		}
		critic, err := tinker.NewTokenCritic(ctx, client, cfg, 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		mini := learnertest.Batch(3, vocabulary)
		if n := len(mini.Rows); n%3 == 0 {
			t.Fatalf("%d rows: want a number that is no multiple", n)
		}
		if _, err := l.Update(ctx, mini, surrogate); err != nil {
			t.Fatal(err)
		}
		if values, err := critic.StateValues(ctx, [][]int32{{1}, {2, 3}, {4, 5, 6}, {7}}); err != nil || len(values) != 4 {
			t.Errorf("values %v: %v", values, err)
		}
		got, err := l.LogProbs(ctx, mini)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range count.rows {
			if n == 0 || n%3 != 0 {
				t.Errorf("requests of %v rows: want multiples of 3", count.rows)
			}
		}
		if passes := len(count.rows); (most == 0) != (passes == 4) {
			t.Errorf("%d requests for four passes, at most %d tokens each", passes, most)
		}
		if want == nil {
			want = got
		}
		for k := range got {
			near(t, "log-prob", float64(got[k]), float64(want[k]), 1e-5)
		}
	}
}
