package lm

// queryBlock is the number of consecutive queries that meet the keys in one
// product. Larger blocks multiply faster but waste more on keys that the
// block's first queries may not see.
const queryBlock = 32

// kvCache holds the keys and values of one sequence, by layer and key-value head:
//
//	k [L, G, d, stride] transposed, so that scores are one row-major product
//	v [L, G, stride, d]
type kvCache struct {
	k, v   []float32
	stride int // positions that there is room for
}

// reserve makes room for at least n positions; the content becomes undefined.
func (c *kvCache) reserve(config *Config, n int) {
	if n <= c.stride {
		return
	}
	c.stride = cacheStride(n)
	size := config.NumHiddenLayers * config.NumKeyValueHeads * config.HeadDim * c.stride
	c.k, c.v = make([]float32, size), make([]float32, size)
}

// cacheStride rounds the number of positions up to cache lines, an odd number
// of them, since rows a power of two apart would compete for the same sets of
// the processor's cache.
func cacheStride(n int) int { return (n+alignment-1)/alignment*alignment | alignment }

// head returns the keys [d, stride] and values [stride, d] of one head.
func (c *kvCache) head(config *Config, layer, g int) (k, v []float32) {
	n := config.HeadDim * c.stride
	at := (layer*config.NumKeyValueHeads + g) * n
	return c.k[at : at+n], c.v[at : at+n]
}

// store puts rows row … row+rows−1 of a.k and a.v at position and after.
func (c *kvCache) store(ws *workspace, layer int, a *activations, row, rows, position int) {
	G, d := ws.m.config.NumKeyValueHeads, ws.m.config.HeadDim
	for g := range G {
		k, v := c.head(&ws.m.config, layer, g)
		at := row*G*d + g*d
		ws.k.Transpose(rows, d, a.k[at:], G*d, k[position:], c.stride)
		for i := range rows {
			copy(v[(position+i)*d:(position+i+1)*d], a.v[at+i*G*d:])
		}
	}
}

// queryTask is the most queries of a sequence that a member of a team takes at a time.
const queryTask = 4 * queryBlock

// attend computes causal attention for the queries a.q [M, H·d], which sit at the
// given positions, over the keys and values in the caches of their sequences. The
// result goes to a.attention [M, H·d]; of the scores s it leaves a.greatest = max s and
// a.sum = Σ exp(s − max s), both [M, H].
func (ws *workspace) attend(layer int, a *activations, st *step, positions []int32, last bool) {
	G := ws.m.config.NumKeyValueHeads
	if len(ws.team) == 1 {
		for i := range st.spans {
			first, count := st.spans[i].queries(last)
			for g := range G {
				ws.attendGroup(layer, a, st.spans[i].cache, positions, g, first, count, &ws.team[0])
			}
		}
		return
	}
	type task struct {
		cache           *kvCache
		g, first, count int
	}
	var tasks []task
	for i := range st.spans {
		first, count := st.spans[i].queries(last)
		for from := first; from < first+count; from += queryTask {
			for g := range G {
				tasks = append(tasks, task{st.spans[i].cache, g, from, min(queryTask, first+count-from)})
			}
		}
	}
	ws.team.each(len(tasks), func(i int, s *scratch) {
		t := &tasks[i]
		ws.attendGroup(layer, a, t.cache, positions, t.g, t.first, t.count, s)
	})
}

// queries are the rows of queries of a span: in the last layer only those that are
// asked for.
func (sp *span) queries(last bool) (first, count int) {
	if last {
		return sp.out, sp.outs
	}
	return sp.row, sp.rows
}

// attendGroup computes attention of the query heads that share key-value head g, for
// queries first … first+count−1 of one sequence.
func (ws *workspace) attendGroup(layer int, a *activations, cache *kvCache, positions []int32, g, first, count int, s *scratch) {
	c := &ws.m.config
	group := c.NumAttentionHeads / c.NumKeyValueHeads
	k, v := cache.head(c, layer, g)
	for row := first; row < first+count; row += queryBlock {
		rows := min(queryBlock, first+count-row)
		if rows == 1 {
			ws.attendBlock(s, a, k, v, cache.stride, positions, row, 1, g*group, group)
			continue
		}
		for h := g * group; h < (g+1)*group; h++ {
			ws.attendBlock(s, a, k, v, cache.stride, positions, row, rows, h, 1)
		}
	}
}

// attendBlock computes attention for several rows of one head, or for several
// heads of one row, over k [d, stride] and v [stride, d].
func (ws *workspace) attendBlock(sc *scratch, a *activations, k, v []float32, stride int, positions []int32, row, rows, head, heads int) {
	H, d := ws.m.config.NumAttentionHeads, ws.m.config.HeadDim
	B, ld := rows*heads, H*d // queries, and the distance between them
	if heads > 1 {
		ld = d
	}
	at := row*H*d + head*d
	n := int(positions[row+rows-1]) + 1 // keys that the last query sees
	s := grow(&sc.scores, B*n)          // [B, n]
	ws.k.Gemm(B, n, d, a.q[at:], ld, 1, k, stride, s, n, false)
	for i := range B {
		r, h := row+i/heads, head+i%heads
		visible := int(positions[r]) + 1
		p := s[i*n : i*n+visible]
		a.greatest[r*H+h] = ws.k.Max(p)
		a.sum[r*H+h] = ws.k.ExpSum(p, p, a.greatest[r*H+h])
		clear(s[i*n+visible : (i+1)*n])
	}
	ws.k.Gemm(B, d, n, s, n, 1, v, d, a.attention[at:], ld, false)
	for i := range B {
		r, h := row+i/heads, head+i%heads
		ws.k.Scale(1/a.sum[r*H+h], a.attention[at+i*ld:at+i*ld+d])
	}
}

// attendBackward takes dO, the gradient of a.attention [M, H·d], to dq (of a.q)
// [M, H·d] and adds to dk and dv [R, G·d]. It overwrites dO. The exponentials e
// are computed again, one block of queries at a time (Dao et al. 2022,
// arXiv:2205.14135). With p = e/sum and dO divided by the sums beforehand:
//
//	e  = exp(q·kᵀ − greatest)
//	dv += eᵀ·dO
//	ds = e ∘ (dO·vᵀ − rowsum(dO ∘ O))
//	dq = ds·k,  dk += dsᵀ·q
func (ws *workspace) attendBackward(layer int, a *activations, st *step, positions []int32, last bool, dO, dq, dk, dv []float32) {
	G := ws.m.config.NumKeyValueHeads
	ws.team.each(len(st.spans)*G, func(i int, s *scratch) {
		ws.attendGroupBackward(s, layer, a, &st.spans[i/G], positions, last, i%G, dO, dq, dk, dv)
	})
}

// attendGroupBackward is attendBackward for one sequence and the query heads that share
// key-value head g.
func (ws *workspace) attendGroupBackward(s *scratch, layer int, a *activations, sp *span, positions []int32, last bool, g int, dO, dq, dk, dv []float32) {
	c := &ws.m.config
	H, G, d := c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim
	first, M := sp.queries(last)
	R, stride := sp.rows, sp.cache.stride
	key, dk, dv := a.k[sp.row*G*d+g*d:], dk[sp.row*G*d+g*d:], dv[sp.row*G*d+g*d:]
	k, v := sp.cache.head(c, layer, g)
	vT := grow(&s.vT, d*R) // [d, R]
	ws.k.Transpose(R, d, v, d, vT, R)
	for h := g * (H / G); h < (g+1)*(H/G); h++ {
		for i := first; i < first+M; i++ {
			ws.k.Scale(1/a.sum[i*H+h], dO[(i*H+h)*d:(i*H+h+1)*d])
		}
		for row := first; row < first+M; row += queryBlock {
			B := min(queryBlock, first+M-row)
			n := int(positions[row+B-1]) + 1
			at := row*H*d + h*d
			e := grow(&s.scores, B*n) // [B, n]
			dp := grow(&s.dp, B*n)    // [B, n]
			ws.k.Gemm(B, n, d, a.q[at:], H*d, 1, k, stride, e, n, false)
			ws.k.Gemm(B, n, d, dO[at:], H*d, 1, vT, R, dp, n, false)
			for i := range B {
				visible := int(positions[row+i]) + 1
				ei := e[i*n : i*n+visible]
				ws.k.ExpSum(ei, ei, a.greatest[(row+i)*H+h])
				clear(e[i*n+visible : (i+1)*n])
			}
			ws.k.Gemm(n, d, B, e, 1, n, dO[at:], H*d, dv, G*d, true)
			for i := range B {
				visible := int(positions[row+i]) + 1
				o := at + i*H*d
				dot := ws.k.Dot(dO[o:o+d], a.attention[o:o+d])
				ds := e[i*n : i*n+visible] // in place
				ws.k.SoftmaxBackward(ds, ds, dp[i*n:i*n+visible], dot, 1)
			}
			ws.k.Gemm(B, d, n, e, n, 1, key, G*d, dq[at:], H*d, false)
			ws.k.Gemm(n, d, B, e, 1, n, a.q[at:], H*d, dk, G*d, true)
		}
	}
}
