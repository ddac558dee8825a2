// Package demand estimates what a limit would have refused, from how many calls came in each
// second.
//
// What a window refuses depends on where in their seconds the calls lay, which is not kept. So
// the hour is played many times with calls that lie at random, and clump together more or less,
// and the answer is a range.
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

const (
	second = int64(time.Second)

	// finest is the shortest bucket that is played. Shorter ones are joined: that changes the
	// length of the window by less than 1 %, and bounds what an answer costs.
	finest = 4 * time.Millisecond

	// late is how long after its end a second may be read.
	late = 20 * time.Millisecond

	plays = 8 // with each clumping

	// few is how many calls of a second are placed one by one. Of more, how many come into a
	// bucket is drawn.
	few = 64
)

// clumpings are the shares of calls that come together with the call before them: of calls that
// know nothing of each other, as is likely, and as of much that was recorded.
var clumpings = [...]float64{0, likely, 0.5}

const likely = 0.04

const (
	// least is how far Low and High are from what was played at least, as a share of it.
	least = 0.02

	// Of more calls than many, they are at most so far from Likely.
	many   = 100
	widest = 0.095
)

// Refused returns how many calls a window with a limit would have refused, when so many came
// in each second. The first second is that of this Unix time. The calls of the first warm
// seconds only fill the window: what they would have been refused is not counted. The same
// question always gets the same answer.
func Refused(first int64, perSecond []int64, warm int, w Window, limit int64) Range {
	p := newPlayer(w, limit)
	calls := int64(0)
	for _, n := range perSecond[min(warm, len(perSecond)):] {
		calls += n
	}
	if limit <= 0 {
		return Range{calls, calls, calls}
	}
	expected, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for i, clumping := range clumpings {
		rng := rand.New(rand.NewPCG(0, uint64(i))) //nolint:gosec // no secret
		var sum, squares float64
		for range plays {
			refused := float64(p.play(first, perSecond, warm, clumping, rng))
			sum += refused
			squares += refused * refused
		}
		mean := sum / plays
		margin := 3 * math.Sqrt(max(0, squares/plays-mean*mean))
		low, high = min(low, mean-margin), max(high, mean+margin)
		if clumping == likely {
			expected = mean
		}
	}
	if high > 0 {
		margin := max(1, least*expected)
		low, high = low-margin, high+margin
	}
	if expected > many {
		low, high = max(low, (1-widest)*expected), min(high, (1+widest)*expected)
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
	times   [few]int64 // of the calls that are placed
}

func newPlayer(w Window, limit int64) *player {
	p := &player{limit: limit, length: int64(w.Interval) / int64(w.Buckets)}
	buckets := w.Buckets
	if w.Strict {
		buckets++
	}
	if joined := int(int64(finest) / p.length); joined > 1 {
		p.length *= int64(joined)
		buckets = (buckets + joined/2) / joined
	}
	p.ring = make([]int64, buckets)
	return p
}

// play returns what is refused of calls that lie in their seconds in one way.
func (p *player) play(first int64, perSecond []int64, warm int, clumping float64, rng *rand.Rand) int64 {
	clear(p.ring)
	p.held, p.refused, p.newest = 0, 0, 0
	// Buckets are aligned. What number they have does not matter.
	begin := first * second % p.length
	if begin < 0 {
		begin += p.length
	}
	begin += rng.Int64N(int64(late))
	for i, calls := range perSecond {
		if i == warm {
			p.refused = 0
		}
		if calls > 0 {
			p.place(begin+int64(i)*second, calls, clumping, rng)
		}
	}
	return p.refused
}

// place has calls come within the second that begins at a time.
func (p *player) place(begin, calls int64, clumping float64, rng *rand.Rand) {
	end := begin + second
	bucket, last := begin/p.length, (end-1)/p.length
	if bucket == last {
		p.come(bucket, calls)
		return
	}
	if calls > few {
		// The share of each bucket is drawn from what is left, as if calls came in clumps.
		spread := (1 + clumping) / (1 - clumping)
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
	times := p.times[:calls]
	for i := range times {
		if i > 0 && rng.Float64() < clumping {
			times[i] = times[i-1]
		} else {
			times[i] = begin + rng.Int64N(second)
		}
	}
	slices.Sort(times)
	for _, at := range times {
		p.come(at/p.length, 1)
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
