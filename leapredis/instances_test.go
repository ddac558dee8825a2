package leapredis

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Processes that seldom ask have not heard of each other when the server goes away. None
// takes itself for the only one for that.
func TestLocal_ProcessesThatSeldomAsk(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := withFields()
		var b broken
		s.fault = b.fault
		var all []limiter
		for range 4 {
			l := k.start(t, s, Config{Limit: 100, Instances: count})
			all = append(all, l)
			allow(t, l, "a", 1)
			synctest.Wait()
			time.Sleep(beatLasts + time.Second)
		}
		b.set(errCut)
		admitted := 0
		for _, l := range all {
			for range 100 {
				if allow(t, l, "b", 1).Allowed {
					admitted++
				}
			}
		}
		require.LessOrEqual(t, admitted, 100)
		b.set(nil)
	})
}
