// Package bench measures Leapgate beside floors and peers, through one harness:
// a [Case] is made once, and each worker runs its operations in a loop.
//
// The floors are what the machine asks for the least that an operation must do;
// figures are told as ratios to them, because nanoseconds depend on the machine,
// on its neighbours, and on the hour.
package bench

import (
	"slices"
	"sync/atomic"
	"time"
)

// Case is one thing to measure.
type Case struct {
	Name string
	// Floor names the case to divide by, empty for floors.
	Floor string
	// Near names the case of Leapgate that comes nearest, for peers.
	Near string
	// Make builds what all workers share. It returns what makes a worker: a function
	// that runs the operation n times.
	Make func() (worker func() func(n int))
	// Races reports that two workers make a data race within the peer's own code.
	Races bool
}

// Cases are all of them, floors first.
var Cases = slices.Concat(floors, leapgateCases, breakerCases, nearestCases, peers, breakerPeers, keyedCases(), keyedRefusals, grpcCases)

// Find returns the case of that name.
func Find(name string) (Case, bool) {
	for _, c := range Cases {
		if c.Name == name {
			return c, true
		}
	}
	return Case{}, false
}

// The names of the floors.
const (
	FloorEntry       = "floor/entry+exit"
	FloorClock       = "floor/clock"
	FloorByName      = "floor/entry+exit+map"
	FloorClockByName = "floor/clock+map"
	FloorAdd         = "floor/atomic add, own line"
)

var (
	base = time.Now()
	sink atomic.Int64 // keeps results alive
)

// own is counters on a cache line of the worker's own.
type own struct {
	_ [64]byte
	n [3]atomic.Int64
	_ [64]byte
}

var floors = []Case{
	{
		// An entry and its exit read the clock twice and add to three counters: the
		// pass, the response time, and the success.
		Name: FloorEntry,
		Make: func() func() func(int) {
			return func() func(int) {
				c := new(own)
				return func(n int) {
					for range n {
						start := time.Since(base)
						c.n[0].Add(1)
						rt := time.Since(base) - start
						c.n[1].Add(int64(rt))
						c.n[2].Add(1)
					}
				}
			}
		},
	},
	{
		Name: FloorByName,
		Make: func() func() func(int) {
			names := resourceNames(1000)
			byName := make(map[string]int, len(names))
			for i, name := range names {
				byName[name] = i
			}
			return func() func(int) {
				c := new(own)
				mine := 0
				return func(n int) {
					k := mine
					for range n {
						k = next(k, len(names))
						found := byName[names[k]]
						start := time.Since(base)
						c.n[0].Add(1)
						rt := time.Since(base) - start
						c.n[1].Add(int64(rt) + int64(found&1))
						c.n[2].Add(1)
					}
					mine = k
				}
			}
		},
	},
	{
		Name: FloorClock,
		Make: shared(func(n int) {
			var sum time.Duration
			for range n {
				sum += time.Since(base)
			}
			sink.Store(int64(sum))
		}),
	},
	{
		Name: FloorClockByName,
		Make: func() func() func(int) {
			names := resourceNames(1000)
			byName := make(map[string]int, len(names))
			for i, name := range names {
				byName[name] = i
			}
			return walking(len(names), func(n, k int) int {
				var sum int64
				for range n {
					k = next(k, len(names))
					sum += int64(time.Since(base)) + int64(byName[names[k]])
				}
				sink.Store(sum)
				return k
			})
		},
	},
	{
		Name: "floor/time.Now",
		Make: shared(func(n int) {
			var sum int
			for range n {
				sum += time.Now().Nanosecond()
			}
			sink.Store(int64(sum))
		}),
	},
	{
		Name: FloorAdd,
		Make: func() func() func(int) {
			return func() func(int) {
				c := new(own)
				return func(n int) {
					for range n {
						c.n[0].Add(1)
					}
				}
			}
		},
	},
	{
		Name: "floor/atomic add, shared line",
		Make: func() func() func(int) {
			c := new(own)
			return shared(func(n int) {
				for range n {
					c.n[0].Add(1)
				}
			})()
		},
	},
}

// shared makes workers that are all the same function.
func shared(run func(n int)) func() func() func(int) {
	return func() func() func(int) {
		return func() func(int) { return run }
	}
}

// walking makes workers that walk the indices below size with [next], each from another one on. run
// goes n steps on from k, which shares its line with nobody on the stack, and returns where it is.
func walking(size int, run func(n, k int) int) func() func(int) {
	k := 0
	return func() func(int) {
		k = (k + 311) % size // workers do not walk in step
		mine := k
		return func(n int) { mine = run(n, mine) }
	}
}

// next walks the indices below size in an order that no cache foresees.
func next(k, size int) int { return (k + 617) % size }
