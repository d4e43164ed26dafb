package kernel

import "sync"

// tile computes one register block of C, rows × vectors, of which the last
// vector has tail columns. Strides are in bytes.
type tile func(k int, a *float32, rsA, csA int, b *float32, ldb int, c *float32, ldc int, tail int, accumulate bool)

// tiling computes matrix products out of tiles.
type tiling struct {
	lanes   int       // float32 elements in a vector
	tiles   [4][]tile // tiles[w][r−1] has r rows and 2^w vectors
	buffers sync.Pool // of *[]float32, for copies of A and B
}

const (
	depth = 512     // columns of A in a block: a panel of B, depth × two vectors, is near the size of L1
	area  = 1 << 17 // elements of A in a block: half of a 1 MiB L2
	page  = 1 << 10 // elements: rows a multiple of 4 KiB apart compete for the same few lines of a cache
)

// gemm cuts A into blocks that stay in L2 while B passes by. Tiles read A and B
// in place and fetch the next columns of B ahead, which is faster than packing
// them, unless their rows compete for lines of the caches.
func (t *tiling) gemm(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	if k == 0 {
		t.block(m, n, 0, c, 0, 0, c, 0, c, ldc, accumulate, nil)
		return
	}
	kc := even(k, depth)
	mc := even(m, area/kc)
	var copyA, copyB []float32
	if enough := m >= 64 && n >= 64; enough && ldb%page == 0 || enough && min(rsA, csA) == 1 && max(rsA, csA)%page == 0 {
		buffer := t.buffer((mc+gap)*(kc+gap) + kc*2*t.lanes)
		defer t.buffers.Put(buffer)
		copyB, copyA = (*buffer)[:kc*2*t.lanes], (*buffer)[kc*2*t.lanes:]
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
			t.block(mi, n, kp, ai, rs, cs, b[p*ldb:], ldb, c[i*ldc:], ldc, accumulate || p > 0, copyB)
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
func (t *tiling) block(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool, panel []float32) {
	// Few rows leave registers for wide tiles, which read B in longer runs.
	w := len(t.tiles) - 1
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
		bj, ld := b[j:], ldb
		if panel != nil {
			bj, ld = panel, t.lanes<<w
			for p := range k {
				copy(panel[p*ld:][:columns], b[p*ldb+j:])
			}
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
