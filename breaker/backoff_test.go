package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/breaker"
)

// What ends the time in which a breaker stays closed does not matter: bad results, an operator, or
// another rule.
func TestBackOff_IsForgottenWhateverEndsTheTimeClosed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end   func(*breaker.Rule)
		opens int // so many failures then
	}{
		"forced open": {func(r *breaker.Rule) { r.Force = breaker.Open }, 1},
		"throttling":  {func(r *breaker.Rule) { r.Behavior = breaker.Throttle }, 5},
	} {
		for _, ramp := range []time.Duration{0, 300 * ms, 20 * sec} {
			for _, times := range []struct{ closedFor, opensFor time.Duration }{{6*sec - 1, 12 * sec}, {6 * sec, 3 * sec}} {
				r := usual(func(r *breaker.Rule) { r.OpenFor, r.MaxOpenFor, r.Ramp = 3*sec, time.Minute, ramp })
				w := newWorld(t, r)
				w.opens()
				w.at(3 * sec)
				w.calls(fails) // now for 6 s
				w.at(9 * sec)
				w.calls(ok)
				w.at(9*sec + times.closedFor)
				other := r
				tt.end(&other)
				w.load(other)
				w.load(r)
				w.calls(many(tt.opens, fails)...)
				require.Equal(t, times.opensFor, w.refused().RetryAfter, "%s %v %v", name, ramp, times)
			}
		}
	}
}
