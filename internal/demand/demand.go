// Package demand estimates what a limit would have refused, from how many calls came in each
// second.
//
// What a window refuses depends on where in their seconds the calls lay, which is not kept. So
// the hour is played many times with calls that lie in one way or another: as evenly, or as much in
// clumps, as the seconds suggest. The answer is a range.
package demand

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Window is that of a rule that refuses what is beyond its limit.
type Window struct {
	Interval time.Duration // at least 1 s
	Buckets  int
	Strict   bool
}

// Range is a number that is not known exactly.
type Range struct{ Likely, Low, High int64 }

// IsWide reports whether so much is not known that Likely says little.
func (r Range) IsWide() bool {
	return r.Likely > many && float64(r.High-r.Low) > wide*float64(r.Likely)
}

const (
	many = 100
	wide = 0.2
)

const (
	second = int64(time.Second)

	// finest is the shortest bucket that is played. Shorter ones are joined, which bounds what an answer
	// costs: the window is played a bit too short and a bit too long, by turns.
	finest = 10 * time.Millisecond

	// late is how long after its end a second may be read.
	late = 20 * time.Millisecond

	plays = 6 // with each spread

	// few is how many calls for each bucket of a second are placed one by one. Of more, how many come into
	// a bucket is drawn.
	few = 3

	// least is how far Low and High are from what was played at least, as a share of it.
	least = 0.02

	// sure is how many standard deviations of what was played Low and High are away.
	sure = 2.4

	// paced is what seconds differ by at most where calls are paced. What is refused of them depends on
	// the least that they are away from the limit: on one call in exact.
	paced = 0.8
	exact = 200

	// clumped is what they differ by at least where calls come in clumps, which may differ from each other.
	clumped = 1.1
)

// Calls are those that came, by the second.
type Calls struct {
	First     int64 // the first second, of Unix time
	PerSecond []int64
	// Warm is how many seconds at the beginning only fill the window: what is refused of them is not
	// counted.
	Warm int
	// Shaped is whether something has let them pass that may have made them even.
	Shaped bool
}

// A spread is how much the number of calls in a short time varies, as a share of how much it would if
// they knew nothing of each other: 0 of calls that are evenly paced, 1 of those that come at random,
// and more of those that come in clumps.

// likely is the spread of most that was recorded: every twentieth call comes with the one before.
const likely = 1.08

// spreads returns the spreads that are played, the likely one in the middle. How much seconds differ from the
// ones after them bounds how much shorter times may.
func (c *Calls) spreads() (spreads [3]float64) {
	var squares, calls float64
	for i := 1; i < len(c.PerSecond); i++ {
		difference := float64(c.PerSecond[i] - c.PerSecond[i-1])
		squares += difference * difference
		calls += float64(c.PerSecond[i] + c.PerSecond[i-1])
	}
	between := squares / max(calls, 1)
	if between < paced {
		spreads = [...]float64{between / 2, between, min(1, 2*between)}
	} else {
		spreads = [...]float64{min(1, between), likely, likely}
	}
	if between > clumped {
		spreads[2] = min(1.25*between, 3)
	}
	if c.Shaped {
		spreads[0] = 0
	}
	return spreads
}

// Refused returns how many of the calls a window with a limit would have refused. The same
// question always gets the same answer.
func Refused(c Calls, w Window, limit int64) Range {
	calls := int64(0)
	for _, n := range c.PerSecond[min(c.Warm, len(c.PerSecond)):] {
		calls += n
	}
	if limit <= 0 {
		return Range{calls, calls, calls}
	}
	players := [...]*player{newPlayer(w, limit, 0), newPlayer(w, limit, 1)}
	var means [3]float64
	variance := 0.0
	spreads := c.spreads()
	for i, spread := range spreads {
		rng := rand.New(rand.NewPCG(0, uint64(i))) //nolint:gosec // no secret
		var sum, squares float64
		for k := range plays {
			refused := float64(players[k%2].play(c, spread, rng))
			sum += refused
			squares += refused * refused
		}
		means[i] = sum / plays
		variance += max(0, squares-sum*sum/plays) / float64(len(spreads)*(plays-1))
	}
	expected, low, high := means[1], slices.Min(means[:]), slices.Max(means[:])
	if high > 0 {
		margin := max(1, sure*math.Sqrt(variance))
		if spreads[1] < paced {
			margin += float64(calls) / exact
		}
		low, high = min(low-margin, (1-least)*expected), max(high+margin, (1+least)*expected)
	}
	return Range{int64(math.Round(expected)), int64(max(0, math.Floor(low))), min(int64(math.Ceil(high)), calls)}
}

// player plays a window.
type player struct {
	limit  int64
	length int64   // of a bucket, in nanoseconds
	ring   []int64 // what the buckets admitted
	newest int64   // the number of the newest bucket
	held   int64   // in the ring

	refused int64
	placed  []int64 // calls in the buckets of a second
}

// newPlayer makes the player of a window. One whose buckets are joined is a bit too short, or with
// longer of 1 too long.
func newPlayer(w Window, limit int64, longer int) *player {
	p := &player{limit: limit, length: int64(w.Interval) / int64(w.Buckets)}
	buckets := w.Buckets
	if w.Strict {
		buckets++
	}
	if joined := int(int64(finest) / p.length); joined > 1 {
		p.length *= int64(joined)
		buckets = buckets/joined + longer
	}
	p.ring = make([]int64, buckets)
	return p
}

// play returns what is refused of calls that lie in their seconds in one way.
func (p *player) play(c Calls, spread float64, rng *rand.Rand) int64 {
	clear(p.ring)
	p.held, p.refused, p.newest = 0, 0, 0
	// Buckets are aligned. What number they have does not matter.
	begin := c.First * second % p.length
	if begin < 0 {
		begin += p.length
	}
	begin += rng.Int64N(int64(late))
	phase := rng.Float64()
	for i, calls := range c.PerSecond {
		if i == c.Warm {
			p.refused = 0
		}
		if calls > 0 {
			p.place(begin+int64(i)*second, calls, spread, phase, rng)
		}
	}
	return p.refused
}

// place has calls come within the second that begins at a time. Those that are evenly placed begin at a
// phase of the time between two of them.
func (p *player) place(begin, calls int64, spread, phase float64, rng *rand.Rand) {
	end := begin + second
	bucket, last := begin/p.length, (end-1)/p.length
	if bucket == last {
		p.come(bucket, calls)
		return
	}
	if calls > few*(last-bucket+1) {
		// The share of each bucket is drawn from what is left.
		for at := begin; bucket < last; bucket++ {
			until := (bucket + 1) * p.length
			share := float64(until-at) / float64(end-at)
			mean := share * float64(calls)
			n := math.Round(mean + rng.NormFloat64()*math.Sqrt(spread*mean*(1-share)))
			n = min(max(n, 0), float64(calls))
			p.come(bucket, int64(n))
			calls -= int64(n)
			at = until
		}
		p.come(last, calls)
		return
	}
	if p.placed == nil {
		p.placed = make([]int64, second/p.length+2)
	}
	placed := p.placed[:last-bucket+1]
	clear(placed)
	clumps := (spread - 1) / (spread + 1) // the share of calls that come with the one before
	var in int64
	for i := range calls {
		switch {
		case spread < 1 && rng.Float64() >= spread:
			in = (begin + int64((float64(i)+phase)/float64(calls)*float64(second))) / p.length
		case i == 0 || spread <= 1 || rng.Float64() >= clumps:
			in = (begin + rng.Int64N(second)) / p.length
		}
		placed[in-bucket]++
	}
	for i, calls := range placed {
		if calls > 0 {
			p.come(bucket+int64(i), calls)
		}
	}
}

// come has calls come in a bucket, which is none before the newest.
func (p *player) come(bucket, calls int64) {
	n := int64(len(p.ring))
	if bucket >= p.newest+n {
		clear(p.ring)
		p.held, p.newest = 0, bucket
	}
	for p.newest < bucket {
		p.newest++
		p.held -= p.ring[p.newest%n]
		p.ring[p.newest%n] = 0
	}
	admitted := max(0, min(calls, p.limit-p.held))
	p.ring[bucket%n] += admitted
	p.held += admitted
	p.refused += calls - admitted
}
