package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestReject_ShareByRequestsAndAccepts(t *testing.T) {
	t.Parallel()
	r := &Rule{MinCalls: 1, K: 2, MaxReject: 0.9}
	for _, tt := range []struct {
		requests, accepts int64
		share             float64
	}{
		{100, 50, 0},
		{100, 51, 0},
		{100, 100, 0},
		{100, 40, 20.0 / 101},
		{100, 10, 80.0 / 101},
		{100, 0, 0.9},
		{10, 0, 0.9},
		{8, 0, 8.0 / 9},
		{1, 0, 0.5},
		{0, 0, 0},
	} {
		require.Equal(t, tt.share, reject(r, counts{tt.requests, tt.requests - tt.accepts}), "%+v", tt)
	}
	few := &Rule{MinCalls: 11, K: 2, MaxReject: 1}
	require.Zero(t, reject(few, counts{10, 10}))
	require.Equal(t, 11.0/12, reject(few, counts{11, 11}))
	require.Equal(t, 0.5, reject(&Rule{K: 1.5, MaxReject: 1}, counts{100, 67}), "K need not be whole")
}

func TestStride_PicksEvenly(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{
		0.25:    "...x...x...x...x",
		0.4:     "..x.x..x.x..x.x",
		0.5:     ".x.x.x",
		0.9:     ".xxxxxxxxx.xxxxxxxxx",
		1:       "xxx",
		0:       "....",
		1.0 / 3: "..x..x..x",
		0.1:     ".........x.........x",
	} {
		var s stride
		got := ""
		for range want {
			would := s.wouldBeNext(inParts(share))
			picked := s.next(inParts(share))
			require.Equal(t, would, picked)
			if picked {
				got += "x"
			} else {
				got += "."
			}
		}
		require.Equal(t, want, got, share)
	}
}

// However many ask and take back at once, so many are picked as the share says, but for one.
func TestStride_IsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 20_000
	for _, share := range []float64{0.1, 0.3, 0.77} {
		var s stride
		var picked [goroutines]int
		gatetest.AtOnce(goroutines, func(id int) {
			for range calls {
				if s.next(inParts(share)) {
					picked[id]++
				}
			}
		})
		sum := 0
		for _, n := range picked {
			sum += n
		}
		require.InDelta(t, share*goroutines*calls, sum, 1)
	}
}

func TestStride_TakesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		share := inParts(rapid.Float64Range(0, 1).Draw(t, "share"))
		var s, other stride
		for i := range rapid.IntRange(1, 50).Draw(t, "calls") {
			if rapid.Bool().Draw(t, "refunded") {
				s.next(share)
				s.back(share)
			}
			require.Equal(t, other.next(share), s.next(share), i)
		}
	})
}

func TestPart_OfARamp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n           int64
		after, ramp time.Duration
		want        int64
	}{
		{10, 0, 10, 1},
		{10, 1, 10, 1},
		{10, 2, 10, 2},
		{10, 9, 10, 9},
		{5, 0, 10, 1},
		{5, 3, 10, 2},
		{1, 0, time.Hour, 1},
		{whole, 0, 10 * time.Second, 429496730},
		{whole, 5 * time.Second, 10 * time.Second, whole / 2},
		{maxCalls, maxSpan - 1, maxSpan, maxCalls},
		{100, 11, 105, 11},
		{100, 10, 105, 10},
		{100, -5, 100, 10},
	} {
		require.Equal(t, tt.want, part(tt.n, tt.after, tt.ramp), "%+v", tt)
	}
}
