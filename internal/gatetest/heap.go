package gatetest

import (
	"runtime"
	"testing"
)

// LiveHeap returns the bytes that the process has in use. Tests that ask for it must not
// be parallel, for those of others would count.
func LiveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// RequireHeap collects garbage until no more than most bytes are in use: on a busy machine,
// some time passes before what the collector has found is settled.
func RequireHeap(t testing.TB, most uint64) {
	t.Helper()
	heap := LiveHeap()
	for tries := 0; heap > most && tries < 100; tries++ {
		runtime.Gosched()
		heap = LiveHeap()
	}
	if heap > most {
		t.Fatalf("%d bytes are in use; want at most %d", heap, most)
	}
}
