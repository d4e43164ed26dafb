// Command compare measures how fast this project and JSON libraries read the same
// JSON Lines, on one core. From this folder:
//
//	go run . [FILE.jsonl]
//
// Without a file it makes a batch of about 100 MB. The libraries decode each line
// into a struct and stop there; batch.ReadJSONLines builds and checks the columns as
// well. They are measured twice: with bare numbers, which read the format wrong (a
// null becomes 0, ±1e999 is an error, and so is a mask of booleans), and with element
// types that read it right, but for NaN as Python writes it, which none of them
// takes. It is a module of its own, so that the libraries are no dependencies.
package main

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/bytedance/sonic"
	jsonv2 "github.com/go-json-experiment/json"
	gojson "github.com/goccy/go-json"

	"github.com/infinirl/infinirl/batch"
)

// row has the fields of a line, with types for entries of the mask and of numbers.
type row[B int8 | bit, F float32 | number] struct {
	TrajectoryID    string   `json:"trajectory_id"`
	GroupID         string   `json:"group_id"`
	InvIter         int      `json:"inv_iter"`
	PromptIDs       []int32  `json:"prompt_ids"`
	ResponseIDs     []int32  `json:"response_ids"`
	LossMask        []B      `json:"loss_mask"`
	RolloutLogProbs []F      `json:"rollout_log_probs"`
	Values          []F      `json:"values"`
	Advantages      []F      `json:"advantages"`
	Returns         []F      `json:"returns"`
	Score           *float64 `json:"score"`
	Status          string   `json:"status"`
}

// number takes null for NaN and ±1e999 for the infinities.
type number float32

func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = number(math.NaN())
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 32)
	*n = number(v)
	if errors.Is(err, strconv.ErrRange) && math.IsInf(v, 0) {
		return nil
	}
	return err
}

// bit takes 0, 1, false and true.
type bit bool

func (b *bit) UnmarshalJSON(text []byte) error {
	*b = string(text) == "1" || string(text) == "true"
	if !*b && string(text) != "0" && string(text) != "false" {
		return fmt.Errorf("%q: want 0 or 1", text)
	}
	return nil
}

func main() {
	runtime.GOMAXPROCS(1)
	text, err := input(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	fmt.Printf("%.0f MB of JSON Lines, %s, one core, processor time, best of three\n", float64(len(text))/1e6, runtime.Version())
	fmt.Printf("%-24s %6.0f MB/s\n", "batch.ReadJSONLines", speed(text, func() error {
		_, err := batch.ReadJSONLines(bytes.NewReader(text))
		return err
	}))
	for _, c := range []struct {
		name   string
		decode func([]byte, any) error
	}{
		{"encoding/json", stdjson.Unmarshal},
		{"go-json-experiment/json", func(b []byte, v any) error { return jsonv2.Unmarshal(b, v) }},
		{"goccy/go-json", gojson.Unmarshal},
		{"bytedance/sonic", sonic.Unmarshal},
	} {
		bare := speed(text, func() error {
			return each(text, func(line []byte) error { return c.decode(line, &row[int8, float32]{}) })
		})
		right := speed(text, func() error {
			return each(text, func(line []byte) error { return c.decode(line, &row[bit, number]{}) })
		})
		fmt.Printf("%-24s %6.0f MB/s bare, %4.0f MB/s right\n", c.name, bare, right)
	}
}

// each calls decode on every line.
func each(text []byte, decode func(line []byte) error) error {
	for line := range bytes.Lines(text) {
		if err := decode(line); err != nil {
			return err
		}
	}
	return nil
}

// processorTime is that of this process, whatever else the machine does.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// speed is the best of three, in MB a second of processor time.
func speed(text []byte, read func() error) float64 {
	best := time.Duration(math.MaxInt64)
	for range 3 {
		runtime.GC()
		start := processorTime()
		if err := read(); err != nil {
			fmt.Fprintln(os.Stderr, "compare:", err)
			os.Exit(1)
		}
		best = min(best, processorTime()-start)
	}
	return float64(len(text)) / 1e6 / best.Seconds()
}

// input is the named file, or a batch of 512 rows of 8,192 tokens.
func input(args []string) ([]byte, error) {
	if len(args) > 0 {
		return os.ReadFile(args[0])
	}
	const rows, length = 512, 8192
	rng := rand.New(rand.NewPCG(1, 2))
	n := rows * length
	b := &batch.Batch{CuSeqLens: []int64{0}, TokenIDs: make([]int32, n), LossMask: make([]bool, n)}
	for i := range rows {
		b.Rows = append(b.Rows, batch.Row{TrajectoryID: fmt.Sprint("t", i/4), GroupID: fmt.Sprint("g", i/32), InvIter: 3 - i%4, PromptLen: length / 8, Status: "finished"})
		b.CuSeqLens = append(b.CuSeqLens, int64((i+1)*length))
		for t := length / 8; t < length; t++ {
			b.LossMask[i*length+t] = t/60%5 < 2
		}
	}
	for _, c := range []*[]float32{&b.RolloutLogProbs, &b.Values, &b.Advantages, &b.Returns} {
		*c = make([]float32, n)
		for t, m := range b.LossMask {
			if m {
				(*c)[t] = float32(rng.NormFloat64())
			}
		}
	}
	for t := range b.TokenIDs {
		b.TokenIDs[t] = rng.Int32N(151936)
	}
	var out bytes.Buffer
	err := b.WriteJSONLines(&out)
	return out.Bytes(), err
}
