package kernel

// tile computes one register block of C, rows × vectors, of which the last
// vector has tail columns. Strides are in bytes.
type tile func(k int, a *float32, rsA, csA int, b *float32, ldb int, c *float32, ldc int, tail int, accumulate bool)

// tiling computes matrix products out of tiles.
type tiling struct {
	lanes int       // float32 elements in a vector
	tiles [4][]tile // tiles[w][r−1] has r rows and 2^w vectors
}

const (
	depth = 512     // columns of A in a block: a panel of B, depth × two vectors, is near the size of L1
	area  = 1 << 17 // elements of A in a block: half of a 1 MiB L2
)

// gemm cuts A into blocks that stay in L2 while B passes by. Nothing is
// packed: tiles read A and B in place and fetch the next columns of B ahead,
// which measures faster than copying for all but the largest matrices.
func (t *tiling) gemm(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	if k == 0 {
		t.block(m, n, 0, c, 0, 0, c, 0, c, ldc, accumulate)
		return
	}
	kc := even(k, depth)
	mc := even(m, area/kc)
	for p := 0; p < k; p += kc {
		for i := 0; i < m; i += mc {
			t.block(min(mc, m-i), n, min(kc, k-p), a[i*rsA+p*csA:], rsA, csA, b[p*ldb:], ldb, c[i*ldc:], ldc, accumulate || p > 0)
		}
	}
}

func (t *tiling) block(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
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
		height := even(m, len(t.tiles[w]))
		for i := 0; i < m; i += height {
			rows := min(height, m-i)
			t.tiles[w][rows-1](k, &a[i*rsA], 4*rsA, 4*csA, &b[j], 4*ldb, &c[i*ldc+j], 4*ldc, tail, accumulate)
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
