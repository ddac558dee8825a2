package flow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/flow"
)

// On a clock of whole seconds a strict rule keeps each call for its interval and a bucket, rounded up
// to a second; a rule that is not strict and has buckets of a second is exact.
func TestStrict_OnAClockOfWholeSeconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		interval time.Duration
		buckets  int
		strict   bool
		period   int // of how many seconds each lets the threshold in once
	}{
		{time.Second, 1, true, 2},
		{time.Second, 10, true, 2},
		{time.Second, 1000, true, 2},
		{10 * time.Second, 10, true, 11},
		{10 * time.Second, 100, true, 11},
		{10 * time.Second, 5, true, 12},
		{time.Second, 1, false, 1},
		{10 * time.Second, 10, false, 10},
	} {
		g := newGate(t, flow.Rule{Resource: "a", Threshold: 10, Interval: c.interval, Buckets: c.buckets, Strict: c.strict})
		for second := range 60 {
			want := 0
			if second%c.period == 0 {
				want = 10
			}
			require.Equal(t, want, g.try(t, "a", 20), "%+v @%d", c, second)
			g.clock.Add(int64(time.Second))
		}
	}
}
