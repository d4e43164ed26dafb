package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// ulp is the distance between 1 and the next float32.
const ulp = 1.0 / (1 << 23)

// eachSet runs the test against every set, skipping those the processor lacks.
func eachSet(t *testing.T, test func(t *testing.T, set *Set)) {
	for _, name := range known {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := Select(name)
			if err != nil {
				t.Skip("not on this processor: ", err)
			}
			test(t, set)
		})
	}
}

// canary is a NaN that no kernel produces. Around inputs it shows elements
// that leak into results, around outputs those that are overwritten.
var canary = math.Float32frombits(0x7FC0BEEF)

const margin = 40 // canaries before and after a slice

// arena hands out slices at all alignments, between canaries.
type arena struct {
	*rand.Rand
	whole [][]float32
	sizes [][2]int
}

func newArena(seed uint64) *arena { return &arena{Rand: rand.New(rand.NewPCG(seed, 1))} }

// filled returns n elements from value, with capacity n.
func (a *arena) filled(n int, value func() float32) []float32 {
	start := margin + a.IntN(16)
	whole := make([]float32, start+n+margin)
	for i := range whole {
		whole[i] = canary
	}
	x := whole[start : start+n : start+n]
	for i := range x {
		x[i] = value()
	}
	a.whole = append(a.whole, whole)
	a.sizes = append(a.sizes, [2]int{start, start + n})
	return x
}

// uniform returns n random elements in [−1, 1).
func (a *arena) uniform(n int) []float32 {
	return a.filled(n, func() float32 { return 2*a.Float32() - 1 })
}

// spread returns n random elements in [−r, r).
func (a *arena) spread(n int, r float32) []float32 {
	return a.filled(n, func() float32 { return r * (2*a.Float32() - 1) })
}

// blank returns n canaries.
func (a *arena) blank(n int) []float32 { return a.filled(n, func() float32 { return canary }) }

// check fails if a canary outside the slices has changed.
func (a *arena) check(t *testing.T, what string) {
	t.Helper()
	for s, whole := range a.whole {
		for i, x := range whole {
			if (i < a.sizes[s][0] || i >= a.sizes[s][1]) && !isCanary(x) {
				t.Fatalf("%s: wrote outside slice %d of %d elements, at index %d", what, s, a.sizes[s][1]-a.sizes[s][0], i-a.sizes[s][0])
			}
		}
	}
}

func isCanary(x float32) bool { return math.Float32bits(x) == math.Float32bits(canary) }

// near fails unless got is within tolerance of want, or both are the same
// infinity, or both NaN.
func near(t *testing.T, what string, got float32, want, tolerance float64) {
	t.Helper()
	g := float64(got)
	if g == want || math.IsNaN(g) && math.IsNaN(want) {
		return
	}
	if !(math.Abs(g-want) <= tolerance) {
		t.Fatalf("%s: got %v, want %v ± %.3g", what, got, want, tolerance)
	}
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, want the same bits as %v", what, i, got[i], want[i])
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	names := Available()
	if names[len(names)-1] != "go" {
		t.Fatalf("Available() = %q, must end with the portable set", names)
	}
	for _, name := range names {
		if set, err := Select(name); err != nil || set.Name() != name {
			t.Errorf("Select(%q) = %v, %v", name, set.Name(), err)
		}
		if set, err := choose(name); err != nil || set.Name() != name {
			t.Errorf("choose(%q) = %v, %v", name, set.Name(), err)
		}
	}
	if set, err := choose(""); err != nil || set.Name() != names[0] {
		t.Errorf("the default set is %v, %v; want %s", set.Name(), err, names[0])
	}
	_, err := choose("sse9")
	if err == nil || !strings.Contains(err.Error(), Variable) || !strings.Contains(err.Error(), `"sse9"`) {
		t.Errorf("an unknown set gives error %v; it must name the variable and its value", err)
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	t.Parallel()
	x := make([]float32, 16)
	short := x[:15:16]
	eachSet(t, func(t *testing.T, s *Set) {
		for name, call := range map[string]func(){
			"Dot":             func() { s.Dot(x, short) },
			"Axpy":            func() { s.Axpy(1, x, short) },
			"Add":             func() { s.Add(x, short) },
			"ExpSum":          func() { s.ExpSum(x, short, 0) },
			"SoftmaxBackward": func() { s.SoftmaxBackward(x, x, short, 0, 1) },
			"SiluMul":         func() { s.SiluMul(x, x, short) },
			"SiluMulBackward": func() { s.SiluMulBackward(x, x, x, x, short) },
			"RMSNorm":         func() { s.RMSNorm(x, x, short, 0) },
			"RMSNormBackward": func() { s.RMSNormBackward(x, x, x, x, short, 1) },
			"Rotate":          func() { s.Rotate(x, x[:8], x[:7]) },
			"RotateBack":      func() { s.RotateBack(short, x[:7], x[:7]) },
			"AdamW":           func() { s.AdamW(x, x, x, short, AdamWStep{}) },
			"Gemm A":          func() { s.Gemm(4, 1, 4, short, 4, 1, x, 1, x, 1, false) },
			"Gemm B":          func() { s.Gemm(1, 4, 4, x, 4, 1, short, 4, x, 4, false) },
			"Gemm C":          func() { s.Gemm(4, 4, 1, x, 1, 1, x, 4, short, 4, false) },
			"Gemm ldb":        func() { s.Gemm(1, 4, 1, x, 1, 1, x, 3, x, 4, false) },
			"Gemm ldc":        func() { s.Gemm(1, 4, 1, x, 1, 1, x, 4, x, 3, false) },
			"Gemm m":          func() { s.Gemm(-1, 4, 1, x, 1, 1, x, 4, x, 4, false) },
			"Transpose src":   func() { s.Transpose(4, 4, short, 4, x, 4) },
			"Transpose dst":   func() { s.Transpose(4, 4, x, 4, short, 4) },
		} {
			func() {
				defer func() {
					message := fmt.Sprint(recover())
					if op, _, _ := strings.Cut(name, " "); !strings.HasPrefix(message, "kernel: ") || op != "RotateBack" && !strings.Contains(message, op) {
						t.Errorf("%s with a wrong length: panic %q", name, message)
					}
				}()
				call()
			}()
		}
	})
}

func TestNoAllocation(t *testing.T) {
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 64*64), make([]float32, 64*64)
	row, other := x[:64], y[:64]
	if n := testing.AllocsPerRun(10, func() {
		s.Gemm(64, 32, 64, x, 64, 1, x, 64, y, 64, false)
		s.Softmax(row)
		s.SiluMul(row, row, other)
		s.RMSNorm(other, row, row, 1e-6)
		s.AdamW(row, row, other, other, AdamWStep{Bias1: 1, Bias2: 1})
	}); n != 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
}
