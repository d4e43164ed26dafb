// Package tinker trains policies and critics on servers that speak the Tinker protocol.
//
// Credit, weights and losses stay here. Where a loss is a plain clip the server computes
// it; any other is exact through its gradient: the server scores the rows, dL/dlog π is
// computed here, and the loss importance_sampling at those log-probs with the advantages
// −dL/dlog π has that gradient. Servers accept lengths, ids and columns that make no
// sense, and may answer less than they were asked: both are checked here.
package tinker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/batch"
	"github.com/infinirl/infinirl/bounded"
	"github.com/infinirl/infinirl/tinker"
)

// Config says what is trained, and how, whatever the loss.
type Config struct {
	Profile   Profile
	BaseModel string // as the server names it
	Rank      int    // of the LoRA adapter; 0: full fine-tuning, where the server has it
	Seed      int64  // of the adapter's first weights

	Temperature float64 // that samplers sample at
	WeightDecay float64
	MaxGradNorm float64 // gradients are clipped to it; 0: not

	// Vocabulary is the number of ids.
	Vocabulary int
	// Positions is the length of the longest sequence; 0: as the server tells.
	Positions int
	// MaxTokens bounds the tokens of a request; 0: 131,072. Longer batches are sent in
	// several.
	MaxTokens int
}

// The optimizer is that of the embedded engine.
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// remote is a model on a server, and what is known of it here.
type remote struct {
	client  *tinker.Client
	cfg     Config
	role    string // on the server: "" or critic
	name    string // in checkpoints
	model   *tinker.Model
	used    bool // loading has to be a model's first operation
	version atomic.Int64
	// doubt is why it is not known which weights the server has; nil: they are those of
	// version updates.
	doubt error
}

func newRemote(ctx context.Context, client *tinker.Client, cfg Config, role, name string) (*remote, error) {
	fail := func(err error) (*remote, error) { return nil, fmt.Errorf("tinker %s: %w", name, err) }
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens = 1 << 17
	}
	switch {
	case cfg.BaseModel == "":
		return fail(errors.New("base model: want a name that the server knows"))
	case cfg.Vocabulary < 1 || cfg.Rank < 0 || cfg.Positions < 0 || cfg.MaxTokens < 1:
		return fail(fmt.Errorf("vocabulary %d, rank %d, positions %d, tokens of a request %d: want a vocabulary from 1, and nothing below 0", cfg.Vocabulary, cfg.Rank, cfg.Positions, cfg.MaxTokens))
	}
	if err := cfg.Profile.check(cfg); err != nil {
		return fail(err)
	}
	capabilities, err := client.Capabilities(ctx)
	if err != nil {
		return fail(err)
	}
	if err := cfg.fit(capabilities.SupportedModels); err != nil {
		return fail(err)
	}
	r := &remote{client: client, cfg: cfg, role: role, name: name}
	if r.model, err = r.create(ctx); err != nil {
		return fail(err)
	}
	return r, nil
}

// fit holds the configuration against the models that the server lists: it would take
// another name for its own.
func (c *Config) fit(models []tinker.SupportedModel) error {
	var names []string
	for _, m := range models {
		if m.ModelName != c.BaseModel {
			names = append(names, m.ModelName)
			continue
		}
		if told := m.MaxContextLength; told > 0 && (c.Positions == 0 || c.Positions > told) {
			c.Positions = told
		}
		if c.Positions == 0 {
			return fmt.Errorf("base model %s: the server does not tell its positions, and would go beyond them: want them configured", c.BaseModel)
		}
		return nil
	}
	return fmt.Errorf("base model %q: want one that the server has: %s", c.BaseModel, strings.Join(names, ", "))
}

func (r *remote) create(ctx context.Context) (*tinker.Model, error) {
	lora := tinker.LoRA{Rank: r.cfg.Rank, Seed: r.cfg.Seed, TrainUnembed: true, TrainMLP: true, TrainAttn: true}
	return r.client.CreateModel(ctx, tinker.ModelConfig{Base: r.cfg.BaseModel, LoRA: lora, Role: r.role, Once: r.cfg.Profile.Once})
}

// usable returns an error if it is not known which weights the server has.
func (r *remote) usable() error {
	if r.doubt == nil {
		return nil
	}
	return fmt.Errorf("tinker %s: the weights on the server may be those of version %d or of an update that did not end: want a checkpoint loaded (resume the run): %w", r.name, r.version.Load(), r.doubt)
}

// row is a row of a batch as it is sent: cut behind its last trainable token. Rows that
// fill a request up have no trainable token and belong to no batch.
type row struct {
	index     int     // in the batch
	start     int     // of its tokens in the batch
	tokens    []int32 // n+1
	trainable []bool  // of the token after each of n positions
	count     int     // of them
}

// rows are those that have trainable tokens. Ids and lengths are checked: servers do not.
func (r *remote) rows(b *batch.Batch) ([]row, error) {
	var rows []row
	for i := range b.Rows {
		start, end := b.Span(i)
		for end > start && !b.LossMask[end-1] {
			end--
		}
		if end == start {
			continue
		}
		if b.LossMask[start] {
			return nil, fmt.Errorf("%s: its first token is trainable: want a prompt before it", b.Describe(i))
		}
		w := row{index: i, start: start, tokens: b.TokenIDs[start:end], trainable: b.LossMask[start+1 : end]}
		for _, t := range w.trainable {
			if t {
				w.count++
			}
		}
		if err := r.checkTokens(w.tokens); err != nil {
			return nil, fmt.Errorf("%s: %w", b.Describe(i), err)
		}
		rows = append(rows, w)
	}
	return r.fill(rows), nil
}

// fill adds rows that are about nothing where the profile wants a multiple of a number.
// They have no gradient, but count in means over rows.
func (r *remote) fill(rows []row) []row {
	if len(rows) == 0 || r.cfg.Profile.Rows == 0 {
		return rows
	}
	filler := row{tokens: rows[0].tokens[:2], trainable: make([]bool, 1)}
	for len(rows)%r.cfg.Profile.Rows != 0 {
		rows = append(rows, filler)
	}
	return rows
}

func (r *remote) checkTokens(tokens []int32) error {
	if len(tokens) > r.cfg.Positions {
		return fmt.Errorf("%d tokens: the model has %d positions", len(tokens), r.cfg.Positions)
	}
	for t, id := range tokens {
		if id < 0 || int(id) >= r.cfg.Vocabulary {
			return fmt.Errorf("token %d: id %d: want one of the vocabulary of %d", t, id, r.cfg.Vocabulary)
		}
	}
	return nil
}

// column is the part of a token column that belongs to a row: entry t is of token t+1.
// It is 0 where the token is not trainable.
func (w *row) column(of []float32) []float32 {
	out := make([]float32, len(w.trainable))
	for t, trainable := range w.trainable {
		if trainable {
			out[t] = of[w.start+t+1]
		}
	}
	return out
}

// mask is 1 at trainable tokens and 0 elsewhere.
func (w *row) mask() []float32 {
	out := make([]float32, len(w.trainable))
	for t, trainable := range w.trainable {
		if trainable {
			out[t] = 1
		}
	}
	return out
}

// spread writes one entry of x to each trainable token.
func (w *row) spread(x []float32) []float32 {
	out := make([]float32, len(w.trainable))
	k := 0
	for t, trainable := range w.trainable {
		if trainable {
			out[t] = x[k]
			k++
		}
	}
	return out
}

// only returns the entries of a row's column at trainable tokens.
func (w *row) only(column []float32) []float32 {
	out := make([]float32, 0, w.count)
	for t, trainable := range w.trainable {
		if trainable {
			out = append(out, column[t])
		}
	}
	return out
}

// scatter writes the columns of rows into a token column.
func scatter(b *batch.Batch, rows []row, columns [][]float32) []float32 {
	out := make([]float32, b.Tokens())
	for k, w := range rows {
		for t, trainable := range w.trainable {
			if trainable {
				out[w.start+t+1] = columns[k][t]
			}
		}
	}
	return out
}

// datum is a row with its targets and the columns of a loss.
func (w *row) datum(inputs map[string]tinker.Tensor) tinker.Datum {
	n := len(w.trainable)
	if _, given := inputs[tinker.TargetTokens]; !given {
		inputs[tinker.TargetTokens] = tinker.Ints(w.tokens[1:])
	}
	return tinker.Datum{Model: tinker.Text(w.tokens[:n]), Inputs: inputs}
}

// scale is what a gradient is multiplied by so that the reduction of the server undoes
// it. rows are those of the whole update.
func (r *remote) scale(count, rows int) float32 {
	if r.cfg.Profile.RowMean {
		return float32(count) * float32(rows)
	}
	return 1
}

// evaluate sends rows in requests of bounded size and returns a column of each, which is
// checked where wanted is not 0. Of a pass for the gradient alone not every server gives
// the column: it is nil then.
func (r *remote) evaluate(ctx context.Context, backward bool, loss string, settings map[string]float64, data []tinker.Datum, column string, wanted [][]float32) ([][]float32, error) {
	var out [][]float32
	needed := !backward || loss == tinker.PPO // for the metrics
	for len(data) > 0 {
		n := r.first(data)
		run := r.model.Forward
		if backward {
			run = r.model.ForwardBackward
		}
		r.used = true
		got, err := run(ctx, tinker.Loss{Data: data[:n], Name: loss, Config: settings})
		if err != nil {
			return nil, err
		}
		if len(got.Rows) != n {
			return nil, fmt.Errorf("the server answers for %d rows: want %d", len(got.Rows), n)
		}
		for k := range got.Rows {
			there, n := got.Rows[k][column], len(data[k].Model.Chunks[0].Tokens)
			if !needed && len(there.Data) != n {
				out = append(out, nil)
				continue
			}
			values, err := numbers(there, n, wanted[len(out)])
			if err != nil {
				return nil, fmt.Errorf("row %d: %s: %w", len(out), column, err)
			}
			out = append(out, values)
		}
		data = data[n:]
	}
	return out, nil
}

// first is the number of rows that the next request has: as many as its bound on tokens
// leaves, one at least, and whole multiples of the profile's number where that is more.
func (r *remote) first(data []tinker.Datum) int {
	n, tokens := 0, 0
	for n < len(data) && (n == 0 || tokens+len(data[n].Model.Chunks[0].Tokens) <= r.cfg.MaxTokens) {
		tokens += len(data[n].Model.Chunks[0].Tokens)
		n++
	}
	if whole := r.cfg.Profile.Rows; n < len(data) && whole > 0 && n > whole {
		n -= n % whole
	}
	return n
}

// numbers checks a column of a server.
func numbers(c tinker.Column, n int, wanted []float32) ([]float32, error) {
	if len(c.Data) != n {
		return nil, fmt.Errorf("%d entries for %d tokens", len(c.Data), n)
	}
	out := make([]float32, n)
	for t, x := range c.Data {
		switch {
		case x != nil:
			out[t] = *x
		case wanted[t] != 0:
			return nil, fmt.Errorf("entry %d is null: want a number", t)
		}
	}
	return out, nil
}

// step takes the optimizer step that ends an update.
func (r *remote) step(ctx context.Context, learningRate float64) (gradNorm float64, err error) {
	r.used = true
	stepped, err := r.model.Step(ctx, tinker.Adam{LearningRate: learningRate, Beta1: beta1, Beta2: beta2, Epsilon: epsilon, WeightDecay: r.cfg.WeightDecay, GradClipNorm: r.cfg.MaxGradNorm})
	if err != nil {
		return 0, err
	}
	for name, x := range stepped.Metrics {
		if strings.HasSuffix(name, "grad_norm") {
			gradNorm = x
		}
	}
	if !(gradNorm >= 0) || math.IsInf(gradNorm, 0) {
		return 0, fmt.Errorf("the gradient norm is %v: want a finite number", gradNorm)
	}
	return gradNorm, nil
}

// update sends a gradient and takes the step. From the first request on, an error leaves
// the weights in doubt.
func (r *remote) update(ctx context.Context, learningRate float64, backward func() error) (gradNorm float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	if !(learningRate >= 0) || math.IsInf(learningRate, 0) {
		return 0, fmt.Errorf("learning rate %v: want a finite number from 0", learningRate)
	}
	if err := backward(); err != nil {
		r.doubt = err
		return 0, err
	}
	if gradNorm, err = r.step(ctx, learningRate); err != nil {
		r.doubt = err
		return 0, err
	}
	r.version.Add(1)
	return gradNorm, nil
}

// finite names the first entry of a column at a trainable token that is no finite
// number.
func finite(b *batch.Batch, rows []row, name string, column []float32) error {
	if len(column) != b.Tokens() {
		return fmt.Errorf("%s: %d entries for %d tokens", name, len(column), b.Tokens())
	}
	for _, w := range rows {
		for t, trainable := range w.trainable {
			if x := float64(column[w.start+t+1]); trainable && x-x != 0 {
				return fmt.Errorf("%s: %s: token %d: %v: want a finite number", b.Describe(w.index), name, t+1, x)
			}
		}
	}
	return nil
}

// checkpoint is what a file in a checkpoint's directory says of weights on a server.
type checkpoint struct {
	Path      string `json:"path"`
	BaseModel string `json:"base_model"`
	Rank      int    `json:"rank"`
	Role      string `json:"role"`
	Version   int64  `json:"version"`
}

func (r *remote) file(dir string) string { return filepath.Join(dir, "tinker-"+r.name+".json") }

// Save keeps weights and optimizer on the server and their tinker:// path in dir.
func (r *remote) Save(ctx context.Context, dir string) error {
	if err := r.usable(); err != nil {
		return err
	}
	r.used = true
	version := r.version.Load()
	path, err := r.model.Save(ctx, fmt.Sprintf("infinirl-%s-%06d-%s", r.name, version, strings.ToLower(rand.Text()[:8])))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(checkpoint{path, r.cfg.BaseModel, r.cfg.Rank, r.role, version}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(r.file(dir), append(text, '\n'))
}

// Load has the server read what Save kept, into a model without a past. It ends every
// doubt.
func (r *remote) Load(ctx context.Context, dir string) error {
	file := r.file(dir)
	text, err := bounded.ReadFile(file, 1<<16)
	if err != nil {
		return err
	}
	var c checkpoint
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	switch {
	case !strings.HasPrefix(c.Path, "tinker://"):
		return fmt.Errorf("%s: path %q: want tinker://…", file, c.Path)
	case c.BaseModel != r.cfg.BaseModel || c.Rank != r.cfg.Rank || c.Role != r.role:
		return fmt.Errorf("%s: weights of %s, rank %d, role %q: want %s, rank %d, role %q", file, c.BaseModel, c.Rank, c.Role, r.cfg.BaseModel, r.cfg.Rank, r.role)
	case c.Version < 0:
		return fmt.Errorf("%s: version %d: want a number from 0", file, c.Version)
	}
	into := r.model
	if r.used {
		if into, err = r.create(ctx); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := into.Load(ctx, c.Path); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
		if into == r.model {
			r.doubt = err
		}
		return err
	}
	if into != r.model {
		r.model.Unload(ctx) // the server may have lost it, and frees it with the session
	}
	r.model, r.used, r.doubt = into, true, nil
	r.version.Store(c.Version)
	return nil
}
