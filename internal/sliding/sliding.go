// Package sliding is the arithmetic of the sliding-window counter, wherever the counts
// are kept: in memory or on a server. Time is cut into windows of equal length. A key
// holds what the window before this one was charged, weighted by the part of it that a
// window ending now still covers, and what this one was:
//
//	held = ⌈previous × (length − elapsed) / length⌉ + current
//
// and n more pass if held + n ≤ limit. Everything is an integer and exact: rounding the
// share up decides as real numbers would, since the rest are whole numbers.
//
// Times are in any unit, the same for all of a call. Elapsed is since the window began: 0
// to length − 1. Counts are not negative.
//
// Sources: Cloudflare, "How we built rate limiting capable of scaling to millions of
// domains" (2017); Figma, "An alternative approach to rate limiting" (2017).
package sliding

import "math/bits"

// Held is what counts against the limit.
func Held(previous, current, elapsed, length int64) int64 {
	if previous == 0 {
		return current
	}
	return Share(previous, length-elapsed, length) + current
}

// Share is ⌈n × part / whole⌉, where part ≤ whole.
func Share(n, part, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(part))
	q, r := bits.Div64(hi, lo, uint64(whole))
	if r > 0 {
		q++
	}
	return int64(q)
}

// left is the part of the window that must still be covered, at most, so that weight
// times it is no more than room: ⌊room × length / weight⌋, where room < weight.
func left(room, weight, length int64) int64 {
	hi, lo := bits.Mul64(uint64(room), uint64(length))
	q, _ := bits.Div64(hi, lo, uint64(weight))
	return int64(q)
}

// Wait is how long it is until n more will fit, which do not fit now, if nobody else
// comes. n is at most the limit.
//
// While this window lasts, only the share of the previous one shrinks. If that is not
// enough, what was charged in this window must shrink: it is the previous one of the
// next, and then nothing else is held.
func Wait(limit, n, previous, current, elapsed, length int64) int64 {
	rest := length - elapsed
	if room := limit - current - n; room >= 0 {
		return rest - left(room, previous, length)
	}
	return rest + length - left(limit-n, current, length)
}

// Reset is how long it is until nothing will be held.
func Reset(previous, current, elapsed, length int64) int64 {
	switch rest := length - elapsed; {
	case current > 0:
		return rest + length
	case previous > 0:
		return rest
	default:
		return 0
	}
}
