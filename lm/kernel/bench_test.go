package kernel

import (
	"fmt"
	"testing"
)

func eachSetBenchmark(b *testing.B, name string, run func(b *testing.B, s *Set)) {
	for _, set := range Available() {
		s, err := Select(set)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(set+"/"+name, func(b *testing.B) { run(b, s) })
	}
}

// BenchmarkGemm names the product m×n×k and reports 2·m·n·k operations. At is a
// transposed A, as in the gradient of weights.
//
// The limit of one core is two vector multiply-adds a cycle: 64 operations a
// cycle with AVX-512, 32 with AVX2; at 4.1 GHz 262 and 131 GFLOP/s. One row
// (m = 1) reads each element of B for two operations: at 64 bytes a cycle
// from L1 or L2 the limit is 32 operations a cycle.
func BenchmarkGemm(b *testing.B) {
	shapes := []struct{ m, n, k int }{
		{1, 192, 64}, {1, 64, 192}, {1, 600, 128}, {4, 192, 64}, {8, 600, 128}, {16, 192, 64},
		{200, 16, 200}, {200, 200, 16}, {200, 32, 200}, {200, 200, 32}, // attention with heads of 16 and 32
		{200, 64, 64}, {200, 192, 64}, {200, 64, 192}, {400, 256, 96}, {400, 600, 128},
		{512, 512, 512}, {1024, 1024, 1024}, {200, 4864, 896},
	}
	for _, s := range shapes {
		gemm(b, fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), s.m, s.n, s.k, s.k, 1)
	}
	transposed := []struct{ m, n, k int }{
		{64, 64, 200}, {64, 192, 200}, {192, 64, 200}, {128, 600, 400}, {512, 512, 200}, {1024, 1024, 1024},
	}
	for _, s := range transposed {
		gemm(b, fmt.Sprintf("%dx%dx%dAt", s.m, s.n, s.k), s.m, s.n, s.k, 1, s.m)
	}
}

func gemm(b *testing.B, name string, m, n, k, rsA, csA int) {
	x, y, z := random(m*k), random(k*n), make([]float32, m*n)
	eachSetBenchmark(b, name, func(b *testing.B, s *Set) {
		for b.Loop() {
			s.Gemm(m, n, k, x, rsA, csA, y, n, z, n, false)
		}
		b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	})
}

// BenchmarkTranspose reports the bytes read and written. The limit within L2 is
// the shuffle unit: 16 shuffles for a block of 512 bytes.
func BenchmarkTranspose(b *testing.B) {
	for _, size := range [][2]int{{200, 64}, {64, 200}, {192, 64}, {1024, 1024}} {
		rows, cols := size[0], size[1]
		src, dst := random(rows*cols), random(rows*cols)
		eachSetBenchmark(b, fmt.Sprintf("%dx%d", rows, cols), func(b *testing.B, s *Set) {
			for b.Loop() {
				s.Transpose(rows, cols, src, cols, dst, rows)
			}
			gigabytes(b, 8*rows*cols)
		})
	}
}

// BenchmarkRows reports the bytes of rows read and written. Two loads and one
// store of a vector a cycle from L1 are the limit of kernels without exp: with
// AVX-512 at 4.1 GHz 520 GB/s for Dot, which only loads, 790 GB/s for Axpy.
// exp takes 17 vector instructions, at two a cycle 8.5 cycles, for a vector in
// and one out: 62 GB/s; and a division about as long again. Rows of 64 are
// bound by the call, about 4 ns.
func BenchmarkRows(b *testing.B) {
	for _, n := range []int{64, 256, 1024} {
		x, y, z, u, w := random(n), random(n), random(n), random(n), random(n)
		for i := range w {
			w[i] = 0.5 + w[i]/4 // positive: second moments
		}
		var sink float32
		for _, op := range []struct {
			name string
			rows int // read or written, in one call
			run  func(s *Set)
		}{
			{"Dot", 2, func(s *Set) { sink += s.Dot(x, y) }},
			{"Axpy", 3, func(s *Set) { s.Axpy(1e-9, x, y) }},
			{"SumSquares", 1, func(s *Set) { sink += float32(s.SumSquares(x)) }},
			{"Max", 1, func(s *Set) { sink += s.Max(x) }},
			{"ExpSum", 2, func(s *Set) { sink += s.ExpSum(z, x, 0) }},
			{"Softmax", 5, func(s *Set) { s.Softmax(u) }},
			{"SoftmaxBackward", 3, func(s *Set) { s.SoftmaxBackward(z, x, y, 0.1, 0.2) }},
			{"SiluMul", 3, func(s *Set) { s.SiluMul(z, x, y) }},
			{"SiluMulBackward", 5, func(s *Set) { s.SiluMulBackward(z, u, w, x, y) }},
			{"RMSNorm", 4, func(s *Set) { sink += s.RMSNorm(z, x, y, 1e-6) }},
			{"RMSNormBackward", 10, func(s *Set) { s.RMSNormBackward(z, u, w, x, y, 1e-9) }},
			{"Rotate", 3, func(s *Set) { s.Rotate(z, x[:n/2], y[:n/2]) }},
			{"AdamW", 7, func(s *Set) {
				s.AdamW(z, x, u, w, AdamWStep{LearningRate: 1e-3, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Bias1: 1, Bias2: 1})
			}},
		} {
			eachSetBenchmark(b, fmt.Sprintf("%s/%d", op.name, n), func(b *testing.B, s *Set) {
				for b.Loop() {
					op.run(s)
				}
				gigabytes(b, 4*n*op.rows)
			})
		}
		_ = sink
	}
}

// random returns n elements where the allocator puts them, which for rows of 64
// and more is at a multiple of 64 bytes.
func random(n int) []float32 { return append(make([]float32, 0, n), newArena(1).uniform(n)...) }

func gigabytes(b *testing.B, bytes int) {
	b.ReportMetric(float64(bytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}
