package kernel

import "golang.org/x/sys/cpu"

//go:generate go -C avo run . -isa avx512 -out ../avx512_amd64.s -stubs ../avx512_amd64.go -pkg kernel
//go:generate go -C avo run . -isa avx2 -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel

// assembly returns the set called name, or nil and the instructions it needs.
func assembly(name string) (set *Set, missing string) {
	switch name {
	case "avx512":
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX2 && cpu.X86.HasFMA {
			return &setAVX512, ""
		}
		return nil, "AVX-512 (F and VL), AVX2 and FMA"
	default:
		if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
			return &setAVX2, ""
		}
		return nil, "AVX2 and FMA"
	}
}

var setAVX512 = Set{
	name:            "avx512",
	gemm:            tilingAVX512.gemm,
	gemmT:           tilingAVX512.gemmT,
	transpose:       transposeAVX2,
	dot:             dotAVX512,
	axpy:            axpyAVX512,
	add:             addAVX512,
	scale:           scaleAVX512,
	sumSquares:      sumSquaresAVX512,
	max:             maxAVX512,
	expSum:          expSumAVX512,
	softmaxBackward: softmaxBackwardAVX512,
	siluMul:         siluMulAVX512,
	siluMulBackward: siluMulBackwardAVX512,
	scaleMul:        scaleMulAVX512,
	dot3:            dot3AVX512,
	rmsNormBackward: rmsNormBackwardAVX512,
	rotate:          rotateAVX512,
	adamW:           adamWAVX512,
}

var tilingAVX512 = tiling{
	lanes: 16,
	pack:  packAVX512,
	tiles: [4][]tile{
		{gemm1x1AVX512, gemm2x1AVX512, gemm3x1AVX512, gemm4x1AVX512, gemm5x1AVX512, gemm6x1AVX512, gemm7x1AVX512,
			gemm8x1AVX512, gemm9x1AVX512, gemm10x1AVX512, gemm11x1AVX512, gemm12x1AVX512, gemm13x1AVX512, gemm14x1AVX512},
		{gemm1x2AVX512, gemm2x2AVX512, gemm3x2AVX512, gemm4x2AVX512, gemm5x2AVX512, gemm6x2AVX512, gemm7x2AVX512,
			gemm8x2AVX512, gemm9x2AVX512, gemm10x2AVX512, gemm11x2AVX512, gemm12x2AVX512, gemm13x2AVX512, gemm14x2AVX512},
		{gemm1x4AVX512, gemm2x4AVX512, gemm3x4AVX512, gemm4x4AVX512, gemm5x4AVX512, gemm6x4AVX512},
		{gemm1x8AVX512, gemm2x8AVX512, gemm3x8AVX512},
	},
}

var setAVX2 = Set{
	name:            "avx2",
	gemm:            tilingAVX2.gemm,
	gemmT:           tilingAVX2.gemmT,
	transpose:       transposeAVX2,
	dot:             dotAVX2,
	axpy:            axpyAVX2,
	add:             addAVX2,
	scale:           scaleAVX2,
	sumSquares:      sumSquaresAVX2,
	max:             maxAVX2,
	expSum:          expSumAVX2,
	softmaxBackward: softmaxBackwardAVX2,
	siluMul:         siluMulAVX2,
	siluMulBackward: siluMulBackwardAVX2,
	scaleMul:        scaleMulAVX2,
	dot3:            dot3AVX2,
	rmsNormBackward: rmsNormBackwardAVX2,
	rotate:          rotateAVX2,
	adamW:           adamWAVX2,
}

var tilingAVX2 = tiling{
	lanes: 8,
	pack:  packAVX2,
	tiles: [4][]tile{
		{gemm1x1AVX2, gemm2x1AVX2, gemm3x1AVX2, gemm4x1AVX2, gemm5x1AVX2, gemm6x1AVX2},
		{gemm1x2AVX2, gemm2x2AVX2, gemm3x2AVX2, gemm4x2AVX2, gemm5x2AVX2, gemm6x2AVX2},
		{gemm1x4AVX2, gemm2x4AVX2},
		{gemm1x8AVX2},
	},
}

// transposeAVX2 lets the last strip of rows and the last block of columns overlap
// their neighbours where eight does not divide the sizes.
func transposeAVX2(rows, cols int, src []float32, lds int, dst []float32, ldd int) {
	if rows < 8 || cols < 8 {
		transposeGo(rows, cols, src, lds, dst, ldd)
		return
	}
	for i := 0; i < rows; i += 8 {
		i := min(i, rows-8)
		transposeStrip(cols/8, &src[i*lds], 4*lds, &dst[i], 4*ldd)
		if cols%8 != 0 {
			j := cols - 8
			transposeStrip(1, &src[i*lds+j], 4*lds, &dst[j*ldd+i], 4*ldd)
		}
	}
}
