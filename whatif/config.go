package whatif

import (
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/rulefile"
)

// Config says what is tried, and on what terms. The zero Config tries no rules, and still
// tells how busy the keys were.
//
// Up to 10,000,000 keys are told apart, and 10,000 resources besides those that rules name; the
// others are counted as one, and the report says so. A key takes some 50 bytes with one curve, some 80
// more with each limit and some 110 more with each rule per key. A rule on a resource takes up to 32 bytes for each
// request within its interval.
type Config struct {
	// Rules are asked as a gate asks them. Those in mode shadow refuse nobody here either;
	// the report has what they would have refused.
	Rules leapgate.Rules

	// Limits are limits per key by their names, as in the limits of a rule file. They are
	// asked before the rules, in the order of their names, and a request that one refuses
	// or that a rule refuses takes nothing from the others. Each needs a Limit and a Window,
	// and counts as [limit.NewCounter] does, or with a Burst as [limit.NewBurst].
	Limits map[string]rulefile.Limit

	// Arg is the name of the argument that the key of a request is for param rules; empty is
	// "client".
	Arg string

	// Resolution is how exact the times of the requests are: 0, which is exact, to a minute.
	// With 1 s, for logs with whole seconds, the requests of one second are spread evenly over
	// it, in a random order that Seed decides; and they are placed in three other ways, so
	// that the report has a range. A Source must yield requests of the same time in the same
	// order each time.
	Resolution time.Duration
	// OnePlacement leaves out those other ways, which takes a quarter of the time.
	OnePlacement bool

	// Retries is how often a request that was refused comes again: 0 to 100. It comes after
	// what the refusal tells it to wait, and at least 1 s after the first refusal, 2 s after the second,
	// and twice as long each time after that.
	Retries int

	// Seed decides everything that is random.
	Seed uint64

	// Windows are the lengths of time for which there is a [Curve]: 1 ms to 366 days. None are
	// those of the limits per key and of the param rules by Arg; if there are none, 1 minute.
	Windows []time.Duration
}
