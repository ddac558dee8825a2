// Command memory prints how many bytes of live heap a resource takes: when it was
// only registered, when it was called once, and when it was busy for a minute; how many more
// with a breaker; and how many a key of a keyed limiter takes, of Leapgate's and of the peers'.
//
// Time is given, so that a minute takes a second or two. There is one processor,
// so that every resource has one stripe.
package main

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/bench"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/resource"
)

// The targets, in bytes per resource.
const (
	targetRegistered = 1000
	targetCalledOnce = 4096
	targetBusy       = 24576
)

func main() {
	many := flag.Int("resources", 10_000, "how many resources are registered, and called once")
	few := flag.Int("busy", 500, "how many resources are busy")
	keys := flag.Int("keys", 1_000_000, "how many keys a keyed limiter has; 0: leave them out")
	lasting := flag.Duration("for", 65*time.Second, "how long they are busy; rings of marks are full after 61 s")
	flag.Parse()
	if *many < 1 || *few < 1 || *lasting <= 0 || *keys < 0 {
		fmt.Fprintln(os.Stderr, "memory: want at least 1 resource, a time above 0, and 0 keys or more")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)

	fmt.Printf("| resources | bytes each | target |\n|---|---:|---:|\n")
	row := func(what string, bytes, target int) {
		fmt.Printf("| %s | %d | %d |\n", what, bytes, target)
	}
	row(fmt.Sprintf("%d registered", *many), bytesEach(*many, register), targetRegistered)
	row(fmt.Sprintf("%d called once", *many), bytesEach(*many, callOnce), targetCalledOnce)
	row(fmt.Sprintf("%d busy for %v", *few, *lasting),
		bytesEach(*few, func(g *leapgate.Gate, c *clock, names []string) { keepBusy(g, c, names, *lasting) }), targetBusy)

	fmt.Printf("\n| %d breakers | bytes each |\n|---|---:|\n", *many)
	without := bytesEach(*many, callInBuckets)
	for _, b := range leapgateBreakers {
		fmt.Printf("| leapgate, %s | %d |\n", b.name, bytesEach(*many, withBreaker(b.rule))-without)
	}
	for _, b := range bench.PeerBreakers {
		fmt.Printf("| %s | %d |\n", b.Name, bytesPerBreaker(*many, b.Make))
	}

	if *keys == 0 {
		return
	}
	fmt.Printf("\n| %d keys of %d bytes | bytes each besides the key |\n|---|---:|\n", *keys, keyLength)
	for _, l := range bench.KeyedLimiters {
		fmt.Printf("| %s | %d |\n", l.Name, bytesPerKey(*keys, l))
	}
}

const keyLength = 20

// bytesPerKey makes a limiter with room for n keys, asks for each once, and returns how much
// the live heap has grown by that, per key, without the bytes of the key if it keeps
// that.
func bytesPerKey(n int, l bench.KeyedLimiter) int {
	keys := bench.RandomKeys(n)
	before := liveHeap()
	allow := l.New(n)
	for _, key := range keys {
		allow(strings.Clone(key)) // as it comes with a request; a limiter that keeps it pays for it
	}
	after := liveHeap()
	runtime.KeepAlive(allow)
	runtime.KeepAlive(keys)
	each := int(math.Round((float64(after) - float64(before)) / float64(n)))
	if !l.NoKey {
		each -= keyLength
	}
	return each
}

var leapgateBreakers = []struct {
	name string
	rule breaker.Rule
}{
	{"10 buckets", breaker.Rule{ErrorRatio: 0.5}},
	{"10 buckets, slow calls too", breaker.Rule{ErrorRatio: 0.5, SlowRatio: 0.5, SlowAfter: 10 * time.Second}},
	{"10 buckets, throttles", breaker.Rule{Behavior: breaker.Throttle}},
}

// withBreaker is callInBuckets with a rule for each resource.
func withBreaker(r breaker.Rule) func(g *leapgate.Gate, c *clock, names []string) {
	return func(g *leapgate.Gate, c *clock, names []string) {
		rules := make([]breaker.Rule, len(names))
		for i, name := range names {
			rules[i] = r
			rules[i].Resource = name
		}
		if err := g.LoadRules(leapgate.Rules{Breaker: rules}); err != nil {
			panic(err)
		}
		callInBuckets(g, c, names)
	}
}

// callInBuckets calls each resource once in each of eleven seconds, so that every bucket of a
// breaker is there.
func callInBuckets(g *leapgate.Gate, c *clock, names []string) {
	for range 11 {
		callOnce(g, c, names)
		c.now += int64(time.Second)
	}
}

// bytesPerBreaker makes n breakers of a peer, and returns how much the live heap has grown by that, for
// each.
func bytesPerBreaker(n int, newBreaker func() any) int {
	all := make([]any, n)
	before := liveHeap()
	for i := range all {
		all[i] = newBreaker()
	}
	after := liveHeap()
	runtime.KeepAlive(all)
	return int(math.Round((float64(after) - float64(before)) / float64(n)))
}

// bytesEach makes a gate with n places, uses it on n names, and returns how much
// the live heap has grown by that, per name. What the gate and its table of places
// take is left out, and so are the names of the caller, as the gate has copies.
func bytesEach(n int, use func(g *leapgate.Gate, c *clock, names []string)) int {
	names := make([]string, n)
	for i := range names {
		names[i] = "GET /orders/" + strconv.Itoa(i)
	}
	c := &clock{now: int64(1_800_000_000 * time.Second)}
	g := leapgate.Must(leapgate.Config{MaxResources: n, Now: func() int64 { return c.now }})
	before := liveHeap()
	use(g, c, names)
	after := liveHeap()
	runtime.KeepAlive(g)
	runtime.KeepAlive(names)
	return int(math.Round((float64(after) - float64(before)) / float64(n)))
}

// clock is the given clock. One goroutine uses it.
type clock struct{ now int64 }

// liveHeap returns the bytes that are in use. What has a finalizer, or lies in a
// pool, is freed by the second collection only.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func register(g *leapgate.Gate, _ *clock, names []string) {
	for _, name := range names {
		g.Resource(name)
	}
}

func callOnce(g *leapgate.Gate, c *clock, names []string) {
	for _, name := range names {
		e, err := g.Entry(name)
		if err != nil {
			panic(err)
		}
		c.now += int64(time.Microsecond)
		e.Exit()
	}
}

const (
	tick         = 100 * time.Microsecond
	callsPerTick = 10
	shortest     = 200 * time.Microsecond
	longest      = 300 * time.Millisecond
	spokes       = int(longest/tick) + 1
)

// keepBusy calls the resources in turn, ten calls a tick: with 500 of them, each
// is called 200 times a second. A call takes 200 µs to 300 ms; every doubling in
// between is equally likely. Calls overlap, as they do in a service, so that the
// clock need not go back to begin the next while one is in flight.
func keepBusy(g *leapgate.Gate, c *clock, names []string, lasting time.Duration) {
	random := rand.New(rand.NewPCG(1, 2)) // the same calls each time
	resources := make([]*resource.Resource, len(names))
	for i, name := range names {
		resources[i] = g.Resource(name)
	}
	// wheel holds the calls in flight by the tick in which they end.
	var wheel [spokes][]resource.Entry
	exit := func(t int) {
		due := &wheel[t%spokes]
		for i := range *due {
			(*due)[i].Exit()
		}
		*due = (*due)[:0]
	}

	ticks, k := int(lasting/tick), 0
	for t := range ticks {
		exit(t)
		for range callsPerTick {
			k = (k + 1) % len(resources)
			rt := float64(shortest) * math.Pow(float64(longest)/float64(shortest), random.Float64())
			spoke := &wheel[(t+int(rt/float64(tick)))%spokes]
			*spoke = append(*spoke, resource.Entry{})
			var err error
			if (*spoke)[len(*spoke)-1], err = resources[k].Entry(); err != nil {
				panic(err)
			}
		}
		c.now += int64(tick)
	}
	for t := ticks; t < ticks+spokes; t++ {
		exit(t)
		c.now += int64(tick)
	}
}
