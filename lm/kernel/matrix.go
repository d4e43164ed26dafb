package kernel

import "fmt"

// Gemm computes C = A·B, or C += A·B if accumulate is set:
//
//	A [m, k]  a[i*rsA + p*csA]: any row and column stride, so that a
//	          transposed matrix needs no copy (rsA = 1, csA = its ld)
//	B [k, n]  b[p*ldb + j]: row-major
//	C [m, n]  c[i*ldc + j]: row-major, must not overlap A or B
//
// Each element of C is one chain of multiply-adds over p = 0, 1, …, k−1,
// begun at zero or, when accumulating, at its old value. So a row of C has the
// same bits whether computed alone or among others, and a product may be cut
// anywhere along m, n or k without changing a bit. The assembly sets fuse each
// multiply-add, rounding once, and agree with each other bit for bit; the set
// "go" rounds the product too, alike on every architecture.
func (s *Set) Gemm(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	if !s.checkProduct("Gemm", m, n, k, a, rsA, csA, c, ldc) {
		return
	}
	if k > 0 {
		checkMatrix("Gemm", "B", k, n, b, ldb)
	}
	s.gemm(m, n, k, a, rsA, csA, b, ldb, c, ldc, accumulate)
}

// GemmT computes C = A·Bᵀ, or C += A·Bᵀ, as [Set.Gemm] does but for B:
//
//	B [n, k]  b[j*ldb + p]: row-major
//
// The bits are those of Gemm with a transposed copy of B. It turns B on the way, which
// takes as long as some ten rows of C do: it is meant for many.
func (s *Set) GemmT(m, n, k int, a []float32, rsA, csA int, b []float32, ldb int, c []float32, ldc int, accumulate bool) {
	if !s.checkProduct("GemmT", m, n, k, a, rsA, csA, c, ldc) {
		return
	}
	if k > 0 {
		checkMatrix("GemmT", "B", n, k, b, ldb)
	}
	s.gemmT(m, n, k, a, rsA, csA, b, ldb, c, ldc, accumulate)
}

// checkProduct panics if C or A is too short; it is false if there is nothing to do.
func (s *Set) checkProduct(op string, m, n, k int, a []float32, rsA, csA int, c []float32, ldc int) bool {
	if m < 0 || n < 0 || k < 0 || rsA < 0 || csA < 0 {
		panic(fmt.Sprintf("kernel: %s: negative size or stride: m=%d n=%d k=%d rsA=%d csA=%d", op, m, n, k, rsA, csA))
	}
	if m == 0 || n == 0 {
		return false
	}
	checkMatrix(op, "C", m, n, c, ldc)
	if k > 0 {
		if last := (m-1)*rsA + (k-1)*csA; last >= len(a) {
			panic(fmt.Sprintf("kernel: %s: A [%d, %d] with strides %d, %d needs %d elements, got %d", op, m, k, rsA, csA, last+1, len(a)))
		}
	}
	return true
}

// Transpose copies src [rows, cols] to dst [cols, rows], which must not overlap it.
func (s *Set) Transpose(rows, cols int, src []float32, lds int, dst []float32, ldd int) {
	if rows < 0 || cols < 0 {
		panic(fmt.Sprintf("kernel: Transpose: negative size: rows=%d cols=%d", rows, cols))
	}
	if rows == 0 || cols == 0 {
		return
	}
	checkMatrix("Transpose", "src", rows, cols, src, lds)
	checkMatrix("Transpose", "dst", cols, rows, dst, ldd)
	s.transpose(rows, cols, src, lds, dst, ldd)
}

// checkMatrix panics unless x holds rows ≥ 1 rows of cols elements, ld apart.
func checkMatrix(op, name string, rows, cols int, x []float32, ld int) {
	if ld < cols {
		panic(fmt.Sprintf("kernel: %s: leading dimension %d of %s is less than its %d columns", op, ld, name, cols))
	}
	if need := (rows-1)*ld + cols; need > len(x) {
		panic(fmt.Sprintf("kernel: %s: %s [%d, %d] with leading dimension %d needs %d elements, got %d", op, name, rows, cols, ld, need, len(x)))
	}
}
