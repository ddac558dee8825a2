package bench

import (
	"math"
	"sync"
	"time"

	"github.com/RussellLuo/slidingwindow"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/puzpuzpuz/xsync/v4"
	"github.com/zeromicro/go-zero/core/collection"
	"golang.org/x/time/rate"

	"github.com/leapgate-go/leapgate/metric"
)

// The peers are other libraries, used as their documentation says. None does the
// same as Leapgate: a limiter has no exit and no statistics, a breaker no limit. So
// each names the case of Leapgate that comes nearest, and has the floor of what it
// does itself.
//
// Sentinel's Go port, which comes nearest of all, is missing: the Go module proxy
// does not serve it.

// The cases of Leapgate that peers come near.
const (
	nearRule     = "leapgate/handle, exact rule"
	nearBlocked  = "leapgate/blocked"
	nearRuleName = "leapgate/by name, 1,000, exact rule"
	nearDo       = "leapgate/Do"
	nearQPS      = "leapgate/QPS"
	nearAdd      = "leapgate/metric, Add"
)

// perSecond is a rate that no benchmark gets to, for limiters that count time in
// whole nanoseconds: one permit in each.
const perSecond = 1_000_000_000

// nearestCases are there to compare a peer with: what it does is, in Leapgate, a
// part of an entry.
var nearestCases = []Case{
	{Name: nearAdd, Floor: FloorClock, Make: func() func() func(int) {
		m, err := metric.New(10, time.Second)
		if err != nil {
			panic(err)
		}
		return shared(func(n int) {
			for range n {
				m.Add(int64(time.Since(base)), metric.Pass, 1)
			}
		})()
	}},
}

// decided is what a peer's worker panics with when it measures something else
// than its case says.
const decided = "it decided otherwise"

// Every peer is called in a loop of its own, as Leapgate is: a call through a
// function value would cost the fast ones a few percent.

// timeRate makes workers that ask one limiter of x/time.
func timeRate(limit rate.Limit, burst int, want bool) func() func() func(int) {
	return func() func() func(int) {
		l := rate.NewLimiter(limit, burst)
		if !want {
			l.AllowN(time.Now(), burst)
		}
		return shared(func(n int) {
			for range n {
				if l.Allow() != want {
					panic(decided)
				}
			}
		})()
	}
}

// timeRateByName makes workers that look up one limiter of x/time among 1,000 and
// ask it. All of them are there from the start: this is the steady state.
func timeRateByName(load func(names []string) (find func(name string) *rate.Limiter)) func() func() func(int) {
	return func() func() func(int) {
		names := resourceNames(1000)
		find := load(names)
		return walking(len(names), func(n, k int) int {
			for range n {
				k = next(k, len(names))
				if !find(names[k]).Allow() {
					panic(decided)
				}
			}
			return k
		})
	}
}

// sliding makes workers that ask a limiter of slidingwindow.
func sliding(limit int64, want bool) func() func() func(int) {
	return func() func() func(int) {
		l, _ := slidingwindow.NewLimiter(time.Second, limit, func() (slidingwindow.Window, slidingwindow.StopFunc) {
			return slidingwindow.NewLocalWindow()
		})
		return shared(func(n int) {
			for range n {
				if l.Allow() != want {
					panic(decided)
				}
			}
		})()
	}
}

// failsafeLimiter makes workers that ask a limiter of failsafe-go.
func failsafeLimiter(limiter func() ratelimiter.RateLimiter[int], want bool) func() func() func(int) {
	return func() func() func(int) {
		l := limiter()
		if !want {
			l.TryAcquirePermit() // the only one
		}
		return shared(func(n int) {
			for range n {
				if l.TryAcquirePermit() != want {
					panic(decided)
				}
			}
		})()
	}
}

func nothing() (int, error) { return 0, nil }

// newRolling makes a window of go-zero like that of a resource: a second in ten
// buckets.
func newRolling() *collection.RollingWindow[int64, *collection.Bucket[int64]] {
	return collection.NewRollingWindow[int64, *collection.Bucket[int64]](
		func() *collection.Bucket[int64] { return new(collection.Bucket[int64]) }, 10, 100*time.Millisecond)
}

var peers = []Case{
	{
		Name: "x/time/rate Allow", Floor: FloorClock, Near: nearRule,
		Make: timeRate(unreachable, perSecond, true),
	},
	{
		Name: "x/time/rate Allow, refused", Floor: FloorClock, Near: nearBlocked,
		Make: timeRate(rate.Every(time.Hour), 1, false),
	},
	{
		Name: "x/time/rate in sync.Map, 1,000", Floor: FloorClockByName, Near: nearRuleName,
		Make: timeRateByName(func(names []string) func(string) *rate.Limiter {
			var limiters sync.Map
			for _, name := range names {
				limiters.Store(name, rate.NewLimiter(unreachable, perSecond))
			}
			return func(name string) *rate.Limiter {
				limiter, _ := limiters.Load(name)
				return limiter.(*rate.Limiter)
			}
		}),
	},
	{
		Name: "x/time/rate in xsync.Map, 1,000", Floor: FloorClockByName, Near: nearRuleName,
		Make: timeRateByName(func(names []string) func(string) *rate.Limiter {
			limiters := xsync.NewMap[string, *rate.Limiter]()
			for _, name := range names {
				limiters.Store(name, rate.NewLimiter(unreachable, perSecond))
			}
			return func(name string) *rate.Limiter {
				limiter, _ := limiters.Load(name)
				return limiter
			}
		}),
	},

	{
		Name: "slidingwindow Allow", Floor: FloorClock, Near: nearRule,
		Make: sliding(unreachable, true),
	},
	{
		Name: "slidingwindow Allow, refused", Floor: FloorClock, Near: nearBlocked,
		Make: sliding(0, false),
	},

	// The smooth one needs a clock that moves on between any two calls.
	{
		Name: "failsafe-go smooth limiter", Floor: FloorClock, Near: nearRule,
		Make: failsafeLimiter(func() ratelimiter.RateLimiter[int] { return ratelimiter.NewSmooth[int](perSecond, time.Second) }, true),
	},
	{
		Name: "failsafe-go smooth limiter, refused", Floor: FloorClock, Near: nearBlocked,
		Make: failsafeLimiter(func() ratelimiter.RateLimiter[int] { return ratelimiter.NewSmooth[int](1, time.Hour) }, false),
	},
	{
		Name: "failsafe-go bursty limiter", Floor: FloorClock, Near: nearRule,
		Make: failsafeLimiter(func() ratelimiter.RateLimiter[int] { return ratelimiter.NewBursty[int](math.MaxUint32, time.Second) }, true),
	},
	{
		Name: "failsafe-go bursty limiter, refused", Floor: FloorClock, Near: nearBlocked,
		Make: failsafeLimiter(func() ratelimiter.RateLimiter[int] { return ratelimiter.NewBursty[int](1, time.Hour) }, false),
	},
	{
		Name: "failsafe-go bursty limiter, Get", Floor: FloorEntry, Near: nearDo,
		Make: failsafeGet(func() failsafe.Policy[int] { return ratelimiter.NewBursty[int](math.MaxUint32, time.Second) }, nil),
	},

	{
		Name: "go-zero RollingWindow Add", Floor: FloorClock, Near: nearAdd,
		Make: func() func() func(int) {
			w := newRolling()
			return shared(func(n int) {
				for range n {
					w.Add(1)
				}
			})()
		},
	},
	{
		Name: "go-zero RollingWindow Reduce", Floor: FloorClock, Near: nearQPS,
		Make: func() func() func(int) {
			w := newRolling()
			w.Add(1)
			return shared(func(n int) {
				var sum int64
				for i := range n {
					if i%1000 == 0 {
						w.Add(1) // so that there is something to read
					}
					w.Reduce(func(b *collection.Bucket[int64]) { sum += b.Count })
				}
				sink.Store(sum)
			})()
		},
	},

	// No window and no clock: what the striped counting alone costs.
	{
		Name: "xsync Counter Inc", Floor: FloorAdd, Near: nearAdd,
		Make: func() func() func(int) {
			c := xsync.NewCounter()
			return shared(func(n int) {
				for range n {
					c.Inc()
				}
			})()
		},
	},
}
