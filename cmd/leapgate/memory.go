package main

import (
	"runtime"
	"runtime/debug"
)

// largeHeap is from what size on memory matters more than the time that it takes to save it.
const largeHeap = 64 << 20

// saveMemory lets the garbage collector run more often if the heap is large, as it is when there are
// very many keys: then it grows by a quarter of what is in use, and not to twice that. It
// reports whether to look again.
func saveMemory() (again bool) {
	var heap runtime.MemStats
	if runtime.ReadMemStats(&heap); heap.HeapAlloc < largeHeap {
		return true
	}
	debug.SetGCPercent(25)
	return false
}

// whenCollected calls a function after each collection of garbage, as long as it wants that.
func whenCollected(f func() (again bool)) {
	runtime.AddCleanup(new([64]byte), func(f func() bool) {
		if f() {
			whenCollected(f)
		}
	}, f)
}
