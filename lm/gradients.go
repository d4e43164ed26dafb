package lm

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Gradients holds a number for every parameter of a model that is trained. It is not
// safe for concurrent use.
type Gradients struct {
	model  *Model
	layout *layout
	flat   []float32
	rows   []*rowGradient // buffers that calls reuse, for small models

	// Of a large model whose head is the embedding: what the embedding gets as the
	// input, by token. It is added last, so that the split of a batch does not matter.
	embedded map[int32][]float32
}

// rowGradient is the gradient of one row before it is added to the total.
type rowGradient struct {
	flat []float32
	weights
}

// NewGradients returns zero gradients for m.
func NewGradients(m *Model) *Gradients {
	return &Gradients{model: m, layout: m.trained, flat: make([]float32, m.trained.size)}
}

// Zero sets all gradients to zero.
func (g *Gradients) Zero() {
	clear(g.embedded)
	eachChunk(g.model.threads(), len(g.flat), func(from, to int) { clear(g.flat[from:to]) })
}

// Scale multiplies all gradients by alpha.
func (g *Gradients) Scale(alpha float32) {
	g.settle()
	eachChunk(g.model.threads(), len(g.flat), func(from, to int) { g.model.kernel.Scale(alpha, g.flat[from:to]) })
}

// settle adds what was kept apart.
func (g *Gradients) settle() {
	if len(g.embedded) == 0 {
		return
	}
	embed := g.layout.view(g.flat).embed
	for token, row := range g.embedded {
		g.model.kernel.Add(embed[int(token)*len(row):(int(token)+1)*len(row)], row)
	}
	clear(g.embedded)
}

// embeddingOf is the gradient of a token's embedding [D], nil if it is frozen.
func (w *weights) embeddingOf(token int32, D int) []float32 {
	switch {
	case w.embedded != nil:
		row := w.embedded[token]
		if row == nil {
			row = make([]float32, D)
			w.embedded[token] = row
		}
		return row
	case w.embed == nil:
		return nil
	}
	return w.embed[int(token)*D : (int(token)+1)*D]
}

// Norm is the global L2 norm. It is the same bits for any number of threads.
func (g *Gradients) Norm() float64 {
	g.settle()
	sums := make([]float64, (len(g.flat)+chunk-1)/chunk)
	eachChunk(g.model.threads(), len(g.flat), func(from, to int) {
		sums[from/chunk] = g.model.kernel.SumSquares(g.flat[from:to])
	})
	var total float64
	for _, sum := range sums {
		total += sum
	}
	return math.Sqrt(total)
}

// chunk is the number of elements that a goroutine takes at a time.
const chunk = 1 << 15

// eachChunk calls do for consecutive pieces of 0 … n−1, on several goroutines.
func eachChunk(threads, n int, do func(from, to int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(threads, (n+chunk-1)/chunk) {
		group.Go(func() {
			for {
				to := int(next.Add(chunk))
				from := to - chunk
				if from >= n {
					return
				}
				do(from, min(to, n))
			}
		})
	}
	group.Wait()
}

// accumulate adds to g the gradient of every row that has targets; do computes
// that of rows first … end−1 and adds it. Rows of a small model are worked on in
// parallel, one at a time, into memory that is zero, and added in their order.
func (m *Model) accumulate(ctx context.Context, rows []Sequence, g *Gradients, do func(ws *workspace, first, end int, grad *weights) error) error {
	if !m.trained.equal(g.layout) {
		return fmt.Errorf("lm: the gradients belong to a model of another shape")
	}
	rope := m.prepareForward(longest(rows))
	m.prepareBackward()
	if m.large {
		return m.accumulateTogether(ctx, rows, rope, g, do)
	}
	work := withTargets(rows)
	threads := min(m.threads(), len(work))
	turns := newTurnstile(g, threads+1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			ws := m.takeWorkspace(rope)
			defer m.giveWorkspace(ws)
			for ctx.Err() == nil {
				// A buffer first, then the lowest row that is left: so the row whose
				// turn it is always has one.
				grad := turns.buffer(ctx)
				i := int(next.Add(1)) - 1
				if grad == nil || i >= len(work) {
					return
				}
				clear(grad.flat)
				if err := do(ws, work[i], work[i]+1, &grad.weights); err != nil {
					cancel(err)
					return
				}
				turns.pass(i, grad)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("lm: %w", context.Cause(ctx))
	}
	return nil
}

// teamTokens is the most tokens that a team works on at once, if rows are not longer:
// enough for its products.
const teamTokens = 1024

// accumulateTogether is accumulate for a large model: all goroutines work on the same
// rows, some at a time, and straight into the one array of gradients.
func (m *Model) accumulateTogether(ctx context.Context, rows []Sequence, rope ropeTable, g *Gradients, do func(ws *workspace, first, end int, grad *weights) error) error {
	total := g.layout.view(g.flat)
	if m.adapter == nil && !m.layout.critic && m.config.TieWordEmbeddings {
		if g.embedded == nil {
			g.embedded = map[int32][]float32{}
		}
		total.embedded = g.embedded
	}
	ws := m.takeWorkspace(rope)
	defer m.giveWorkspace(ws)
	ws.team = append(ws.team[:cap(ws.team)], make(team, max(0, m.threads()-cap(ws.team)))...)[:m.threads()]
	for first := 0; first < len(rows); {
		end, tokens := first, 0
		for end < len(rows) && (end == first || tokens+len(rows[end].Tokens) <= teamTokens) {
			tokens += len(rows[end].Tokens)
			end++
		}
		if ctx.Err() != nil {
			return fmt.Errorf("lm: %w", context.Cause(ctx))
		}
		if len(withTargets(rows[first:end])) > 0 {
			if err := do(ws, first, end, &total); err != nil {
				return err
			}
		}
		first = end
	}
	return nil
}

// turnstile adds the gradients of rows to the total, strictly in row order.
type turnstile struct {
	total *Gradients
	free  chan *rowGradient

	mu      sync.Mutex
	turn    int                  // the row to be added next
	waiting map[int]*rowGradient // finished rows that come later
	adding  bool                 // a goroutine is adding
}

// newTurnstile lends g's buffers. One more than there are goroutines lets a
// goroutine go on while its row waits for its turn.
func newTurnstile(g *Gradients, buffers int) *turnstile {
	for len(g.rows) < buffers {
		flat := make([]float32, len(g.flat))
		g.rows = append(g.rows, &rowGradient{flat, g.layout.view(flat)})
	}
	t := &turnstile{total: g, free: make(chan *rowGradient, buffers), waiting: map[int]*rowGradient{}}
	for _, grad := range g.rows[:buffers] {
		t.free <- grad
	}
	return t
}

// buffer waits for a free buffer; nil if ctx ends.
func (t *turnstile) buffer(ctx context.Context) *rowGradient {
	select {
	case grad := <-t.free:
		return grad
	case <-ctx.Done():
		return nil
	}
}

// pass hands in a finished row. If it is that row's turn and nobody else is
// adding, the caller adds it and all that waited for it.
func (t *turnstile) pass(row int, grad *rowGradient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[row] = grad
	if t.adding {
		return // whoever adds will find it
	}
	t.adding = true
	for {
		grad, ok := t.waiting[t.turn]
		if !ok {
			t.adding = false
			return
		}
		delete(t.waiting, t.turn)
		t.mu.Unlock()
		t.total.model.kernel.Add(t.total.flat, grad.flat)
		t.free <- grad
		t.mu.Lock()
		t.turn++
	}
}
