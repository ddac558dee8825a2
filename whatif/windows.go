package whatif

import (
	"cmp"
	"slices"
	"time"
)

// windows counts in windows of the clock, separately for each key. Times must not decrease.
type windows struct {
	length int64
	keys   map[uint32]window
	closed histogram // of the windows that are over
}

// window is the last window in which a key was active.
type window struct{ number, count, peak int64 }

func newWindows(length time.Duration) *windows {
	return &windows{length: int64(length), keys: make(map[uint32]window), closed: make(histogram)}
}

func (w *windows) add(at int64, key uint32, n int64) {
	k, ok := w.keys[key]
	if number := at / w.length; number != k.number {
		if ok {
			w.closed[k.count]++
		}
		k.number, k.count = number, 0
	}
	k.count += n
	k.peak = max(k.peak, k.count)
	w.keys[key] = k
}

// finish closes all windows, and returns the largest count of each key.
func (w *windows) finish() histogram {
	peaks := make(histogram)
	for _, k := range w.keys {
		w.closed[k.count]++
		peaks[k.peak]++
	}
	return peaks
}

// histogram counts how often each number occurred.
type histogram map[int64]int64

// bin is a number and how often it occurred.
type bin struct{ v, n int64 }

// bins returns all numbers in ascending order.
func (h histogram) bins() []bin {
	all := make([]bin, 0, len(h))
	for v, n := range h {
		all = append(all, bin{v, n})
	}
	slices.SortFunc(all, func(a, b bin) int { return cmp.Compare(a.v, b.v) })
	return all
}

// countsOf returns the quantiles of bins. Of N numbers, P50 is the ⌈N/2⌉-th.
func countsOf(all []bin) (c Counts) {
	for _, b := range all {
		c.N += b.n
	}
	quantile := func(perMille int64) int64 {
		rank := (c.N*perMille + 999) / 1000
		for _, b := range all {
			if rank -= b.n; rank <= 0 {
				return b.v
			}
		}
		return 0
	}
	if len(all) > 0 {
		c.P50, c.P99, c.P999, c.Max = quantile(500), quantile(990), quantile(999), all[len(all)-1].v
	}
	return c
}

// above returns by how much numbers exceed a limit in total, and how many do.
func above(all []bin, limit int64) (sum, n int64) {
	for _, b := range all {
		if b.v > limit {
			sum += (b.v - limit) * b.n
			n += b.n
		}
	}
	return sum, n
}
