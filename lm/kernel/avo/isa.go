package main

import (
	"fmt"
	"math"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set: AVX-512 (F and VL), or AVX2 with FMA. Most arithmetic
// has the same mnemonics in both, so a kernel is written once; the methods
// here are what differs.
type isa struct {
	name   string // suffix of function names
	opmask bool   // AVX-512
	lanes  int    // float32 elements in a vector
}

var (
	avx512 = isa{name: "AVX512", opmask: true, lanes: 16}
	avx2   = isa{name: "AVX2", lanes: 8}
)

// vec is a new vector register.
func (v isa) vec() VecVirtual {
	if v.opmask {
		return ZMM()
	}
	return YMM()
}

// zero is a new vector register of zeros.
func (v isa) zero() VecVirtual {
	x := v.vec()
	v.clear(x)
	return x
}

func (v isa) clear(x Register) {
	if v.opmask {
		VPXORD(x, x, x)
	} else {
		VXORPS(x, x, x)
	}
}

// broadcast is a new vector register with every lane equal to the scalar.
func (v isa) broadcast(scalar Op) VecVirtual {
	x := v.vec()
	VBROADCASTSS(scalar, x)
	return x
}

// parameter broadcasts a float32 argument of the function.
func (v isa) parameter(name string) VecVirtual {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return v.broadcast(p.Addr)
}

// constant is a vector of equal lanes to use as the first operand of an
// instruction: a register in AVX-512, which has 32, and memory in AVX2.
// A constant must be asked for ahead of the loop that uses it.
func (v isa) constant(name string, value float32) Op {
	m, ok := constants[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i := range v.lanes {
			DATA(4*i, U32(math.Float32bits(value)))
		}
		constants[name] = m
	}
	if v.opmask {
		return v.load(m)
	}
	return m
}

var constants = map[string]Mem{}

// load is a register with the value of a constant.
func (v isa) load(constant Op) VecVirtual {
	x := v.vec()
	VMOVUPS(constant, x)
	return x
}

// mask selects the first lanes of a vector.
type mask struct {
	isa
	register Register // opmask register (AVX-512) or vector of all-ones lanes (AVX2)
}

// none stands for a whole vector.
func (v isa) none() mask { return mask{isa: v} }

// first is the mask of the first count lanes, 0 ≤ count ≤ lanes.
func (v isa) first(count Register) mask {
	if v.opmask {
		k, bits := K(), GP64()
		MOVQ(count, RCX)
		MOVQ(I32(-1), bits)
		SHLQ(CL, bits)
		NOTQ(bits)
		KMOVW(bits.As32(), k)
		return mask{v, k}
	}
	// The table holds eight all-ones lanes, then eight zeros.
	table := Mem{Symbol: Symbol{Name: "masks", Static: true}, Base: StaticBase}
	base, back, ones := GP64(), GP64(), YMM()
	LEAQ(table, base)
	MOVQ(U32(8), back)
	SUBQ(count, back)
	VMOVUPS(Mem{Base: base, Index: back, Scale: 4}, ones)
	return mask{v, ones}
}

// masks emits the table that first reads.
func masks() {
	GLOBL("masks", RODATA|NOPTR)
	for i := range 16 {
		ones := U32(0xFFFFFFFF)
		if i >= 8 {
			ones = 0
		}
		DATA(4*i, ones)
	}
}

// load reads the selected lanes; the others become zero and are not touched.
func (k mask) load(from Mem) VecVirtual {
	x := k.vec()
	k.loadTo(from, x)
	return x
}

func (k mask) loadTo(from Mem, x Register) {
	switch {
	case k.register == nil:
		VMOVUPS(from, x)
	case k.opmask:
		VMOVUPS_Z(from, k.register, x)
	default:
		VMASKMOVPS(from, k.register, x)
	}
}

// store writes the selected lanes and touches no others.
func (k mask) store(x Register, to Mem) {
	switch {
	case k.register == nil:
		VMOVUPS(x, to)
	case k.opmask:
		VMOVUPS(x, k.register, to)
	default:
		VMASKMOVPS(x, k.register, to)
	}
}

// clean zeroes the lanes of x that are not selected.
func (k mask) clean(x Register) {
	switch {
	case k.register == nil:
	case k.opmask:
		VMOVAPS_Z(x, k.register, x)
	default:
		VANDPS(k.register, x, x)
	}
}

// fill sets the lanes of x that are not selected to those of other.
func (k mask) fill(x, other Register) {
	switch {
	case k.register == nil:
	case k.opmask:
		VBLENDMPS(x, other, k.register, x)
	default:
		VBLENDVPS(k.register, x, other, x)
	}
}

// add and greater are the operators of reduce.
func add(x, y Register)     { VADDPS(x, y, y) }
func greater(x, y Register) { VMAXPS(x, y, y) }
func addPD(x, y Register)   { VADDPD(x, y, y) }

// reduce folds the lanes of x, halving it until lanes of size bytes remain,
// and returns the register whose lowest lane is the result.
func (v isa) reduce(x VecVirtual, size int, op func(x, y Register)) Register {
	low := x.AsY()
	if v.opmask {
		high := YMM()
		VEXTRACTF64X4(Imm(1), x, high)
		op(high, low)
	}
	high, least := XMM(), x.AsX()
	VEXTRACTF128(Imm(1), low, high)
	op(high, least)
	VPERMILPS(Imm(0b_11_10_11_10), least, high)
	op(high, least)
	if size == 4 {
		VPERMILPS(Imm(0b_01_01_01_01), least, high)
		op(high, least)
	}
	return least
}

// elements loops over arrays of n elements: unroll whole vectors at a time, then
// one, then the rest under a mask. body is emitted for each of these with the
// place of the vector and its number within the group.
func (v isa) elements(n Register, unroll int, body func(p place, lane int)) {
	i, end := GP64(), GP64()
	XORQ(i, i)
	for _, group := range slices.Compact([]int{unroll, 1}) {
		loop, done := fmt.Sprintf("by%d", group), fmt.Sprintf("by%ddone", group)
		MOVQ(n, end)
		SUBQ(Imm(uint64(group*v.lanes)), end)
		Label(loop)
		CMPQ(i, end)
		JG(LabelRef(done))
		for lane := range group {
			body(place{v.none(), i, lane * v.lanes}, lane)
		}
		ADDQ(Imm(uint64(group*v.lanes)), i)
		JMP(LabelRef(loop))
		Label(done)
	}
	MOVQ(n, end)
	SUBQ(i, end)
	JZ(LabelRef("rest"))
	body(place{v.first(end), i, 0}, 0)
	Label("rest")
}

// place is where a loop over arrays stands: at element index + offset, with a
// vector of the elements that mask selects.
type place struct {
	mask
	index  Register
	offset int
}

// of addresses the place in the array at base.
func (p place) of(base Register) Mem {
	return Mem{Base: base, Index: p.index, Scale: 4, Disp: 4 * p.offset}
}

// array loads the base address of a slice argument.
func array(name string) Register { return Load(Param(name).Base(), GP64()) }

// length loads the length of a slice argument.
func length(name string) Register { return Load(Param(name).Len(), GP64()) }

// finish returns to Go. VZEROUPPER spares the scalar SSE code that follows a
// penalty on every instruction.
func finish() {
	VZEROUPPER()
	RET()
}
