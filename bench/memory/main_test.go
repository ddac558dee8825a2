package main

import (
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/bench"
)

// The figure of a busy resource means nothing if its calls are not what they
// are said to be.
func TestKeepBusy_CallsAsDescribed(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	// The clock of a gate is asked by nobody else, so one goroutine may change it.
	c := &clock{now: int64(1_800_000_000 * time.Second)}
	g := leapgate.Must(leapgate.Config{Now: func() int64 { return c.now }})

	keepBusy(g, c, names, 2*time.Second)

	want := int64(2*time.Second/tick) * callsPerTick / int64(len(names))
	for _, s := range g.Snapshot() {
		if s.Pass != want || s.Success != want || s.Concurrency != 0 {
			t.Errorf("%s: %d passed, %d ended and %d are in flight, want %d, %[5]d and 0", s.Resource, s.Pass, s.Success, s.Concurrency, want)
		}
		// The middle of the logarithm between the shortest and the longest.
		if median := 7750 * time.Microsecond; s.P50 < median*8/10 || s.P50 > median*12/10 {
			t.Errorf("%s: the median is %v, want about %v", s.Resource, s.P50, median)
		}
		if s.P99 < longest*8/10 || s.P99 > longest*12/10 {
			t.Errorf("%s: the 99th percentile is %v, want nearly %v", s.Resource, s.P99, longest)
		}
	}
}

func TestBytesEach(t *testing.T) {
	registered, called := bytesEach(1000, register), bytesEach(1000, callOnce)
	if registered <= 0 || called <= registered {
		t.Errorf("a registered resource takes %d bytes, one that was called %d; want more for the latter", registered, called)
	}
}

func TestBytesPerBreaker(t *testing.T) {
	for _, b := range leapgateBreakers {
		without, with := bytesEach(500, callInBuckets), bytesEach(500, withBreaker(b.rule))
		if with <= without {
			t.Errorf("a resource takes %d bytes, one with a breaker, %s, %d; want more for the latter", without, b.name, with)
		}
	}
	for _, b := range bench.PeerBreakers {
		if got := bytesPerBreaker(500, b.Make); got <= 0 {
			t.Errorf("%s: %d bytes, want some", b.Name, got)
		}
	}
}

func TestBytesPerKey(t *testing.T) {
	// The one promise about memory: a key of a counter takes at most 80 bytes besides itself.
	if got := bytesPerKey(20_000, bench.KeyedLimiters[0]); got <= 0 || got > 80 {
		t.Errorf("a key of %s takes %d bytes besides itself, want up to 80", bench.KeyedLimiters[0].Name, got)
	}
}
