package limit

import "time"

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

	generation uint32 // of the count that was charged: its key may have been forgotten since

	// Name is the limit that decided: Config.Name. With [All], it is the one that
	// refused, or if none did the one with the least Remaining.
	Name  string
	Limit int64 // of that name

	// Remaining is how many more would be admitted now: 0 to Limit. What a settlement
	// has charged beyond the limit makes it no less than 0.
	Remaining int64

	// RetryAfter is how long from now the same call would pass if nobody else came: it
	// is not refused then, and it is a nanosecond earlier. It is 0 if it was allowed,
	// and [Never] if it cannot pass. If Crowded, it is a time by which there is
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

	// Charged is how much was taken: n if allowed, else 0.
	Charged int64
	// Ticket is where the limiter has charged it. Refund and Settle need it, and
	// what a decision holds besides: pass them the decision as it was returned. It means
	// nothing to others.
	Ticket int64

	parts *part // what the limits of a Group decided, in the order of asking, if charged
}
