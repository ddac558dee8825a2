package limit

import (
	"math"
	"time"
)

// Decision is the answer of a limiter. It is a plain value.
type Decision struct {
	Allowed bool

	// Degraded is set if the decision was made without the state that is shared with
	// other processes, because that could not be reached. The limiters of this package
	// never set it.
	Degraded bool
	// Crowded is set if all MaxKeys were taken by other keys, so that this one has no
	// count of its own: see [Deny] and [Share].
	Crowded bool
	// Unavailable is set if the call was refused for want of something to count with,
	// and not because the key has used up its limit: new keys are denied while all MaxKeys
	// are taken, or calls are denied while no server answers. Over HTTP that is a 503, not
	// a 429. It goes with Crowded or with Degraded.
	Unavailable bool
	// WouldRefuse is set if the call was admitted only because the limiter is in mode Shadow.
	// RetryAfter is then what the refusal would have said. With [All], it is that of any.
	WouldRefuse bool

	generation generation // of the count that was charged: its key may have been forgotten since

	// Name is the limit that decided: Config.Name. With [All], it is the one that
	// refused, or if none did the one with the least Remaining.
	Name string
	// Limit is the one that the call was decided under. It is [Exempt] (−1) where nothing is
	// refused: the key is exempt, or the limiter in mode Shadow or Off. Remaining is then
	// math.MaxInt64.
	Limit int64

	// Remaining is how many more would be admitted now: 0 to Limit, or with
	// [NewBurst] to Burst. What a settlement
	// has charged beyond the limit makes it no less than 0.
	Remaining int64

	// RetryAfter is how long from now the same call would pass if nobody else came: it
	// is not refused then, and it is a nanosecond earlier. It is 0 if it was allowed, but for
	// WouldRefuse, and [Never] if it cannot pass. If Crowded, it is a time by which there is
	// room for the key if nobody else comes; there may be before.
	RetryAfter time.Duration

	// MoreAfter is how long from now no more than Remaining can be used, even if all of it
	// is used at once: with a Remaining of 0, it is the wait for the next one. It is 0 if
	// that is not known. The limiters of this package set it when nothing remains, and
	// with what takes nothing, Peek and AllowN of 0, if anything is held; an admission
	// pays nothing for it. It is [Never] where nothing ever passes.
	MoreAfter time.Duration

	// ResetAfter is how long from now the key has all of Limit again if nobody uses it;
	// 0 if it has. With [All], it is the longest.
	ResetAfter time.Duration

	// Charged is how much was taken: n if allowed and counted, else 0; with AllowAtMost it may
	// be less. With [All], it is the most that any limit took.
	Charged int64
	// Ticket is where the limiter has charged it. Refund and Settle need it, and
	// what a decision holds besides: pass them the decision as it was returned. It means
	// nothing to others.
	Ticket int64

	parts *part // what the limits of a Group decided, in the order of asking, if charged
}

// generation is that of a [keys.Node], in as many bytes as it needs.
type generation [3]byte

// uncounted is no generation: it marks what no limit has counted, so that nothing is
// settled either.
var uncounted = generation{0xff, 0xff, 0xff}

func generationOf(g uint32) generation { return generation{byte(g), byte(g >> 8), byte(g >> 16)} }

// unlimited is the answer where nothing is counted.
func unlimited(name string) Decision {
	return Decision{Allowed: true, Name: name, Limit: Exempt, Remaining: math.MaxInt64, generation: uncounted}
}

// overlook makes what was decided into what a caller gets in mode Shadow.
func (d *Decision) overlook() {
	if !d.Allowed {
		d.Allowed, d.WouldRefuse, d.Unavailable, d.generation = true, true, false, uncounted
	}
	d.Limit, d.Remaining, d.ResetAfter = Exempt, math.MaxInt64, 0
}
