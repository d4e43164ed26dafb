package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func random(n int) []float32 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct {
		m, n, k int
		ta      bool
	}{
		{1, 192, 64, false}, {1, 64, 192, false}, {1, 4864, 896, false}, {1, 896, 4864, false}, {4, 4864, 896, false}, {1, 600, 128, false}, {4, 600, 128, false}, {8, 600, 128, false}, {4, 192, 64, false}, {16, 192, 64, false}, {64, 64, 64, false},
		{200, 64, 64, false}, {200, 192, 64, false}, {200, 64, 192, false}, {200, 256, 96, false}, {200, 600, 128, false},
		{200, 200, 16, false}, {200, 16, 200, false}, {200, 200, 32, false}, {200, 32, 200, false},
		{64, 192, 200, true}, {192, 64, 200, true}, {256, 256, 200, true}, {512, 512, 200, true},
		{128, 128, 128, false}, {256, 256, 256, false}, {512, 512, 512, false}, {1024, 1024, 1024, false}, {1024, 1024, 1024, true}, {64, 4864, 896, false}, {200, 4864, 896, false}, {200, 896, 4864, false}, {200, 20000, 896, false}, {1024, 4096, 1024, false}, {2048, 2048, 2048, false},
	} {
		for _, name := range Available() {
			set, _ := Select(name)
			x := random(s.m * s.k)
			w := random(s.k * s.n)
			c := make([]float32, s.m*s.n)
			rs, cs := s.k, 1
			op := "A"
			if s.ta {
				rs, cs = 1, s.m
				op = "At"
			}
			b.Run(fmt.Sprintf("%s/%dx%dx%d%s", name, s.m, s.n, s.k, op), func(b *testing.B) {
				for b.Loop() {
					set.Gemm(s.m, s.n, s.k, x, rs, cs, w, s.n, c, s.n, false)
				}
				b.ReportMetric(2*float64(s.m*s.n*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
