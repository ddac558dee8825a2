package breaker

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// Every probe fails, and only all of them open the breaker again: so from one opening to the
// next exactly so many are admitted as there may be, besides those that were ignored or
// refunded.
func TestHalfOpen_HammerNeverAdmitsMoreThanProbes(t *testing.T) {
	t.Parallel()
	const goroutines = 64
	cycles := gatetest.Rounds(100_000)
	for _, probes := range []int64{1, 3} {
		r := &Rule{
			ID: "b", Resource: "a", Interval: 10 * time.Second, Buckets: 10, MinCalls: 1, ErrorRatio: 1,
			OpenFor: time.Millisecond, Probes: probes, ProbeTimeout: maxSpan,
		}
		clock := gatetest.NewClock()
		c := compile(&ruleset.Env{Now: clock.Now}, r, "a", nil).(*check)
		var judged atomic.Int64
		c.Finish(clock.Now(), 1, 0, resource.Failure)
		gatetest.AtOnce(goroutines, func(id int) {
			random := rand.New(rand.NewPCG(uint64(probes), uint64(id)))
			for c.breaker.phase.Load().row < cycles {
				now := clock.Now()
				v := c.Reserve(now, 1, resource.Caller{})
				end := clock.Now()
				switch choice := random.IntN(10); {
				case v.Refused != nil && v.Refused.RetryAfter > 0:
					clock.Advance(min(v.Refused.RetryAfter, r.OpenFor)) // now may be long ago
				case v.Refused != nil:
					runtime.Gosched()
				case choice == 0:
					c.Refund(v.Ticket, 1)
				case choice == 1:
					c.Finish(end, 1, time.Duration(end-now), resource.Ignored)
				default:
					judged.Add(1)
					c.Finish(end, 1, time.Duration(end-now), resource.Failure)
				}
			}
		})
		p := c.breaker.phase.Load()
		for p.state != open { // those probes that are missing
			clock.Advance(time.Second)
			now := clock.Now()
			require.Nil(t, c.Reserve(now, 1, resource.Caller{}).Refused)
			judged.Add(1)
			c.Finish(now, 1, 0, resource.Failure)
			p = c.breaker.phase.Load()
		}
		require.Equal(t, probes*int64(p.row-1), judged.Load(), "each opening but the first took so many")
	}
}

// Calls of all outcomes, some refunded, some over their time, while the breaker opens, ramps up
// and closes: in the end nothing is in flight, and it lets all calls in.
func TestBreaker_HammerLeavesNothingInFlight(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 16, 10_000
	r := &Rule{
		ID: "b", Resource: "a", Interval: 10 * time.Millisecond, Buckets: 10, MinCalls: 5, ErrorRatio: 0.5,
		SlowRatio: 0.9, SlowAfter: 500 * time.Microsecond, OpenFor: time.Millisecond, Probes: 3,
		ProbeTimeout: 2 * time.Millisecond, Ramp: 3 * time.Millisecond,
	}
	clock := gatetest.NewClock()
	c := compile(&ruleset.Env{Now: clock.Now}, r, "a", nil).(*check)
	var admitted, refused atomic.Int64
	seen := [len(stateNames)]atomic.Int64{}
	gatetest.AtOnce(goroutines, func(id int) {
		random := rand.New(rand.NewPCG(7, uint64(id)))
		end := func(start int64) {
			now := max(start, clock.Now())
			c.Finish(now, 1, time.Duration(now-start), resource.Outcome(random.IntN(3)))
		}
		var held []int64
		for range calls {
			now := clock.Now()
			clock.Advance(time.Duration(random.Int64N(20_000)))
			if random.IntN(3) == 0 && c.Look(now, 1, resource.Caller{}) != nil {
				refused.Add(1)
				continue
			}
			v := c.Reserve(now, 1, resource.Caller{})
			seen[c.breaker.phase.Load().state].Add(1)
			switch {
			case v.Refused != nil:
				refused.Add(1)
			case random.IntN(10) == 0:
				c.Refund(v.Ticket, 1)
			default:
				admitted.Add(1)
				held = append(held, now)
			}
			if i := random.IntN(len(held) + 1); i < len(held) {
				start := held[i]
				c.Pause(max(start, clock.Now()), start)
				clock.Advance(time.Duration(random.Int64N(20_000)))
				now := max(start, clock.Now())
				held[i] = start + random.Int64N(now-start+1)
				c.Resume(now, start, held[i])
			}
			if len(held) > 10 || len(held) > 0 && random.IntN(2) == 0 {
				end(held[0])
				held = held[1:]
			}
		}
		for _, start := range held {
			end(start)
		}
	})
	for s := range seen {
		require.True(t, seen[s].Load() > 0 || state(s) == throttling, stateNames[s])
	}
	for range 10 {
		clock.Advance(time.Second)
		now := clock.Now()
		require.Nil(t, c.Reserve(now, 1, resource.Caller{}).Refused)
		c.Finish(now, 1, 0, resource.Success)
		admitted.Add(1)
	}
	p := c.breaker.phase.Load()
	require.Equal(t, closed, p.state)
	require.Zero(t, p.hanging.overdue())
	s := c.Snapshot(clock.Now())
	require.Equal(t, []int64{admitted.Load(), refused.Load()}, []int64{s.Admitted, s.Blocked})
}
