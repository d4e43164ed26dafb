package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// shape is a family of matrix product tiles: up to rows rows of vectors vectors.
type shape struct{ rows, vectors int }

// shapes are the tiles that fit the registers: rows·vectors accumulators, the
// fewer of rows and vectors for one operand, and one for the other. Eight
// accumulators keep two multiply-add units of latency four busy.
func (v isa) shapes() []shape {
	if v.opmask {
		return []shape{{14, 1}, {14, 2}, {6, 4}, {3, 8}}
	}
	return []shape{{6, 1}, {6, 2}, {2, 4}, {1, 8}}
}

func (v isa) gemm() {
	v.pack()
	for _, s := range v.shapes() {
		for rows := 1; rows <= s.rows; rows++ {
			v.tile(rows, s.vectors)
		}
	}
}

// pack copies rows of two vectors to where they lie one behind the other, and fetches
// those that come eight rows later.
func (v isa) pack() {
	TEXT("pack"+v.name, NOSPLIT, "func(rows int, src *float32, lds int, dst *float32)")
	Pragma("noescape")
	Doc(fmt.Sprintf("pack%s copies src [rows, %d] to dst, whose rows have no gaps; rows ≥ 1. Strides are in bytes.", v.name, 2*v.lanes))
	rows, src, lds, dst := Load(Param("rows"), GP64()), Load(Param("src"), GP64()), Load(Param("lds"), GP64()), Load(Param("dst"), GP64())
	Label("loop")
	for byte := 0; byte < 8*v.lanes; byte += 64 {
		PREFETCHT0(Mem{Base: src, Index: lds, Scale: 8, Disp: byte})
	}
	for j := range 2 {
		VMOVUPS(v.load(Mem{Base: src, Disp: 4 * v.lanes * j}), Mem{Base: dst, Disp: 4 * v.lanes * j})
	}
	ADDQ(lds, src)
	ADDQ(Imm(uint64(8*v.lanes)), dst)
	DECQ(rows)
	JNZ(LabelRef("loop"))
	finish()
}

// tile computes rows × (vectors·lanes) elements of C, of which the last vector
// has only tail columns:
//
//	acc[i][j] = accumulate ? C[i][j] : 0
//	for p = 0 … k−1: acc[i][j] += A[i][p]·B[p][j]
//	C[i][j] = acc[i][j]
//
// Strides are in bytes.
func (v isa) tile(rows, vectors int) {
	name := fmt.Sprintf("gemm%dx%d%s", rows, vectors, v.name)
	TEXT(name, NOSPLIT, "func(k int, a *float32, rsA, csA int, b *float32, ldb int, c *float32, ldc int, tail int, accumulate bool)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s computes a tile of %d rows and %d vectors.", name, rows, vectors))
	tail := Load(Param("tail"), GP64())
	if v.opmask {
		v.tileBody(rows, vectors, v.first(tail), "")
		return
	}
	// Masked stores are slow in AVX2: whole tiles have their own code.
	CMPQ(tail, Imm(uint64(v.lanes)))
	JNE(LabelRef("masked"))
	v.tileBody(rows, vectors, v.none(), "whole_")
	Label("masked")
	v.tileBody(rows, vectors, v.first(tail), "masked_")
}

func (v isa) tileBody(rows, vectors int, last mask, label string) {
	masks := make([]mask, vectors)
	for j := range masks {
		masks[j] = v.none()
	}
	masks[vectors-1] = last

	acc := make([][]VecVirtual, rows)
	for i := range acc {
		for range vectors {
			acc[i] = append(acc[i], v.vec())
		}
	}
	eachC := func(do func(i, j int, at Mem)) {
		c, ldc := Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
		for i := range rows {
			for j := range vectors {
				do(i, j, Mem{Base: c, Disp: 4 * v.lanes * j})
			}
			if i < rows-1 {
				ADDQ(ldc, c)
			}
		}
	}

	accumulate := Load(Param("accumulate"), GP8())
	TESTB(accumulate, accumulate)
	JZ(LabelRef(label + "zero"))
	eachC(func(i, j int, at Mem) { masks[j].loadTo(at, acc[i][j]) })
	JMP(LabelRef(label + "start"))
	Label(label + "zero")
	for i := range rows {
		for j := range vectors {
			v.clear(acc[i][j])
		}
	}
	Label(label + "start")

	k := Load(Param("k"), GP64())
	TESTQ(k, k)
	JZ(LabelRef(label + "store"))
	b, ldb := Load(Param("b"), GP64()), Load(Param("ldb"), GP64())
	csA := Load(Param("csA"), GP64())
	address, advance := rowsOfA(rows, csA)

	Label(label + "loop")
	switch {
	case vectors == 1 && v.opmask:
		x := masks[0].load(Mem{Base: b})
		for i := range rows {
			VFMADD231PS_BCST(address(i), x, acc[i][0])
		}
	case rows <= vectors:
		var y []VecVirtual
		for i := range rows {
			y = append(y, v.broadcast(address(i)))
		}
		for j := range vectors {
			x := masks[j].load(Mem{Base: b, Disp: 4 * v.lanes * j})
			for i := range rows {
				VFMADD231PS(x, y[i], acc[i][j])
			}
		}
	default:
		// The tile to the right will want the columns that follow. Tiles of
		// fewer rows are bound by loads and have none to spare.
		for byte := 0; byte < 4*v.lanes*vectors; byte += 64 {
			PREFETCHT1(Mem{Base: b, Disp: 4*v.lanes*vectors + byte})
		}
		var x []VecVirtual
		for j := range vectors {
			x = append(x, masks[j].load(Mem{Base: b, Disp: 4 * v.lanes * j}))
		}
		for i := range rows {
			y := v.broadcast(address(i))
			for j := range vectors {
				VFMADD231PS(x[j], y, acc[i][j])
			}
		}
	}
	advance()
	ADDQ(ldb, b)
	DECQ(k)
	JNZ(LabelRef(label + "loop"))

	Label(label + "store")
	eachC(func(i, j int, at Mem) { masks[j].store(acc[i][j], at) })
	finish()
}

// rowsOfA returns the address of row i in the current column of A, and the
// code that moves on to the next column. One base register serves four rows.
func rowsOfA(rows int, csA Register) (address func(i int) Mem, advance func()) {
	base := []Register{Load(Param("a"), GP64())}
	var rs, rs3 Register
	if rows > 1 {
		rs = Load(Param("rsA"), GP64())
	}
	if rows > 3 {
		rs3 = triple(rs)
	}
	for i := 4; i < rows; i += 4 {
		next := GP64()
		LEAQ(Mem{Base: base[i/4-1], Index: rs, Scale: 4}, next)
		base = append(base, next)
	}
	address = func(i int) Mem { return row(base[i/4], nil, rs, rs3, i%4) }
	advance = func() {
		for _, r := range base {
			ADDQ(csA, r)
		}
	}
	return address, advance
}
