package whatif

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

// The windows and peaks of keys equal those of a plain list.
func TestWindows_AgreeWithANaiveModel(t *testing.T) {
	t.Parallel()
	const length = 100
	rng := rand.New(rand.NewPCG(1, 0))
	w, at := newWindows(length), int64(0)
	counts, peaks := map[[2]int64]int64{}, map[int64]int64{}
	for range 1000 {
		at += rng.Int64N(40) * rng.Int64N(2)
		key, n := rng.Int64N(5), 1+rng.Int64N(maxCost)
		w.add(at, uint32(key), n)
		counts[[2]int64{key, at / length}] += n
	}
	windows, wantPeaks := make(histogram), make(histogram)
	for of, n := range counts {
		windows[n]++
		peaks[of[0]] = max(peaks[of[0]], n)
	}
	for _, n := range peaks {
		wantPeaks[n]++
	}
	require.Equal(t, wantPeaks, w.finish())
	require.Equal(t, windows, w.closed)
}

func TestHistogram_QuantilesAndWhatIsBeyond(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 3))
	h := make(histogram)
	var all []int64
	for range 2000 {
		v := 1 + int64(rng.ExpFloat64()*700)
		h[v]++
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
	for v := int64(1); v <= 2000; v = nextRound(v) {
		all = append(all, v)
	}
	require.Equal(t, []int64{1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000}, all)
	for peak, want := range map[int64]int64{1: 2, 4: 5, 5: 10, 8: 10, 9: 20, 25: 30, 26: 50, 1000: 2000, 2500: 3000} {
		w := newWindows(100)
		w.add(0, 0, peak)
		require.Equal(t, want, curveOf(w, 0).Suggested.Limit, peak)
	}
}

// One key that is far busier than all others does not take the table away from them.
func TestCurve_PointsGoFromWhatIsUsualToTheMost(t *testing.T) {
	t.Parallel()
	w := newWindows(100)
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
		w := newWindows(100)
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

func TestRun_HasABoundOnWhatIsKeptInMemory(t *testing.T) {
	t.Parallel()
	requests := func(n int) Source {
		return func(yield func(Request, error) bool) {
			for range n {
				if !yield(Request{At: time.Unix(0, 0), Resource: "a"}, nil) {
					return
				}
			}
		}
	}
	cfg := Config{maxSameTime: 10, maxWaiting: 5, Rules: leapgate.Rules{Flow: []flow.Rule{
		{Resource: "a", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Hour},
	}}}
	r, err := Run(t.Context(), cfg, requests(6))
	require.NoError(t, err)
	require.EqualValues(t, 5, r.Waited)
	_, err = Run(t.Context(), cfg, requests(7))
	require.EqualError(t, err, "whatif: more than 5 calls wait at 1970-01-01 00:00:00 +0000 UTC; shorten the maxWait of the rules")
	cfg.Rules = leapgate.Rules{}
	_, err = Run(t.Context(), cfg, requests(11))
	require.ErrorContains(t, err, "whatif: more than 10 requests have the time 1970-01-01 00:00:00")
}
