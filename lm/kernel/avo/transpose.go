package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// transpose emits the transposition of a strip of 8×8 blocks, which serves both
// instruction sets: it is bound by memory and the shuffle unit.
func transpose() {
	TEXT("transposeStrip", NOSPLIT, "func(blocks int, src *float32, lds int, dst *float32, ldd int)")
	Pragma("noescape")
	Doc("transposeStrip copies src [8, 8·blocks] to dst [8·blocks, 8]. Strides are in bytes.")
	blocks := Load(Param("blocks"), GP64())
	src, lds := Load(Param("src"), GP64()), Load(Param("lds"), GP64())
	dst, ldd := Load(Param("dst"), GP64()), Load(Param("ldd"), GP64())
	src3, dst3 := triple(lds), triple(ldd)
	src4, dst4 := GP64(), GP64()

	Label("loop")
	LEAQ(Mem{Base: src, Index: lds, Scale: 4}, src4)
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 4}, dst4)
	var x, y [8]VecVirtual
	for i := range x {
		x[i], y[i] = YMM(), YMM()
	}
	for i := range x {
		VMOVUPS(row(src, src4, lds, src3, i), x[i])
	}
	for i := 0; i < 8; i += 2 { // pairs of rows interleaved
		VUNPCKLPS(x[i+1], x[i], y[i])
		VUNPCKHPS(x[i+1], x[i], y[i+1])
	}
	for i := 0; i < 8; i += 4 { // columns of four rows, in each half
		VSHUFPS(Imm(0b_01_00_01_00), y[i+2], y[i], x[i])
		VSHUFPS(Imm(0b_11_10_11_10), y[i+2], y[i], x[i+1])
		VSHUFPS(Imm(0b_01_00_01_00), y[i+3], y[i+1], x[i+2])
		VSHUFPS(Imm(0b_11_10_11_10), y[i+3], y[i+1], x[i+3])
	}
	for i := range 4 { // columns of eight
		VPERM2F128(Imm(0x20), x[i+4], x[i], y[i])
		VPERM2F128(Imm(0x31), x[i+4], x[i], y[i+4])
	}
	for i := range y {
		VMOVUPS(y[i], row(dst, dst4, ldd, dst3, i))
	}
	ADDQ(Imm(32), src)
	LEAQ(Mem{Base: dst, Index: ldd, Scale: 8}, dst)
	DECQ(blocks)
	JNZ(LabelRef("loop"))
	finish()
}

func triple(x Register) Register {
	y := GP64()
	LEAQ(Mem{Base: x, Index: x, Scale: 2}, y)
	return y
}

// row addresses row i < 8, given the addresses of rows 0 and 4 and the stride
// and its triple.
func row(row0, row4, stride, stride3 Register, i int) Mem {
	m := Mem{Base: row0}
	if i >= 4 {
		m.Base = row4
	}
	switch i % 4 {
	case 1, 2:
		m.Index, m.Scale = stride, uint8(i%4)
	case 3:
		m.Index, m.Scale = stride3, 1
	}
	return m
}
