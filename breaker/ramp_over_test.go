package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A call that ends after a ramp that a reload has made shorter is judged by all of MinCalls.
func TestRamp_NeedsNoMoreThanMinCallsWhenItIsOver(t *testing.T) {
	t.Parallel()
	for _, over := range []time.Duration{0, 1, time.Second, 200 * 24 * time.Hour, 1 << 62} {
		require.EqualValues(t, maxCalls, part(maxCalls, time.Millisecond+over, time.Millisecond), over)
	}
}
