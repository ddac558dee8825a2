package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/go-chi/httprate"
	"github.com/puzpuzpuz/xsync/v4"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// Keyed limiters: one decision on one of many keys, all of them known, none near its limit.

var keySizes = []int{1, 100_000, 1_000_000}

// keyDivisor makes the cases smaller for tests, which only see to it that they run.
var keyDivisor = 1

// RandomKeys returns distinct keys of 20 bytes, in no order.
func RandomKeys(n int) []string {
	random := rand.New(rand.NewPCG(1, 2)) // the same each time
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%07x%013x", i, random.Uint64N(1<<52))
	}
	random.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// A KeyedLimiter is a way to limit by key, with room for a number of keys.
type KeyedLimiter struct {
	Name  string
	New   func(keys int) (allow func(key string) bool)
	Near  string // the limiter of Leapgate that comes nearest, for peers
	NoKey bool   // it keeps a hash of the key only, so that two keys may share a count
}

// keyedLimit is a limit that no benchmark gets to, and that fits into the word of a
// counter: 80 a microsecond for one key. Many keys have a longer window, or they would
// expire one after the other.
const keyedLimit = 16_000_000

func keyedWindow(keys int) time.Duration {
	if keys == 1 {
		return 200 * time.Millisecond
	}
	return time.Minute
}

// KeyedLimiters are those of Leapgate, then the peers.
var KeyedLimiters = []KeyedLimiter{
	{Name: "leapgate/limit.NewCounter", New: func(keys int) func(string) bool {
		return allowOf(limit.NewCounter(limit.Config{Limit: keyedLimit, Window: keyedWindow(keys), MaxKeys: keys, Now: now}))
	}},
	{Name: "leapgate/limit.NewCounter, locked", New: func(keys int) func(string) bool {
		return allowOf(limit.NewCounter(limit.Config{Limit: 1 << 40, Window: keyedWindow(keys), MaxKeys: keys, Now: now}))
	}},
	{Name: "leapgate/limit.NewLog, of 10", New: func(keys int) func(string) bool {
		window := time.Millisecond
		if keys > 1 {
			window = time.Minute
		}
		l, err := limit.NewLog(limit.Config{Limit: 10, Window: window, MaxKeys: keys, Now: now})
		if err != nil {
			panic(err)
		}
		ctx := context.Background()
		return func(key string) bool {
			_, err := l.Allow(ctx, key) // either way: it is full most of the time
			return err == nil
		}
	}},
	{Name: "leapgate/limit.NewBucketed, strict", New: func(keys int) func(string) bool {
		return allowOf(limit.NewBucketed(limit.Config{Limit: keyedLimit, Window: keyedWindow(keys), Strict: true, MaxKeys: keys, Now: now}))
	}},
	{Name: "leapgate/limit.NewBurst", New: func(keys int) func(string) bool {
		cfg := limit.Config{Limit: keyedLimit, Window: keyedWindow(keys), MaxKeys: keys, Now: now}
		if keys > 1 { // a key must still owe something when its turn comes again
			cfg.Limit, cfg.Burst = 30, keyedLimit
		}
		return allowOf(limit.NewBurst(cfg))
	}},
	{Name: "leapgate, a param rule on one argument, entry and exit", New: func(keys int) func(string) bool {
		return allowOfRule(param.Rule{Threshold: keyedLimit, Interval: keyedWindow(keys), MaxKeys: keys})
	}},
	{Name: "leapgate, an argument without a rule on it, entry and exit", NoKey: true, New: func(int) func(string) bool {
		return allowOfRule(param.Rule{Threshold: keyedLimit, Mode: rule.Off})
	}},
	{Name: "leapgate/limit.NewInFlight, and released", New: func(keys int) func(string) bool {
		l, err := limit.NewInFlight(limit.Config{Limit: 10, MaxKeys: keys})
		if err != nil {
			panic(err)
		}
		ctx := context.Background()
		return func(key string) bool {
			place, d, err := l.Acquire(ctx, key)
			place.Release()
			return err == nil && d.Allowed
		}
	}},
	{Name: "failsafe-go bulkhead in xsync.Map, and released", Near: "leapgate/limit.NewInFlight, and released", New: func(int) func(string) bool {
		bulkheads := xsync.NewMap[string, bulkhead.Bulkhead[any]]()
		return func(key string) bool {
			b, ok := bulkheads.Load(key)
			if !ok {
				b, _ = bulkheads.LoadOrStore(strings.Clone(key), bulkhead.New[any](10))
			}
			if !b.TryAcquirePermit() {
				return false
			}
			b.ReleasePermit()
			return true
		}
	}},
	{Name: "redis_rate's formula in xsync.Map", Near: "leapgate/limit.NewBurst", New: func(int) func(string) bool {
		// What its script does, in seconds as floating-point numbers: a model without a server.
		type cell struct {
			mu  sync.Mutex
			tat float64
		}
		cells := xsync.NewMap[string, *cell]()
		const emission, burst = 1.0 / unreachable, 1e9
		return func(key string) bool {
			c, ok := cells.Load(key)
			if !ok {
				c, _ = cells.LoadOrStore(strings.Clone(key), new(cell))
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			now := time.Since(base).Seconds() // here, as one script runs at a time
			tat := max(c.tat, now) + emission
			if now-(tat-emission*burst) < 0 {
				return false
			}
			c.tat = tat
			return true
		}
	}},
	{Name: "x/time/rate in xsync.Map", Near: "leapgate/limit.NewBurst", New: func(int) func(string) bool {
		limiters := xsync.NewMap[string, *rate.Limiter]()
		return func(key string) bool {
			l, ok := limiters.Load(key)
			if !ok {
				l, _ = limiters.LoadOrStore(key, rate.NewLimiter(unreachable, perSecond))
			}
			return l.Allow()
		}
	}},
	{Name: "a word in xsync.Map", Near: "leapgate/limit.NewCounter", New: func(int) func(string) bool {
		// No limiter: what the store alone costs that limit.NewCounter might have had.
		words := xsync.NewMap[string, *atomic.Uint64]()
		return func(key string) bool {
			word, ok := words.Load(key)
			if !ok {
				word, _ = words.LoadOrStore(strings.Clone(key), new(atomic.Uint64))
			}
			was := word.Load()
			return time.Since(base) >= 0 && word.CompareAndSwap(was, was+1) || len(key) > 0
		}
	}},
	{Name: "httprate local counter", Near: "leapgate/limit.NewCounter", NoKey: true, New: func(keys int) func(string) bool {
		// What its OnLimit does, without a request and its headers.
		window := keyedWindow(keys)
		counter := httprate.NewLocalLimitCounter(window)
		counter.Config(keyedLimit, window)
		var mu sync.Mutex
		return func(key string) bool {
			at := time.Now().UTC()
			current := at.Truncate(window)
			mu.Lock()
			defer mu.Unlock()
			cur, prev, err := counter.Get(key, current, current.Add(-window))
			if err != nil {
				return false
			}
			part := float64(window-at.Sub(current)) / float64(window)
			if int(math.Round(float64(prev)*part+float64(cur)))+1 > keyedLimit {
				return false
			}
			return counter.IncrementBy(key, current, 1) == nil
		}
	}},
	{Name: "go-limiter memorystore", Near: "leapgate/limit.NewCounter", New: func(int) func(string) bool {
		store, err := memorystore.New(&memorystore.Config{Tokens: unreachable, Interval: time.Minute})
		if err != nil {
			panic(err)
		}
		ctx := context.Background()
		return func(key string) bool {
			_, _, _, ok, err := store.Take(ctx, key)
			return ok && err == nil
		}
	}},
	{Name: "throttled memstore", Near: "leapgate/limit.NewCounter", New: func(keys int) func(string) bool {
		store, err := memstore.NewCtx(2 * keys)
		if err != nil {
			panic(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond})
		if err != nil {
			panic(err)
		}
		l.SetMaxCASAttemptsLimit(math.MaxInt) // by default it fails when ten others were faster
		ctx := context.Background()
		return func(key string) bool {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return !limited && err == nil
		}
	}},
	{Name: "ulule memory", Near: "leapgate/limit.NewCounter", New: func(int) func(string) bool {
		l := ulule.New(ululememory.NewStore(), ulule.Rate{Period: time.Hour, Limit: math.MaxInt64})
		ctx := context.Background()
		return func(key string) bool {
			c, err := l.Get(ctx, key)
			return err == nil && !c.Reached
		}
	}},
}

func allowOf[L interface {
	Allow(ctx context.Context, key string) (limit.Decision, error)
}](l L, err error) func(string) bool {
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Allow(ctx, key)
		return err == nil && d.Allowed
	}
}

// keyedFloor reads the clock and finds the key in a map.
func keyedFloor(keys []string) func(string) bool {
	byKey := make(map[string]int32, len(keys))
	for i, key := range keys {
		byKey[strings.Clone(key)] = int32(i)
	}
	return func(key string) bool { return int64(time.Since(base))+int64(byKey[key]) >= 0 }
}

// keyed makes workers that ask one limiter for one key after the other, in an order
// that no cache foresees. The limiter is called through a function value, ours and the
// peers' alike; it is 2 ns of fifty at least.
func keyed(size int, load func(keys []string) func(string) bool) func() func() func(int) {
	return func() func() func(int) {
		keys := RandomKeys(max(1, size/keyDivisor))
		allow := load(keys)
		for _, key := range keys {
			// A key comes with its request, and never lies where the one before it lay.
			if !allow(strings.Clone(key)) {
				panic(decided)
			}
		}
		return walking(len(keys), func(n, k int) int {
			for range n {
				k = next(k, len(keys))
				if !allow(keys[k]) {
					panic(decided)
				}
			}
			return k
		})
	}
}

func keyedCases() (cases []Case) {
	for _, size := range keySizes {
		named := func(name string) string { return fmt.Sprintf("%s, %d keys", name, size) }
		floor := named("floor/clock+map")
		cases = append(cases, Case{Name: floor, Make: keyed(size, keyedFloor)})
		for _, l := range KeyedLimiters {
			c := Case{Name: named(l.Name), Floor: floor, Make: keyed(size, func(keys []string) func(string) bool { return l.New(len(keys)) })}
			if l.Near != "" {
				c.Near = named(l.Near)
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// keyedRefusals ask for a key that has used up its limit.
var keyedRefusals = []Case{
	{Name: "leapgate/limit.NewCounter, refused", Floor: FloorClock, Make: refusing(limit.Config{Limit: 1, Window: time.Hour})},
	{Name: "leapgate/limit.NewCounter, refused, with Offenders", Floor: FloorClock, Make: refusing(limit.Config{Limit: 1, Window: time.Hour, Offenders: 100})},
}

func refusing(cfg limit.Config) func() func() func(int) {
	return func() func() func(int) {
		cfg.Now = now
		allow := allowOf(limit.NewCounter(cfg))
		allow("198.51.100.7")
		return shared(func(n int) {
			for range n {
				if allow("198.51.100.7") {
					panic(decided)
				}
			}
		})()
	}
}

// allowOfRule is what a rule on the argument "key" of one resource admits.
func allowOfRule(r param.Rule) func(key string) bool {
	r.Resource, r.Arg = "orders", "key"
	gate := leapgate.Must(leapgate.Config{Now: now})
	if err := gate.LoadRules(leapgate.Rules{Param: []param.Rule{r}}); err != nil {
		panic(err)
	}
	orders, ctx := gate.Resource("orders"), context.Background()
	return func(key string) bool {
		e, err := orders.EntryContext(ctx, leapgate.WithArg("key", key))
		e.Exit()
		return err == nil
	}
}
