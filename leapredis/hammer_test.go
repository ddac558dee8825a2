package leapredis

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Callers leave, refund and settle, and leases come and end: what the server holds in the
// end is what was admitted and kept, no more and no less.
func TestHammer_TheServerHoldsWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := withFields()
		s.latency.set(2 * time.Millisecond)
		cfg := Config{Limit: 1 << 40, Window: time.Hour, LeaseTime: 30 * time.Millisecond, WhenAway: Deny}
		if k.name == "Counter" {
			cfg.Lease = 20
		}
		var kept, left atomic.Int64
		caller := func(l limiter, r *rand.Rand) {
			for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(5000))*time.Microsecond)
				d, err := l.AllowN(ctx, "a", r.Int64N(4))
				cancel()
				if err != nil {
					left.Add(1)
					continue
				}
				actual := d.Charged
				switch r.IntN(6) {
				case 0:
					actual = r.Int64N(d.Charged + 1)
					assert.NoError(t, l.Refund(ctx, "a", d, d.Charged-actual))
				case 1:
					actual = r.Int64N(2*d.Charged + 1)
					assert.NoError(t, l.Settle(ctx, "a", d, actual))
				}
				kept.Add(actual)
			}
		}
		var all sync.WaitGroup
		for process := range uint64(4) {
			l := k.start(t, s, cfg)
			for id := range uint64(8) {
				all.Go(func() { caller(l, rand.New(rand.NewPCG(process, id))) })
			}
		}
		all.Wait()
		time.Sleep(time.Second) // what is on its way comes, and leases end
		require.Positive(t, left.Load())
		require.Positive(t, kept.Load())
		require.Equal(t, kept.Load(), s.held("test:{}a"))
	})
}
