package whatif

import (
	"cmp"
	"slices"
)

// histogram is how often each number came, 1 or more.
type histogram struct {
	small [1024]int64 // by the number
	large map[int64]int64
}

func (h *histogram) add(v int64) {
	if v < int64(len(h.small)) {
		h.small[v]++
		return
	}
	if h.large == nil {
		h.large = make(map[int64]int64)
	}
	h.large[v]++
}

// bin is a number and how often it came.
type bin struct{ v, n int64 }

// bins are all that came, rising.
func (h *histogram) bins() (all []bin) {
	for v, n := range h.small {
		if n > 0 {
			all = append(all, bin{int64(v), n})
		}
	}
	small := len(all)
	for v, n := range h.large {
		all = append(all, bin{v, n})
	}
	slices.SortFunc(all[small:], func(a, b bin) int { return cmp.Compare(a.v, b.v) })
	return all
}

// countsOf are the quantiles of bins: of N numbers, P50 is the ⌈N/2⌉-th.
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

// above is what bins have beyond a number: how much together, and how many.
func above(all []bin, limit int64) (sum, n int64) {
	from, _ := slices.BinarySearchFunc(all, limit+1, func(b bin, v int64) int { return cmp.Compare(b.v, v) })
	for _, b := range all[from:] {
		sum += (b.v - limit) * b.n
		n += b.n
	}
	return sum, n
}
