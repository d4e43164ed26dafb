//go:build !amd64

package kernel

func assembly(string) (set *Set, missing string) { return nil, "an amd64 processor" }
