//go:build !linux

package lm

func adviseHuge([]float32) {}
