// Package stat has the figures that a gate has of its resources and rules. They are plain
// values.
package stat

import (
	"time"

	"github.com/leapgate-go/leapgate/rule"
)

// Snapshot is the figures of one resource at one time. It is a plain value.
//
// The totals hold Exception ≤ Success ≤ Pass and Concurrency ≥ 0, however many
// calls come and go while they are read. The figures of a window are not ordered
// against each other: a call that began before it may end in it.
type Snapshot struct {
	Resource string
	At       time.Time // by the wall clock

	// Serial numbers the registrations of resources. If a resource is evicted and registered again, its
	// totals start from zero and it has a larger Serial. It is 0 if the resource is not registered.
	Serial int64

	// Per second, over the last second, the running tenth of it included: a steady
	// 50 reads between 45 and 50.
	PassQPS, BlockQPS, SuccessQPS, ExceptionQPS float64

	// Of the calls completed in the last second; 0 with none.
	AvgRT, MinRT time.Duration
	// Of the calls completed in the last eight to ten seconds, at most 4.4 % off; 0 with none. They are
	// counted in buckets of 2s: the running one and the four before it.
	P50, P95, P99 time.Duration

	// Concurrency is the number of calls in flight, and MaxConcurrency the most of the
	// last second. It is exact while their number rises, and otherwise it may be a little
	// below the truth, for a busy resource. It is never above it.
	Concurrency, MaxConcurrency int64

	// Waiting is the number of calls that wait now, before they begin: as often as each
	// counts, with WithCount. They are not in flight. P50, P95 and P99 of the waits are of
	// those that ended in the same time, at most 4.4 % off; 0 with none. MaxWaiting is the
	// most that waited at a time, in the running second of the clock and the one before.
	Waiting, MaxWaiting       int64
	WaitP50, WaitP95, WaitP99 time.Duration

	// Totals since the resource was registered.
	Pass, Block, Success, Exception, OccupiedPass int64
	// WouldBlock is how many of those that passed a rule in shadow mode would
	// have blocked.
	WouldBlock int64
	// Ignored is how many of those that succeeded, which means that they completed, say
	// nothing about the resource: their callers gave up, for instance.
	Ignored int64
	// Waits is how many calls have waited, and WaitTime how long together. A call that
	// waits for several rules is one, and so is one that gave up or was blocked after
	// it had waited. Response times begin when the wait is over: the caller saw both.
	Waits    int64
	WaitTime time.Duration

	// Rules are the figures of each rule that binds the resource, in the order in
	// which the rules are asked.
	Rules []RuleSnapshot
	// RuleSerials has a number for each of Rules. It stays the same as long as the rule keeps its counts
	// on the resource. A larger number means that the counts have started from zero, because the rule
	// was removed and loaded again, or its resource evicted.
	RuleSerials []int64
}

// RuleSnapshot is the figures of one rule on one resource. The counts begin when
// the rule was first loaded, and go on whatever is changed of it, but its ID and the
// resource. They end when the resource is evicted. Admitted begins anew with a new window.
type RuleSnapshot struct {
	ID, Kind   string
	Mode       rule.Mode
	Threshold  float64       // as it was loaded
	Effective  float64       // what holds now: less than Threshold while warming up, or short of memory
	Interval   time.Duration // in which the threshold is admitted; 0 for rules without
	Admitted   int64         // what the rule admitted, less what it was given back
	Used       int64         // what of Effective is used now, in its window or in flight; negative if that is not counted
	Blocked    int64         // what the rule blocked
	WouldBlock int64         // what the rule would have blocked, had it not been in shadow mode

	// Candidate is the threshold that is tried beside the live one, 0 if there is
	// none, and CandidateWouldBlock what it would have blocked.
	Candidate           float64
	CandidateWouldBlock int64

	// Missing is how many calls had not the argument that the rule is about, and Values how many
	// values of it are counted now. If every call is missing it, the rule does nothing: calls do
	// not name the argument, or name it otherwise.
	Missing int64
	Values  int

	// Busiest are the values that calls came with most often, and RefusedMost those that were
	// refused most, or would have been in mode shadow: most first, and empty unless the rule
	// wants them.
	Busiest, RefusedMost []ValueCount

	// Shed is what the rule blocked, by criticality, if it goes by that.
	Shed ByCriticality

	// LastRefusal is the last one by this rule. It is zero if there was none. Of more
	// than 64 in a millisecond, it is the 64th.
	LastRefusal Refusal

	// State is what the rule is in, such as "open", and States all that it can be in. They
	// are empty if there is only one thing that it does. Since is when the last change was,
	// zero if there was none; Changes is how many there were, and LastChanges are the last
	// 16 of them, oldest first. They go on when the rule is changed.
	// SharedState is whether there is one State for all resources that the rule binds: then Changes
	// must not be added up over them.
	State       string
	States      []string
	Since       time.Time
	Changes     int64
	LastChanges []Change
	SharedState bool
}

// ValueCount is a value of an argument, and how many calls came with it. It is a plain value.
type ValueCount struct {
	// Value is as the caller sent it: escape it before it is shown. Values of several arguments are in quotes as
	// Go has them, with commas between them.
	Value string
	// Count is how many calls there were, at most. Count − Excess there were for certain. A
	// value that was tracked from its first call on has an Excess of 0.
	Count, Excess int64
}

// ByCriticality is a number of calls by how much they matter; see WithCriticality of package
// leapgate.
type ByCriticality struct{ Critical, Default, Sheddable, Background int64 }

// Sum is how many calls there are.
func (n ByCriticality) Sum() int64 { return n.Critical + n.Default + n.Sheddable + n.Background }

// Change is a rule on a resource going over from one state to another. It is a plain value.
type Change struct {
	At                     time.Time // by the wall clock
	Resource, Kind, RuleID string
	From, To               string // the states
	Reason                 string // for people, with the numbers; at most 256 bytes
	// Skipped is how many changes there were between From and To that are not told one by
	// one, because too many waited for an OnChange that is slow; 0 in a snapshot. From and To
	// may then be the same.
	Skipped int64
}

// Refusal is one refusal of a call.
type Refusal struct {
	At         time.Time     // by the wall clock
	Origin     string        // the caller, if it was named
	Observed   float64       // what was held against the threshold, the refused call included
	Threshold  float64       // what the rule admitted at that time
	Because    string        // what the error said before the numbers: "cpu 0.94 of 0.90"
	Detail     string        // what it said behind them: " in flight"
	RetryAfter time.Duration // as the caller was told
}

// Second is what happened in one second of the clock.
type Second struct {
	Start                           int64 // nanoseconds on the axis of now
	Pass, Block, Success, Exception int64
	AvgRT                           time.Duration // 0 with no completed calls
	MaxConcurrency                  int64         // the most calls in flight, as in a Snapshot
}
