package main

import (
	"math/bits"
	"time"
)

// histogram counts durations, in buckets of which each is at most a sixteenth wide.
type histogram struct {
	count   int64
	buckets [64 * 16]int64
}

func (h *histogram) add(d time.Duration) {
	h.count++
	h.buckets[bucket(uint64(max(d, 0)))]++
}

// bucket is the power of two, and the four bits that follow its first.
func bucket(n uint64) int {
	if n < 16 {
		return int(n)
	}
	power := bits.Len64(n) - 5
	return power*16 + int(n>>power)
}

// least is the smallest duration of a bucket.
func least(bucket int) time.Duration {
	if bucket < 32 {
		return time.Duration(bucket)
	}
	power := bucket/16 - 1
	return time.Duration(bucket-power*16) << power
}

func (h *histogram) merge(other *histogram) {
	h.count += other.count
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
}

// quantile returns the duration below which that part of all lies, rounded up by at most a
// sixteenth.
func (h *histogram) quantile(q float64) time.Duration {
	rest := int64(q * float64(h.count))
	for i, n := range h.buckets {
		if rest -= n; rest < 0 {
			d := least(i + 1)
			return d.Round(max(1, d/100)).Round(time.Nanosecond)
		}
	}
	return 0
}
