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
	if m < 0 || n < 0 || k < 0 || rsA < 0 || csA < 0 {
		panic(fmt.Sprintf("kernel: Gemm: negative size or stride: m=%d n=%d k=%d rsA=%d csA=%d", m, n, k, rsA, csA))
	}
	if m == 0 || n == 0 {
		return
	}
	checkMatrix("Gemm", "C", m, n, c, ldc)
	if k > 0 {
		checkMatrix("Gemm", "B", k, n, b, ldb)
		if last := (m-1)*rsA + (k-1)*csA; last >= len(a) {
			panic(fmt.Sprintf("kernel: Gemm: A [%d, %d] with strides %d, %d needs %d elements, got %d", m, k, rsA, csA, last+1, len(a)))
		}
	}
	s.gemm(m, n, k, a, rsA, csA, b, ldb, c, ldc, accumulate)
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
