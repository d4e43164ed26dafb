package lm

import (
	"syscall"
	"unsafe"
)

// adviseHuge asks for huge pages for the whole ones in x. It is a hint.
func adviseHuge(x []float32) {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	skip := int(-uintptr(unsafe.Pointer(&bytes[0])) % hugePage)
	whole := (len(bytes) - skip) / hugePage * hugePage
	if whole > 0 {
		_ = syscall.Madvise(bytes[skip:skip+whole], syscall.MADV_HUGEPAGE)
	}
}
