package kernel

import "sync"

// tile computes one register block of C, rows × vectors, of which the last
// vector has tail columns. Strides are in bytes.
type tile func(k int, a *float32, rsA, csA int, b *float32, ldb int, c *float32, ldc int, tail int, accumulate bool)

// tiling computes matrix products out of tiles.
type tiling struct {
	lanes   int       // float32 elements in a vector
	tiles   [4][]tile // tiles[w][r−1] has r rows and 2^w vectors
	pack    func(rows int, src *float32, lds int, dst *float32)
	buffers sync.Pool // of *[]float32, for copies of A and B
}

const (
	depth = 512     // columns of A in a block: a panel of B, depth × two vectors, is near the size of L1
	area  = 1 << 17 // elements of A in a block: half of a 1 MiB L2
	large = 1 << 17 // elements of B that leave L2
	page  = 1 << 10 // elements: rows a multiple of 4 KiB apart compete for the same few lines of a cache
)

// gemm cuts A into blocks that stay in L2 while B passes by. Tiles read A and B
// in place and fetch the next columns of B ahead, which is faster than packing
// them, unless B does not fit the caches or its rows or those of A compete for
// their lines.
func (t *tiling) gemm(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	enough := m >= 64 && n >= 64
	competing := enough && ldb%page == 0 || enough && min(rsA, csA) == 1 && max(rsA, csA)%page == 0
	packB := competing || enough && k*n >= large
	t.product(m, n, k, a, rsA, csA, competing, c, ldc, accumulate, packB, func(p int) panels {
		return panels{b: b[p*ldb:], ld: ldb, pack: t.pack, width: 2 * t.lanes}
	})
}

// gemmT is gemm for a B that is given as its transpose [n, k]: its panels are turned
// as they are packed.
func (t *tiling) gemmT(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	competing := m >= 64 && min(rsA, csA) == 1 && max(rsA, csA)%page == 0
	t.product(m, n, k, a, rsA, csA, competing, c, ldc, accumulate, true, func(p int) panels {
		return panels{b: b[p:], ld: ldb, transposed: true}
	})
}

// product computes a product block by block; rows of B, from row p on, are those of
// source(p).
func (t *tiling) product(m, n, k int, a []float32, rsA, csA int, packA bool, c []float32, ldc int, accumulate, packB bool, source func(p int) panels) {
	if k == 0 {
		t.block(m, n, 0, c, 0, 0, panels{b: c}, c, ldc, accumulate, nil)
		return
	}
	kc := even(k, depth)
	mc := even(m, area/kc)
	var copyA, copyB []float32
	if packA || packB {
		size := kc * 2 * t.lanes
		if packA {
			size += (mc + gap) * (kc + gap)
		}
		buffer := t.buffer(size)
		defer t.buffers.Put(buffer)
		if copyB = (*buffer)[:kc*2*t.lanes]; packA {
			copyA = (*buffer)[kc*2*t.lanes:]
		}
	}
	for p := 0; p < k; p += kc {
		kp := min(kc, k-p)
		for i := 0; i < m; i += mc {
			mi := min(mc, m-i)
			ai, rs, cs := a[i*rsA+p*csA:], rsA, csA
			switch {
			case copyA == nil:
			case csA == 1:
				ai, rs = compact(copyA, mi, kp, ai, rsA)
			case rsA == 1:
				ai, cs = compact(copyA, kp, mi, ai, csA)
			}
			t.block(mi, n, kp, ai, rs, cs, source(p), c[i*ldc:], ldc, accumulate || p > 0, copyB)
		}
	}
}

// panels are rows of B that block cuts into panels.
type panels struct {
	b          []float32
	ld         int
	transposed bool                                                // b is [columns, rows]
	pack       func(rows int, src *float32, lds int, dst *float32) // copies rows of width elements
	width      int
}

// take copies a panel of rows [rows, columns], from column j on, to dst with the
// leading dimension ld.
func (s panels) take(dst []float32, ld, rows, columns, j int) {
	switch {
	case s.transposed:
		transposeAVX2(columns, rows, s.b[j*s.ld:], s.ld, dst, ld)
	case columns == s.width && columns == ld:
		s.pack(rows, &s.b[j], 4*s.ld, &dst[0])
	default:
		for p := range rows {
			copy(dst[p*ld:][:columns], s.b[p*s.ld+j:])
		}
	}
}

// gap keeps the rows of a compact copy from being a multiple of a page apart.
const gap = 16

// compact copies src [rows, cols] to dst and returns it and its leading dimension.
func compact(dst []float32, rows, cols int, src []float32, ld int) ([]float32, int) {
	for i := range rows {
		copy(dst[i*(cols+gap):][:cols], src[i*ld:])
	}
	return dst, cols + gap
}

// buffer returns one of at least size elements.
func (t *tiling) buffer(size int) *[]float32 {
	buffer, _ := t.buffers.Get().(*[]float32)
	if buffer == nil || len(*buffer) < size {
		buffer = new(make([]float32, size))
	}
	return buffer
}

// block computes a product through tiles, and through copies of the panels of B
// if there is a buffer for one.
func (t *tiling) block(m, n, k int, a []float32, rsA, csA int, b panels, c []float32, ldc int, accumulate bool, panel []float32) {
	// Few rows leave registers for wide tiles, which read B in longer runs. A copy has
	// room for two vectors.
	w := len(t.tiles) - 1
	if panel != nil {
		w = 1
	}
	for w > 1 && m > len(t.tiles[w]) {
		w--
	}
	for j := 0; j < n; {
		full := t.lanes<<w - t.lanes // in all vectors but the last
		for n-j <= full {
			w--
			full = t.lanes<<w - t.lanes
		}
		columns := min(n-j, t.lanes<<w)
		tail := columns - full
		var bj []float32
		ld := b.ld
		if panel != nil {
			bj, ld = panel, t.lanes<<w
			if k > 0 {
				b.take(panel, ld, k, columns, j)
			}
		} else {
			bj = b.b[j:]
		}
		height := even(m, len(t.tiles[w]))
		for i := 0; i < m; i += height {
			rows := min(height, m-i)
			t.tiles[w][rows-1](k, &a[i*rsA], 4*rsA, 4*csA, &bj[0], 4*ld, &c[i*ldc+j], 4*ldc, tail, accumulate)
		}
		j += columns
	}
}

// even is the size of the parts when n is cut into the fewest of at most most:
// 16 in parts of at most 14 are 8 + 8, not 14 + 2.
func even(n, most int) int {
	parts := (n + most - 1) / most
	return (n + parts - 1) / parts
}
