//go:build e2e

package redis

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How a hammer is judged. All processes and the server read one clock, that of the
// machine. For each admission a process knows a time before the server gave the permit, or
// gave the lease it is of, and one after it was used.
//
// A log keeps the server's own time of each admission. All of them are collected; if they
// are as many as the processes admitted, each admission has its time, and no true window
// may have more than the limit: that is exact.
//
// A counter keeps how much it charged in each of its windows. Collected as well, they must
// add up to what the processes admitted (with leases, to no less), and none may be above
// the limit. Within a window, what was answered by a time was charged by it, and then the
// share of the window before was larger than at that time: so no more than limit − share
// at that time can have been answered. An admission that was asked for in one window and
// answered in the next is left out there, so the judgement is sound, and it is in the sums
// all the same. For true windows, each admission counts that may have been in them.

// certain returns the ends of the admissions that lie certainly in the window that begins
// at start, in order.
func certain(all []admission, start, end int64) (seen []int64) {
	for _, a := range all {
		if a.Sent >= start && a.Seen < end {
			seen = append(seen, a.Seen)
		}
	}
	slices.Sort(seen)
	return seen
}

// share is ⌈previous × (window − elapsed) ÷ window⌉.
func share(previous, elapsed, window int64) int64 {
	n := new(big.Int).Mul(big.NewInt(previous), big.NewInt(window-elapsed))
	n.Add(n, big.NewInt(window-1))
	return n.Div(n, big.NewInt(window)).Int64()
}

// excess is by how many the admissions of a counter are above what it may have admitted at
// any time, by its windows.
func excess(all []admission, windows []charge, most int64, window time.Duration) (above int64) {
	length := window.Microseconds()
	counts := map[int64]int64{}
	for _, c := range windows {
		counts[c.at] += c.n
		above = max(above, c.n-most)
	}
	for start := range counts {
		for i, at := range certain(all, start, start+length) {
			above = max(above, int64(i)+1-(most-share(counts[start-length], at-start, length)))
		}
		above = max(above, int64(len(certain(all, start, start+length)))-counts[start])
	}
	return above
}

// mostPossible is the largest number of admissions that may have been in one true window.
func mostPossible(all []admission, window time.Duration) (most int64) {
	var sent, seen []int64
	for _, a := range all {
		sent, seen = append(sent, a.Sent), append(seen, a.Seen)
	}
	slices.Sort(sent)
	slices.Sort(seen)
	// The window (at − window, at] may have what was asked for by at, but for what was
	// answered before it began. It has most when it ends where something was asked for.
	gone := 0
	for i, at := range sent {
		for gone < len(seen) && seen[gone] <= at-window.Microseconds() {
			gone++
		}
		most = max(most, int64(i+1-gone))
	}
	return most
}

// mostCertain is the largest number that was certainly in one true window.
func mostCertain(all []admission, window time.Duration) (most int64) {
	bySent := slices.SortedFunc(slices.Values(all), func(a, b admission) int { return int(a.Sent - b.Sent) })
	ends := map[int64]bool{}
	for _, a := range all {
		ends[a.Seen/1000*1000+1000] = true // to the next millisecond: it may be a little too long
	}
	for end := range ends {
		start := end - window.Microseconds()
		from, _ := slices.BinarySearchFunc(bySent, start+1, func(a admission, at int64) int { return int(a.Sent - at) })
		n := int64(0)
		for _, a := range bySent[from:] {
			if a.Sent > end {
				break
			}
			if a.Seen <= end {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestJudges_SeeAnExcess(t *testing.T) {
	t.Parallel()
	const window = 100 * time.Microsecond
	// Ten in the first window, all answered by 120; the share of them is 8 at 120.
	windows := []charge{{at: 0, n: 10}, {at: 100, n: 2}}
	first := make([]admission, 10)
	for i := range first {
		first[i] = admission{10, 50}
	}
	with := func(more ...admission) []admission { return append(slices.Clone(first), more...) }
	require.Zero(t, excess(with(admission{101, 121}, admission{105, 121}), windows, 10, window))
	require.EqualValues(t, 1, excess(with(admission{101, 119}, admission{105, 119}), windows, 10, window), "too soon")
	require.Zero(t, excess(with(admission{90, 119}, admission{105, 119}), windows, 10, window), "or was one in the window before?")
	require.EqualValues(t, 1, excess(with(admission{60, 70}), windows, 11, window), "more than was charged")
	require.EqualValues(t, 1, excess(first, windows, 9, window), "more was charged than the limit")
	require.EqualValues(t, 10, mostPossible(with(admission{151, 161}), window))
	require.EqualValues(t, 11, mostPossible(with(admission{149, 161}), window))
	require.EqualValues(t, 11, mostCertain(with(admission{60, 70}), time.Millisecond))
	require.EqualValues(t, 12, mostPossible(with(admission{140, 161}, admission{60, 70}), window))
}
