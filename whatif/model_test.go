package whatif

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvents_ComeInOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	var heap events
	var model []event
	for i := range uint64(3000) {
		e := event{at: rng.Int64N(50), order: i | []uint64{0, patient, arriving}[rng.IntN(3)]}
		heap.push(e)
		model = append(model, e)
		for rng.IntN(5) < 2 && len(model) > 0 {
			slices.SortFunc(model, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
			require.Equal(t, model[0], heap.pop())
			model = model[1:]
		}
	}
	require.Len(t, heap, len(model))
}

func TestTexts_NumbersAreThoseOfAMap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	all, model := newTexts(1000), map[string]uint32{}
	for range 10_000 {
		s := fmt.Sprint(rng.IntN(900))
		n, ok := model[s]
		if !ok {
			n = uint32(len(model))
			model[s] = n
		}
		require.Equal(t, n, all.number(s))
		require.Equal(t, s, all.text(n))
	}
	require.False(t, all.overflows())
}

// Beyond the bound all are one, and what is too long for a gate is its hash.
func TestTexts_AreBounded(t *testing.T) {
	t.Parallel()
	all := newTexts(2)
	for i, s := range []string{"a", strings.Repeat("b", 5000), "c", "d", "a"} {
		require.EqualValues(t, []int{0, 1, 2, 2, 0}[i], all.number(s))
	}
	require.True(t, all.overflows())
	require.Equal(t, []string{"a", overflow}, []string{all.text(0), all.text(2)})
	require.Equal(t, 3, all.len())
	require.Len(t, all.text(1), len("sha256:")+64)
}

// A plain list of all that came, for both ways to count.
func TestWindowsAndSliding_AgreeWithANaiveModel(t *testing.T) {
	t.Parallel()
	type came struct {
		at, n int64
		key   uint32
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		const length = 100
		var all []came
		closed := new(histogram)
		w, s, l := newWindows(length, closed), newSliding(length), &sliding{interval: length, step: 10}
		at := int64(-1000)
		for range 1000 {
			at += rng.Int64N(40) * rng.Int64N(2)
			c := came{at, 1 + rng.Int64N(3), rng.Uint32N(5)}
			all = append(all, c)
			w.add(c.at, c.key, c.n)
			held, least, most := int64(0), int64(0), int64(0)
			for _, before := range all[:len(all)-1] {
				if before.key != c.key {
					continue
				}
				if before.at > at-length {
					held += before.n
				}
				if before.at > at-length+10 {
					least += before.n
				}
				if before.at > at-length-10 {
					most += before.n
				}
			}
			require.Equal(t, held, s.at(at, c.key))
			s.add(at, c.key, c.n)
			require.GreaterOrEqual(t, l.at(at, c.key), least)
			require.LessOrEqual(t, l.at(at, c.key), most)
			l.add(at, c.key, c.n)
		}
		w.finish()
		counts, peaks, wanted := map[[2]int64]int64{}, make([]int64, 5), new(histogram)
		for _, c := range all {
			counts[[2]int64{int64(c.key), (c.at + 1000) / length}] += c.n
		}
		for at, n := range counts {
			wanted.add(n)
			peaks[at[0]] = max(peaks[at[0]], n)
		}
		require.Equal(t, wanted, closed)
		for key, want := range peaks {
			require.EqualValues(t, want, w.keys.get(uint32(key)).peak)
		}
		require.Less(t, int(s.used), 500, "those that are free are used again")
	}
}

// What costs much may be more in a window than a word of 32 bits holds.
func TestWindows_CountBeyond32Bits(t *testing.T) {
	t.Parallel()
	w := newWindows(100, new(histogram))
	want := []bin{{v: 7, n: 1}}
	w.add(0, 1, 7)
	for i, times := range []int64{2047, 2048, 4095, 4096, 10_000, 3} {
		for range times {
			w.add(int64(i)*100, 0, maxCost)
		}
		want = append(want, bin{v: times * maxCost, n: 1})
	}
	w.finish()
	slices.SortFunc(want, func(a, b bin) int { return cmp.Compare(a.v, b.v) })
	require.Equal(t, want, w.closed.bins())
	peaks := w.peaks()
	require.Equal(t, []bin{{7, 1}, {10_000 * maxCost, 1}}, peaks.bins())
}

func TestColumn_IsAMapFromNumbers(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 4))
	var c column[int]
	model := map[uint32]int{}
	for range 5000 {
		i := rng.Uint32N(1 + rng.Uint32N(3*piece))
		if rng.IntN(2) == 0 {
			*c.at(i)++
			model[i]++
		}
		require.Equal(t, model[i], c.get(i))
	}
	next := uint32(0)
	for i, v := range c.all {
		require.Equal(t, next, i)
		require.Equal(t, model[i], *v)
		next++
	}
	require.Zero(t, c.get(1<<31))
}

func TestHistogram_QuantilesAndWhatIsBeyond(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 3))
	var h histogram
	var all []int64
	for range 2000 {
		v := 1 + int64(rng.ExpFloat64()*700)
		h.add(v)
		all = append(all, v)
	}
	slices.Sort(all)
	bins := h.bins()
	require.Equal(t, Counts{2000, all[999], all[1979], all[1997], all[1999]}, countsOf(bins))
	for limit := int64(0); limit < all[1999]+2; limit += 37 {
		var sum, n int64
		for _, v := range all {
			sum += max(0, v-limit)
			if v > limit {
				n++
			}
		}
		gotSum, gotN := above(bins, limit)
		require.Equal(t, []int64{sum, n}, []int64{gotSum, gotN})
	}
	require.Zero(t, countsOf(nil))
}

func TestCurve_RoundLimits(t *testing.T) {
	t.Parallel()
	var all []int64
	for v := int64(1); v <= 2000; v = afterRound(v) {
		all = append(all, v)
	}
	require.Equal(t, []int64{1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000}, all)
	for peak, want := range map[int64]int64{1: 2, 4: 5, 5: 10, 8: 10, 9: 20, 25: 30, 26: 50, 1000: 2000, 2500: 3000} {
		w := newWindows(100, new(histogram))
		w.add(0, 0, peak)
		require.Equal(t, want, curveOf(w, 0).Suggested.Limit, peak)
	}
}

// One key that is far busier than all others does not take the table away from them.
func TestCurve_PointsGoFromWhatIsUsualToTheMost(t *testing.T) {
	t.Parallel()
	w := newWindows(100, new(histogram))
	for key := range uint32(5000) {
		w.add(0, key, 12)
	}
	w.add(0, 5000, 200_000)
	c := curveOf(w, 0)
	require.EqualValues(t, 20, c.Suggested.Limit)
	require.EqualValues(t, 10, c.Points[0].Limit)
	require.Contains(t, c.Points, c.Suggested)
	require.LessOrEqual(t, len(c.Points), maxPoints+1)
	require.Zero(t, c.Points[len(c.Points)-1].Blocked)
	require.IsIncreasing(t, limitsOf(c.Points))
	for _, peak := range []int64{1, 2, 12, 1e5, 1e9, 1e15, 1 << 60} {
		w := newWindows(100, new(histogram))
		w.add(0, 0, 1)
		w.add(0, 1, peak)
		c := curveOf(w, 0)
		require.Contains(t, c.Points, c.Suggested)
		require.LessOrEqual(t, len(c.Points), maxPoints+1)
		require.Zero(t, c.Points[len(c.Points)-1].Blocked)
	}
}

func limitsOf(points []Point) (limits []int64) {
	for _, p := range points {
		limits = append(limits, p.Limit)
	}
	return limits
}
