package breaker

import (
	"cmp"
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/rule"
)

// Rule is a breaker on one resource, or on each of those that match a pattern. It is a plain
// value; loading copies it.
type Rule struct {
	// ID names the rule in errors and snapshots. It must be unique among the breaker rules of
	// a gate, and at most 1,040 bytes. If it is empty, it becomes "resource/1" for the first
	// rule of the resource, "resource/2" for the second. What a breaker remembers stays with
	// its ID when rules are loaded.
	ID string

	// Resource is the name of the resource, 1 to 1,024 bytes, or the pattern that names must
	// match. With Match Default or All it is empty, or "*".
	Resource string
	// Match is Exact, which is the default, or what type of pattern Resource is. Every
	// resource that matches has a breaker of its own.
	Match rule.Match

	// Interval is the window of the results that are judged: 1 ms to 24 h; 0 is 10 s. A
	// result counts from the end of its call on. Up to 17,000,000,000 results in the window
	// are counted exactly, and 1,000,000,000 bad ones.
	Interval time.Duration
	// Buckets is how many buckets the window has: 1 to 1,000; 0 is 10. Interval must divide
	// by it, and a bucket is at least 1 ms.
	Buckets int
	// MinCalls is how many results of calls there must be before anything opens the
	// breaker: 1 to 1,000,000,000; 0 is 10. For SlowRatio they are those that it is a ratio
	// of, and for all else successes and failures.
	MinCalls int64

	// Any of the next four that is set opens the breaker when it is reached. At least one
	// must be, unless Behavior is Throttle.

	// ErrorRatio is the share of failures among successes and failures: more than 0, at most
	// 1; 0 is none.
	ErrorRatio float64
	// SlowRatio is the share of slow calls: more than 0, at most 1; 0 is none. A call is slow
	// that took longer than SlowAfter, whatever its outcome, or has been in flight for longer.
	// Ignored calls count only if they were slow.
	SlowRatio float64
	// ErrorCount is how many failures there are in the window: 1 to 1,000,000,000; 0 is none.
	ErrorCount int64
	// Consecutive is how many failures come one after the other, over any time: 1 to
	// 1,000,000,000; 0 is none. A success ends the row; ignored calls do not count.
	Consecutive int64

	// SlowAfter is how long a call may take that is not slow, up to 24 h. It goes with
	// SlowRatio, which needs it. Up to 4,000,000 calls in flight that began within a tenth of it are
	// counted exactly, provided that their counts (see WithCount of package leapgate) add up to less than
	// 2^40. 2^20 calls of the largest count reach that sum.
	SlowAfter time.Duration

	// OpenFor is how long the breaker is open: 1 ms to 24 h; 0 is 5 s. The next call after
	// that is a probe.
	OpenFor time.Duration
	// MaxOpenFor is how long the breaker is open at most: OpenFor to 24 h; 0 is OpenFor. If
	// probes fail, each opening lasts twice as long as the one before, up to this. That is
	// forgotten when the breaker has stayed closed for as long as it was last open.
	MaxOpenFor time.Duration

	// Probes is how many calls are admitted in the half-open state, and decide: 1 to 1,000; 0
	// is 3.
	Probes int64
	// ProbeTimeout is how long a probe may take: 1 ms to 24 h; 0 is OpenFor. One that takes
	// so long counts as bad, and its end does not count any more.
	ProbeTimeout time.Duration

	// Ramp is how long it takes, after probes have closed the breaker, until all calls are
	// admitted again: 1 ms to 24 h; 0 lets all in at once. It begins with a tenth of them.
	// Meanwhile the breaker needs that share of MinCalls to open again.
	Ramp time.Duration

	// Behavior is Break, which is the default, or Throttle. What stands above, from
	// ErrorRatio on, means nothing with Throttle, and K and MaxReject nothing with Break.
	Behavior Behavior
	// K is how many requests there may be for each that succeeds before Throttle refuses any:
	// 1 to 1,000; 0 is 2.
	K float64
	// MaxReject is the largest share of calls that Throttle refuses: more than 0, at most 1;
	// 0 is 0.9.
	MaxReject float64

	// Force is the operator's switch: None, which is the default, Open or Closed.
	Force Force

	// Mode is Enforce, which is the default, Shadow or Off. In mode Shadow the breaker goes
	// through its states by itself: what it would have blocked runs, and does not count.
	Mode rule.Mode

	// Source is where the rule came from: the rule file that owns it, or nothing, if the
	// program made it. It changes nothing about the rule.
	Source string
}

// countsErrors reports whether the rule goes by failures, and not by slow calls alone.
func (r *Rule) countsErrors() bool {
	return r.ErrorRatio > 0 || r.ErrorCount > 0 || r.Consecutive > 0 || r.Behavior == Throttle
}

// maxOpenFor is the length of the longest opening. It is not filled in, so that an edit of
// OpenFor alone gets what the zero stands for.
func (r *Rule) maxOpenFor() time.Duration { return cmp.Or(r.MaxOpenFor, r.OpenFor) }

func (r *Rule) probeTimeout() time.Duration { return cmp.Or(r.ProbeTimeout, r.OpenFor) }

// openFor is how long the n-th opening in a row lasts.
func (r *Rule) openFor(n int) time.Duration {
	length := r.OpenFor
	for ; n > 1 && length < r.maxOpenFor(); n-- {
		length *= 2 // at most 48 h
	}
	return min(length, r.maxOpenFor())
}

// Behavior is what a breaker does when calls fail.
type Behavior uint8

var behaviors = enum.Enum[Behavior]{What: "behavior", Names: []string{"break", "throttle"}}

// String is the behavior's name: "break", "throttle".
func (b Behavior) String() string { return behaviors.String(b) }

// MarshalText returns the behavior's name.
func (b Behavior) MarshalText() ([]byte, error) { return behaviors.Marshal(b) }

// UnmarshalText reads a behavior's name.
func (b *Behavior) UnmarshalText(text []byte) error { return behaviors.Unmarshal(text, b) }

// The behaviors.
const (
	Break    Behavior = iota // refuses all calls for a while, then tries with a few
	Throttle                 // refuses a share of the calls that grows with that of failures
)

// Force is an operator's switch over a breaker.
type Force uint8

var forces = enum.Enum[Force]{What: "force", Names: []string{"none", "open", "closed"}}

// String is the switch's name: "none", "open", "closed".
func (f Force) String() string { return forces.String(f) }

// MarshalText returns the switch's name.
func (f Force) MarshalText() ([]byte, error) { return forces.Marshal(f) }

// UnmarshalText reads a switch's name.
func (f *Force) UnmarshalText(text []byte) error { return forces.Unmarshal(text, f) }

// The switches.
const (
	// None lets the breaker decide.
	None Force = iota
	// Open refuses all calls, and takes no results. Back at None, the next call is a probe.
	Open
	// Closed admits all calls, and takes their results. Back at None, the breaker is closed
	// and judged by them at once.
	Closed
)

// Those that stand in the documentation of [Rule].
const (
	defaultInterval  = 10 * time.Second
	defaultBuckets   = 10
	defaultMinCalls  = 10
	defaultOpenFor   = 5 * time.Second
	defaultProbes    = 3
	defaultK         = 2
	defaultMaxReject = 0.9

	minSpan    = time.Millisecond // of most durations, and of a bucket
	maxSpan    = 24 * time.Hour
	maxBuckets = 1000
	maxCalls   = 1_000_000_000
	maxProbes  = 1000
	maxK       = 1000
)
