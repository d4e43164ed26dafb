package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// exponential computes exp of a vector after Cephes' expf: with n the integer
// nearest to x/ln 2 and r = x − n·ln 2, |r| ≤ ln(2)/2,
//
//	exp(x) = 2^n · (1 + r·(1 + r·(c_5 + r·(c_4 + … r·c_0))))
//
// ln 2 is split in two, so that n·high is exact.
type exponential struct {
	isa
	least, most, log2e, high, low, one Op
	c                                  [6]Op
}

func (v isa) exponential() exponential {
	e := exponential{
		isa:   v,
		least: v.constant("exp_least", -104), // exp rounds to 0 below
		most:  v.constant("exp_most", 89),    // and to +Inf above
		log2e: v.constant("exp_log2e", 1.44269504088896341),
		high:  v.constant("exp_ln2_high", 0.693359375),
		low:   v.constant("exp_ln2_low", -2.12194440e-4),
		one:   v.constant("exp_one", 1),
	}
	for i, c := range []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		e.c[i] = v.constant("exp_c"+string(rune('0'+i)), c)
	}
	return e
}

// of replaces x by its exponential. NaN stays: MAX and MIN return their first
// operand here if either is NaN.
func (e exponential) of(x VecVirtual) {
	VMAXPS(x, e.load(e.least), x)
	VMINPS(x, e.load(e.most), x)
	n := e.vec()
	VMULPS(e.log2e, x, n)
	const nearest = 8 // round to even, no exception
	if e.opmask {
		VRNDSCALEPS(Imm(nearest), n, n)
	} else {
		VROUNDPS(Imm(nearest), n, n)
	}
	VFNMADD231PS(e.high, n, x)
	VFNMADD231PS(e.low, n, x)
	p := e.load(e.c[0])
	for _, c := range e.c[1:] {
		VFMADD213PS(c, x, p)
	}
	VFMADD213PS(e.one, x, p)
	VFMADD213PS(e.one, x, p)
	if e.opmask {
		VSCALEFPS(n, p, x)
		return
	}
	// 2^n may be out of range where the result is not: multiply by 2^⌊n/2⌋ and
	// 2^(n−⌊n/2⌋), which adding to the exponent bits of one makes.
	one := e.load(e.one)
	half := e.vec()
	VCVTPS2DQ(n, n)
	VPSRAD(Imm(1), n, half)
	VPSUBD(half, n, n)
	VPSLLD(Imm(23), half, half)
	VPADDD(one, half, half)
	VPSLLD(Imm(23), n, n)
	VPADDD(one, n, n)
	VMULPS(half, p, p)
	VMULPS(n, p, x)
}

// sigmoid returns 1/(1+exp(−x)).
func (e exponential) sigmoid(x VecVirtual) VecVirtual {
	s := e.zero()
	VSUBPS(x, s, s)
	e.of(s)
	VADDPS(e.one, s, s)
	VDIVPS(s, e.load(e.one), s)
	return s
}

func (v isa) exponentials() {
	v.function("expSum", "(dst, x []float32, bias float32) float32", "sets dst = exp(x − bias) and returns Σ dst.")
	{
		e := v.exponential()
		dst, x, n, bias := array("dst"), array("x"), length("dst"), v.parameter("bias")
		sums := [2]VecVirtual{v.zero(), v.zero()}
		v.elements(n, 2, func(p place, lane int) {
			value := p.load(p.of(x))
			VSUBPS(bias, value, value)
			e.of(value)
			p.store(value, p.of(dst))
			p.clean(value)
			VADDPS(value, sums[lane], sums[lane])
		})
		VADDPS(sums[1], sums[0], sums[0])
		Store(v.reduce(sums[0], 4, add), ReturnIndex(0))
		finish()
	}

	v.function("siluMul", "(dst, gate, up []float32)", "sets dst = gate·σ(gate)·up.")
	{
		e := v.exponential()
		dst, gate, up, n := array("dst"), array("gate"), array("up"), length("dst")
		v.elements(n, 1, func(p place, _ int) {
			g := p.load(p.of(gate))
			s := e.sigmoid(g)
			VMULPS(g, s, s)
			VMULPS(p.load(p.of(up)), s, s)
			p.store(s, p.of(dst))
		})
		finish()
	}

	v.function("siluMulBackward", "(dgate, dup, dout, gate, up []float32)",
		"sets dgate = dout·up·σ·(1 + gate·(1−σ)) and dup = dout·gate·σ.")
	{
		e := v.exponential()
		dgate, dup, dout, gate, up, n := array("dgate"), array("dup"), array("dout"), array("gate"), array("up"), length("dgate")
		v.elements(n, 1, func(p place, _ int) {
			g := p.load(p.of(gate))
			s := e.sigmoid(g)
			rest := e.load(e.one)
			VSUBPS(s, rest, rest)
			VFMADD213PS(e.one, g, rest) // 1 + gate·(1−σ)
			VMULPS(s, rest, rest)
			d := p.load(p.of(dout))
			VMULPS(d, rest, rest)
			VMULPS(p.load(p.of(up)), rest, rest)
			VMULPS(s, g, g)
			VMULPS(d, g, g)
			p.store(rest, p.of(dgate))
			p.store(g, p.of(dup))
		})
		finish()
	}
}
