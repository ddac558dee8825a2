package main

import (
	"math"
	"testing"
	"time"
)

func TestHistogram_BucketsFollowEachOther(t *testing.T) {
	t.Parallel()
	for i := range 59 * 16 {
		if got := bucket(uint64(least(i))); got != i {
			t.Fatalf("bucket %d begins at %d, which is in bucket %d", i, least(i), got)
		}
		if i > 0 && bucket(uint64(least(i)-1)) != i-1 {
			t.Fatalf("what is before bucket %d is not in the one before", i)
		}
	}
	if last := bucket(math.MaxInt64); last >= len(histogram{}.buckets) {
		t.Fatalf("no bucket %d", last)
	}
}

func TestHistogram_Quantile(t *testing.T) {
	t.Parallel()
	var h histogram
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond} {
		if got := h.quantile(q); got < want || got > want*17/16+want/100 {
			t.Errorf("quantile %v is %v; want %v, or a little more", q, got, want)
		}
	}
}
