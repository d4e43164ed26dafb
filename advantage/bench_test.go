package advantage

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/infinirl/infinirl/batch"
)

// syntheticBatch has rows of the given length, 40% of the tokens trainable in
// spans of about 60, four rows a trajectory.
func syntheticBatch(rows, length int) *batch.Batch {
	rng := rand.New(rand.NewPCG(1, 2))
	n := rows * length
	b := &batch.Batch{
		CuSeqLens: []int64{0}, TokenIDs: make([]int32, n), LossMask: make([]bool, n),
		Values: make([]float32, n), Rewards: make([]float32, n),
	}
	for i := range rows {
		b.Rows = append(b.Rows, batch.Row{TrajectoryID: fmt.Sprint("t", i/4), GroupID: fmt.Sprint("g", i/32), InvIter: 3 - i%4})
		b.CuSeqLens = append(b.CuSeqLens, int64((i+1)*length))
		row := b.LossMask[i*length : (i+1)*length]
		for t := 0; t < length; {
			t += 60 + rng.IntN(60)
			for span := 40 + rng.IntN(40); span > 0 && t < length; span-- {
				row[t] = true
				t++
			}
		}
		b.Rewards[(i+1)*length-1] = 1
	}
	for t := range b.Values {
		b.Values[t] = rng.Float32()
	}
	return b
}

// BenchmarkGAE runs the scan over 2 Mi and 10 Mi tokens. The limit is the
// recursion's latency, a multiplication and an addition after one another a
// trainable token (about 8 cycles), and the traffic of five columns, 17 bytes a
// token: BenchmarkCopy copies as much.
func BenchmarkGAE(b *testing.B) {
	for _, rows := range []int{256, 1280} {
		for _, whiten := range []bool{false, true} {
			b.Run(fmt.Sprintf("tokens=%d/whiten=%v", rows*8192, whiten), func(b *testing.B) {
				data := syntheticBatch(rows, 8192)
				cfg := Config{Estimator: "gae", Gamma: 1, Lambda: .95, CriticLambda: 1, Whiten: whiten}
				b.ReportAllocs()
				for b.Loop() {
					if err := Compute(data, cfg); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(data.TokenIDs))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtoken/s")
			})
		}
	}
}

// BenchmarkCopy copies the columns that GAE reads to those that it writes.
func BenchmarkCopy(b *testing.B) {
	data := syntheticBatch(256, 8192)
	n := len(data.TokenIDs)
	values, rewards, advantages, returns, mask := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n), make([]bool, n)
	for b.Loop() {
		copy(mask, data.LossMask)
		copy(values, data.Values)
		copy(rewards, data.Rewards)
		copy(advantages, values)
		copy(returns, rewards)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtoken/s")
}

// BenchmarkGAEOnAllCores is BenchmarkGAE with the trajectories dealt out to all
// cores, as `infinirl advantage` does and as PyTorch runs on several threads.
func BenchmarkGAEOnAllCores(b *testing.B) {
	const rows = 256
	data := syntheticBatch(rows, 8192)
	data.Advantages, data.Returns = make([]float32, len(data.TokenIDs)), make([]float32, len(data.TokenIDs))
	workers := runtime.GOMAXPROCS(0)
	var parts []*batch.Batch
	for w := range workers { // whole trajectories of four rows
		parts = append(parts, data.Slice(rows/4*w/workers*4, rows/4*(w+1)/workers*4))
	}
	cfg := Config{Estimator: "gae", Gamma: 1, Lambda: .95, CriticLambda: 1}
	for b.Loop() {
		var group sync.WaitGroup
		for _, part := range parts {
			group.Go(func() {
				if err := Compute(part, cfg); err != nil {
					b.Error(err)
				}
			})
		}
		group.Wait()
	}
	b.ReportMetric(float64(len(data.TokenIDs))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtoken/s")
}
