//go:build !gc || leapgate_portable

package stripes

import "unsafe"

// minStripes: two goroutines whose stacks hash alike share a stripe for as
// long as they live; with sixteen stripes that is rare enough.
const minStripes = 16

// Hint hashes the address of the caller's stack: goroutines that run
// at the same time have different ones.
func Hint() int {
	var onStack byte
	const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ divided by the golden ratio
	return int(uint64(uintptr(unsafe.Pointer(&onStack))>>10) * golden >> 32)
}
