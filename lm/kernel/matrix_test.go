package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// product is one call of Gemm.
type product struct {
	m, n, k  int
	a        []float32
	rsA, csA int
	b        []float32
	ldb      int
	c        []float32
	ldc      int
}

const layouts = 5

// newProduct draws matrices with gaps between rows. A is row-major in layouts 0
// and 3, transposed in 1 and 4, and has gaps between elements in 2. In 3 and 4
// the rows of A and B are pages apart.
func newProduct(r *arena, m, n, k, layout int) product {
	p := product{m: m, n: n, k: k, ldb: n + r.IntN(5), ldc: n + r.IntN(5)}
	switch layout {
	case 0:
		p.rsA, p.csA = k+r.IntN(5), 1
	case 1:
		p.rsA, p.csA = 1, m+r.IntN(5)
	case 2:
		p.rsA, p.csA = 2*k+1, 2
	case 3:
		p.rsA, p.csA, p.ldb = 2048, 1, 1024
	case 4:
		p.rsA, p.csA, p.ldb = 1, 2048, 1024
	}
	if k > 0 {
		p.a = r.uniform((m-1)*p.rsA + (k-1)*p.csA + 1)
		p.b = r.uniform((k-1)*p.ldb + n)
	}
	p.c = r.blank((m-1)*p.ldc + n)
	return p
}

func (p product) run(s *Set, accumulate bool) {
	s.Gemm(p.m, p.n, p.k, p.a, p.rsA, p.csA, p.b, p.ldb, p.c, p.ldc, accumulate)
}

// part is the product of rows i…, columns j… and terms q… alone.
func (p product) part(i, m, j, n, q, k int) product {
	p.m, p.n, p.k = m, n, k
	p.a, p.b, p.c = p.a[i*p.rsA+q*p.csA:], p.b[q*p.ldb+j:], p.c[i*p.ldc+j:]
	return p
}

// checkProduct compares the product with its twin in float64, given C as it was
// before, or nil if C was overwritten.
func checkProduct(t *testing.T, what string, p product, before []float32) {
	t.Helper()
	for i := range p.m {
		for j := range p.ldc {
			at := i*p.ldc + j
			if j >= p.n {
				if at < len(p.c) && !isCanary(p.c[at]) {
					t.Fatalf("%s: wrote between the rows of C, at [%d, %d]", what, i, j)
				}
				continue
			}
			var want, size float64
			if before != nil {
				want = float64(before[at])
				size = math.Abs(want)
			}
			for q := range p.k {
				term := float64(p.a[i*p.rsA+q*p.csA]) * float64(p.b[q*p.ldb+j])
				want += term
				size += math.Abs(term)
			}
			// Each of k multiply-adds rounds once or twice, by half an ulp of
			// a partial sum.
			near(t, fmt.Sprintf("%s: C[%d, %d]", what, i, j), p.c[at], want, float64(p.k+1)*size*ulp)
		}
	}
}

func TestGemm(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		for _, m := range []int{1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 29, 43} {
			for _, n := range []int{1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 129} {
				for _, k := range []int{0, 1, 2, 5, 17} {
					layout := (m + n + k) % layouts
					what := fmt.Sprintf("m=%d n=%d k=%d layout=%d", m, n, k, layout)
					r := newArena(uint64(m + 100*n + 10000*k))
					p := newProduct(r, m, n, k, layout)
					p.run(s, false)
					checkProduct(t, what, p, nil)
					before := slices.Clone(p.c)
					p.run(s, true)
					checkProduct(t, what+" accumulate", p, before)
					r.check(t, what)
				}
			}
		}
	})
}

// Larger than the blocks of the assembly sets along every side.
func TestGemmLarge(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		for layout, size := range [layouts][3]int{{300, 33, 600}, {70, 48, 1100}, {263, 17, 513}, {300, 65, 600}, {300, 66, 600}} {
			r := newArena(1)
			p := newProduct(r, size[0], size[1], size[2], layout)
			p.run(s, false)
			checkProduct(t, fmt.Sprint(size), p, nil)
			r.check(t, fmt.Sprint(size))
		}
	})
}

// Cutting a product along m, n or k changes no bit: this is what makes a
// sampled sequence independent of the others in its batch.
func TestGemmBitsDoNotDependOnCuts(t *testing.T) {
	t.Parallel()
	eachSet(t, func(t *testing.T, s *Set) {
		for _, size := range [][3]int{{1, 1, 9}, {3, 130, 64}, {45, 70, 33}, {33, 200, 600}, {280, 70, 520}} {
			for layout := range layouts {
				r := newArena(uint64(layout))
				whole := newProduct(r, size[0], size[1], size[2], layout)
				whole.run(s, false)
				cut := whole
				for trial := range 12 {
					cut.c = r.blank(len(whole.c))
					// Parts of random heights, widths and depths; the first
					// trials go row by row and column by column.
					most := [3]int{size[0], size[1], size[2]}
					switch trial {
					case 0:
						most[0] = 1
					case 1:
						most[1] = 1
					}
					for i, m := 0, 0; i < size[0]; i += m {
						m = min(1+r.IntN(most[0]), size[0]-i)
						for j, n := 0, 0; j < size[1]; j += n {
							n = min(1+r.IntN(most[1]), size[1]-j)
							for q, k := 0, 0; q < size[2]; q += k {
								k = min(1+r.IntN(most[2]), size[2]-q)
								cut.part(i, m, j, n, q, k).run(s, q > 0)
							}
						}
					}
					sameBits(t, fmt.Sprintf("size %v layout %d trial %d", size, layout, trial), cut.c, whole.c)
				}
				r.check(t, fmt.Sprint(size))
			}
		}
	})
}

// The assembly sets round alike, so a model samples the same on both.
func TestGemmAssemblySetsAgree(t *testing.T) {
	t.Parallel()
	wide, err := Select("avx512")
	if err != nil {
		t.Skip("not on this processor: ", err)
	}
	narrow, err := Select("avx2")
	if err != nil {
		t.Skip("not on this processor: ", err)
	}
	p := newProduct(newArena(1), 37, 77, 700, 0)
	p.run(wide, false)
	want := slices.Clone(p.c)
	p.run(narrow, false)
	sameBits(t, "avx2 against avx512", p.c, want)
}

// Infinities and NaN stay in their rows and columns.
func TestGemmSpecialValues(t *testing.T) {
	t.Parallel()
	inf := float32(math.Inf(1))
	eachSet(t, func(t *testing.T, s *Set) {
		const m, n, k = 15, 37, 6
		p := newProduct(newArena(1), m, n, k, 0)
		p.a[3*p.rsA] = inf
		p.b[2*p.ldb+5] = canary
		p.run(s, false)
		for i := range m {
			for j := range n {
				x := float64(p.c[i*p.ldc+j])
				if nan := j == 5; nan != math.IsNaN(x) || (i == 3 && !nan) != math.IsInf(x, 0) {
					t.Fatalf("C[%d, %d] = %v with A[3, 0] = +Inf and B[2, 5] = NaN", i, j, x)
				}
			}
		}
	})
}

func FuzzGemm(f *testing.F) {
	f.Add(uint8(14), uint8(32), uint8(64), uint8(0), true)
	f.Add(uint8(1), uint8(200), uint8(3), uint8(1), false)
	f.Add(uint8(29), uint8(17), uint8(0), uint8(2), true)
	f.Fuzz(func(t *testing.T, m, n, k, layout uint8, accumulate bool) {
		if m == 0 || n == 0 {
			return
		}
		for _, name := range Available() {
			s, err := Select(name)
			if err != nil {
				t.Fatal(err)
			}
			r := newArena(uint64(m))
			p := newProduct(r, int(m), int(n), int(k), int(layout%layouts))
			var before []float32
			if accumulate {
				for i := range p.m {
					for j := range p.n {
						p.c[i*p.ldc+j] = 2*r.Float32() - 1
					}
				}
				before = slices.Clone(p.c)
			}
			p.run(s, accumulate)
			checkProduct(t, name, p, before)
			r.check(t, name)
		}
	})
}

func TestTranspose(t *testing.T) {
	t.Parallel()
	sizes := []int{1, 2, 7, 8, 9, 15, 16, 17, 33, 64}
	eachSet(t, func(t *testing.T, s *Set) {
		for _, rows := range sizes {
			for _, cols := range sizes {
				r := newArena(uint64(rows))
				lds, ldd := cols+r.IntN(4), rows+r.IntN(4)
				src, dst := r.uniform((rows-1)*lds+cols), r.blank((cols-1)*ldd+rows)
				s.Transpose(rows, cols, src, lds, dst, ldd)
				for j := range cols {
					for i := range ldd {
						at := j*ldd + i
						if i < rows && dst[at] != src[i*lds+j] || i >= rows && at < len(dst) && !isCanary(dst[at]) {
							t.Fatalf("%d×%d: wrong element [%d, %d]", rows, cols, j, i)
						}
					}
				}
				r.check(t, fmt.Sprintf("%d×%d", rows, cols))
			}
		}
		s.Transpose(0, 5, nil, 5, nil, 5)
	})
}

// A product with a B that is given as its transpose has the bits of Gemm, and so has
// one whose B is too large for the caches.
func TestGemmT(t *testing.T) {
	eachSet(t, func(t *testing.T, s *Set) {
		r := newArena(6)
		for _, size := range [][3]int{{1, 1, 1}, {3, 40, 9}, {70, 33, 7}, {64, 64, 64}, {15, 31, 600}, {65, 90, 1030}, {70, 700, 200}, {1, 5, 0}} {
			m, n, k := size[0], size[1], size[2]
			for layout := range layouts {
				for _, accumulate := range []bool{false, true} {
					p := newProduct(r, m, n, k, layout)
					c := r.uniform(len(p.c))
					copy(p.c, c)
					p.run(s, accumulate)
					ldb := k + 3
					turned := r.uniform(n*ldb + 1)
					for j := range n {
						for q := range k {
							turned[j*ldb+q] = p.b[q*p.ldb+j]
						}
					}
					s.GemmT(m, n, k, p.a, p.rsA, p.csA, turned, ldb, c, p.ldc, accumulate)
					for i := range m {
						if !slices.Equal(c[i*p.ldc:i*p.ldc+n], p.c[i*p.ldc:i*p.ldc+n]) {
							t.Fatalf("%dx%dx%d, layout %d, accumulate %v: row %d differs", m, n, k, layout, accumulate, i)
						}
					}
				}
			}
		}
	})
}
