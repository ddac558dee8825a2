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

// witness tells a caller what the server took for it, also if it has left meanwhile.
type witness struct{ *server }

type witnessed struct{}

func (w witness) EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error) {
	r, err := w.server.EvalSHA(ctx, sha, key, args...)
	return w.tell(ctx, r, args), err
}

func (w witness) Eval(ctx context.Context, text, key string, args ...string) ([]int64, error) {
	r, err := w.server.Eval(ctx, text, key, args...)
	return w.tell(ctx, r, args), err
}

func (w witness) tell(ctx context.Context, r []int64, args []string) []int64 {
	if took, ok := ctx.Value(witnessed{}).(*atomic.Int64); ok && len(r) > 1 && len(args[0]) >= 4*packed {
		asked := unpack(args[0])
		if len(asked) > 4 { // a burst's
			asked = asked[3:]
		}
		switch {
		case asked[3] > 0 && r[0] >= asked[2]:
			took.Store(asked[2])
		case asked[3] == takeSome:
			took.Store(r[0])
		}
	}
	return r
}

// Callers leave, refund and settle, and leases come and end: what the server holds in the
// end is what was admitted and kept, and what those that left had asked for, no more and no
// less.
func TestHammer_TheServerHoldsWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		s.latency.set(2 * time.Millisecond)
		cfg := Config{Limit: 1 << 40, Window: time.Hour, LeaseTime: 30 * time.Millisecond, WhenAway: Deny}
		switch k.name {
		case "Counter":
			cfg.Lease = 20
		case "Burst":
			cfg.Limit, cfg.Burst = 10, 1<<20 // nothing is paid meanwhile
		}
		var kept, left atomic.Int64
		var mu sync.Mutex
		var gone []*atomic.Int64 // what those that left have taken
		caller := func(l limiter, r *rand.Rand) {
			for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(5000))*time.Microsecond)
				took := new(atomic.Int64)
				d, err := l.AllowN(context.WithValue(ctx, witnessed{}, took), "a", r.Int64N(4))
				cancel()
				if err != nil {
					left.Add(1)
					mu.Lock()
					gone = append(gone, took)
					mu.Unlock()
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
			l := k.start(t, witness{s}, cfg)
			for id := range uint64(8) {
				all.Go(func() { caller(l, rand.New(rand.NewPCG(process, id))) })
			}
		}
		all.Wait()
		time.Sleep(time.Second) // what is on its way comes, and leases end
		require.Positive(t, left.Load())
		require.Positive(t, kept.Load())
		taken := int64(0)
		for _, took := range gone {
			taken += took.Load()
		}
		require.Positive(t, taken)
		require.Equal(t, kept.Load()+taken, s.held("test:{}a"))
	})
}
