// The avo program writes the assembly of package kernel:
//
//	go run . -isa avx512 -out ../avx512_amd64.s -stubs ../avx512_amd64.go -pkg kernel
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	set := flag.String("isa", "avx512", "instruction set: avx512 or avx2")
	flag.Parse()
	var v isa
	switch *set {
	case "avx512":
		v = avx512
	case "avx2":
		v = avx2
	default:
		log.Fatalf("unknown instruction set %q", *set)
	}
	if v == avx2 {
		masks()
		transpose()
	}
	v.gemm()
	v.reductions()
	v.elementwise()
	v.exponentials()
	Generate()
}
