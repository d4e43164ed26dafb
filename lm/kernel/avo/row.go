package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// function starts a function on rows.
func (v isa) function(name, signature, doc string) {
	TEXT(name+v.name, NOSPLIT, "func"+signature)
	Pragma("noescape")
	Doc(name + v.name + " " + doc)
}

// accumulators are four independent sums, to hide the latency of additions.
func (v isa) accumulators() [4]VecVirtual {
	return [4]VecVirtual{v.zero(), v.zero(), v.zero(), v.zero()}
}

// total leaves op over all four accumulators and their lanes in a register.
func (v isa) total(acc [4]VecVirtual, size int, op func(x, y Register)) Register {
	op(acc[1], acc[0])
	op(acc[3], acc[2])
	op(acc[2], acc[0])
	return v.reduce(acc[0], size, op)
}

func (v isa) reductions() {
	v.function("dot", "(x, y []float32) float32", "returns Σ x·y.")
	{
		x, y, n, acc := array("x"), array("y"), length("x"), v.accumulators()
		v.elements(n, 4, func(p place, lane int) {
			VFMADD231PS(p.load(p.of(x)), p.load(p.of(y)), acc[lane])
		})
		Store(v.total(acc, 4, add), ReturnIndex(0))
		finish()
	}

	v.function("dot3", "(x, y, z []float32) float32", "returns Σ x·y·z.")
	{
		x, y, z, n, acc := array("x"), array("y"), array("z"), length("x"), v.accumulators()
		v.elements(n, 4, func(p place, lane int) {
			product := p.load(p.of(x))
			VMULPS(p.load(p.of(y)), product, product)
			VFMADD231PS(p.load(p.of(z)), product, acc[lane])
		})
		Store(v.total(acc, 4, add), ReturnIndex(0))
		finish()
	}

	v.function("max", "(x []float32) float32", "returns the greatest element, −Inf for none.")
	{
		x, n := array("x"), length("x")
		lowest := v.load(v.constant("lowest", float32(math.Inf(-1))))
		var acc [4]VecVirtual
		for i := range acc {
			acc[i] = v.load(lowest)
		}
		v.elements(n, 4, func(p place, lane int) {
			value := p.load(p.of(x))
			p.fill(value, lowest)
			greater(value, acc[lane])
		})
		Store(v.total(acc, 4, greater), ReturnIndex(0))
		finish()
	}

	// A vector of float64 holds half as many elements.
	v.function("sumSquares", "(x []float32) float64", "returns Σ x², accumulated in float64.")
	{
		x, n, acc := array("x"), length("x"), v.accumulators()
		half := v
		half.lanes /= 2
		half.elements(n, 4, func(p place, lane int) {
			value := v.vec()
			switch {
			case p.register == nil:
				VCVTPS2PD(p.of(x), value)
			case v.opmask:
				VCVTPS2PD_Z(p.of(x), p.register, value)
			default:
				few := XMM()
				VMASKMOVPS(p.of(x), p.register.(VecVirtual).AsX(), few)
				VCVTPS2PD(few, value)
			}
			VFMADD231PD(value, value, acc[lane])
		})
		Store(v.total(acc, 8, addPD), ReturnIndex(0))
		finish()
	}
}

func (v isa) elementwise() {
	v.function("axpy", "(alpha float32, x, y []float32)", "adds alpha·x to y.")
	{
		alpha, x, y, n := v.parameter("alpha"), array("x"), array("y"), length("x")
		v.elements(n, 2, func(p place, _ int) {
			sum := p.load(p.of(y))
			VFMADD231PS(p.load(p.of(x)), alpha, sum)
			p.store(sum, p.of(y))
		})
		finish()
	}

	v.function("add", "(dst, x []float32)", "adds x to dst.")
	{
		dst, x, n := array("dst"), array("x"), length("x")
		v.elements(n, 2, func(p place, _ int) {
			sum := p.load(p.of(dst))
			VADDPS(p.load(p.of(x)), sum, sum)
			p.store(sum, p.of(dst))
		})
		finish()
	}

	v.function("scale", "(alpha float32, x []float32)", "multiplies x by alpha.")
	{
		alpha, x, n := v.parameter("alpha"), array("x"), length("x")
		v.elements(n, 2, func(p place, _ int) {
			product := p.load(p.of(x))
			VMULPS(alpha, product, product)
			p.store(product, p.of(x))
		})
		finish()
	}

	v.function("scaleMul", "(dst, x, weight []float32, scale float32)", "sets dst = x·scale·weight.")
	{
		dst, x, weight, n, scale := array("dst"), array("x"), array("weight"), length("dst"), v.parameter("scale")
		v.elements(n, 1, func(p place, _ int) {
			product := p.load(p.of(x))
			VMULPS(scale, product, product)
			VMULPS(p.load(p.of(weight)), product, product)
			p.store(product, p.of(dst))
		})
		finish()
	}

	v.function("rmsNormBackward", "(dx, dweight, dy, x, weight []float32, r, beta float32)",
		"adds r·(weight·dy − x·beta) to dx and dy·x·r to dweight.")
	{
		dx, dweight, dy, x, weight, n := array("dx"), array("dweight"), array("dy"), array("x"), array("weight"), length("dx")
		r, beta := v.parameter("r"), v.parameter("beta")
		v.elements(n, 1, func(p place, _ int) {
			input, output := p.load(p.of(x)), p.load(p.of(dy))
			inner, sum := v.vec(), p.load(p.of(dx))
			VMULPS(p.load(p.of(weight)), output, inner)
			VFNMADD231PS(beta, input, inner)
			VFMADD231PS(r, inner, sum)
			p.store(sum, p.of(dx))
			VMULPS(output, input, input)
			sum = p.load(p.of(dweight))
			VFMADD231PS(r, input, sum)
			p.store(sum, p.of(dweight))
		})
		finish()
	}

	v.function("softmaxBackward", "(ds, p, dp []float32, dot, scale float32)", "sets ds = p·(dp − dot)·scale.")
	{
		ds, probability, dp, n := array("ds"), array("p"), array("dp"), length("ds")
		dot, scale := v.parameter("dot"), v.parameter("scale")
		v.elements(n, 1, func(p place, _ int) {
			product := p.load(p.of(dp))
			VSUBPS(dot, product, product)
			VMULPS(p.load(p.of(probability)), product, product)
			VMULPS(scale, product, product)
			p.store(product, p.of(ds))
		})
		finish()
	}

	v.function("rotate", "(x, cos, sin []float32, sign float32)", "turns the pairs x_i, x_{i+half}.")
	{
		low, cos, sin, n, sign := array("x"), array("cos"), array("sin"), length("cos"), v.parameter("sign")
		high := GP64()
		LEAQ(Mem{Base: low, Index: n, Scale: 4}, high)
		v.elements(n, 1, func(p place, _ int) {
			c, s := p.load(p.of(cos)), p.load(p.of(sin))
			VMULPS(sign, s, s)
			x, y := p.load(p.of(low)), p.load(p.of(high))
			u, w := v.vec(), v.vec()
			VMULPS(s, y, u)
			VFMSUB231PS(c, x, u)
			VMULPS(s, x, w)
			VFMADD231PS(c, y, w)
			p.store(u, p.of(low))
			p.store(w, p.of(high))
		})
		finish()
	}

	v.function("adamW", "(param, grad, m, v []float32, keep, rate, beta1, rest1, beta2, rest2, unbias2, epsilon float32)",
		"takes one optimizer step.")
	{
		param, grad, first, second, n := array("param"), array("grad"), array("m"), array("v"), length("param")
		keep, rate, epsilon := v.parameter("keep"), v.parameter("rate"), v.parameter("epsilon")
		beta1, rest1 := v.parameter("beta1"), v.parameter("rest1")
		beta2, rest2, unbias2 := v.parameter("beta2"), v.parameter("rest2"), v.parameter("unbias2")
		v.elements(n, 1, func(p place, _ int) {
			g, square := p.load(p.of(grad)), v.vec()
			VMULPS(g, g, square)
			VMULPS(rest2, square, square)
			VFMADD231PS(p.load(p.of(second)), beta2, square)
			p.store(square, p.of(second))
			VMULPS(rest1, g, g)
			VFMADD231PS(p.load(p.of(first)), beta1, g)
			p.store(g, p.of(first))
			VMULPS(unbias2, square, square)
			VSQRTPS(square, square)
			VADDPS(epsilon, square, square)
			VMULPS(rate, g, g)
			VDIVPS(square, g, g)
			w := p.load(p.of(param))
			VFMSUB213PS(g, keep, w)
			p.store(w, p.of(param))
		})
		finish()
	}
}
