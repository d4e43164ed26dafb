package batch

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// benchBatch is 1000 segments of 8192 tokens, 40% of them trainable in spans of
// about 60, with five float columns: 205 MB in plain layout.
func benchBatch(rows, length int) *Batch {
	rng := rand.New(rand.NewPCG(1, 2))
	n := rows * length
	b := &Batch{CuSeqLens: []int64{0}, TokenIDs: make([]int32, n), LossMask: make([]bool, n)}
	for i := range rows {
		b.Rows = append(b.Rows, Row{TrajectoryID: fmt.Sprint("t", i/4), GroupID: fmt.Sprint("g", i/32), InvIter: 3 - i%4, PromptLen: length / 8, Status: "finished"})
		b.CuSeqLens = append(b.CuSeqLens, int64((i+1)*length))
		row := b.LossMask[i*length : (i+1)*length]
		for t := length / 8; t < length; {
			t += 40 + rng.IntN(60)
			for span := 40 + rng.IntN(40); span > 0 && t < length; span-- {
				row[t] = true
				t++
			}
		}
	}
	for _, c := range []*[]float32{&b.RolloutLogProbs, &b.OldLogProbs, &b.Values, &b.Advantages, &b.Returns} {
		*c = make([]float32, n)
		for t, m := range b.LossMask {
			if m {
				(*c)[t] = rng.Float32()
			}
		}
	}
	for t := range b.TokenIDs {
		b.TokenIDs[t] = rng.Int32N(151936)
	}
	return b
}

// BenchmarkSafetensors moves the file once through memory each way; the limit
// is the memory's bandwidth (reading: once more to grow the buffer).
func BenchmarkSafetensors(b *testing.B) {
	data := benchBatch(1000, 8192)
	for _, layout := range []Layout{Plain, Packed} {
		var file bytes.Buffer
		if err := data.WriteSafetensors(&file, layout); err != nil {
			b.Fatal(err)
		}
		raw := int64(25 * len(data.TokenIDs)) // ids, mask and five columns
		b.Run("write/"+string(layout), func(b *testing.B) {
			out := bytes.NewBuffer(make([]byte, 0, file.Len()))
			b.SetBytes(raw)
			for b.Loop() {
				out.Reset()
				if err := data.WriteSafetensors(out, layout); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(file.Len())/float64(raw), "size/raw")
		})
		b.Run("read/"+string(layout), func(b *testing.B) {
			b.SetBytes(raw)
			for b.Loop() {
				if _, err := ReadSafetensors(bytes.NewReader(file.Bytes())); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("parse/"+string(layout), func(b *testing.B) {
			b.SetBytes(raw)
			for b.Loop() {
				if _, err := ParseSafetensors(file.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkJSONLines reads and writes text: its limit is the conversion of
// decimals, some 20 ns a number.
func BenchmarkJSONLines(b *testing.B) {
	data := benchBatch(16, 8192)
	var file bytes.Buffer
	if err := data.WriteJSONLines(&file); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			if err := data.WriteJSONLines(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			if _, err := ReadJSONLines(bytes.NewReader(file.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
}
