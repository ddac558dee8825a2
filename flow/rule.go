// Package flow limits how many calls pass per time.
//
// A [Rule] names a resource and admits up to a threshold of calls in a sliding
// window. It counts its own admissions, exactly: the answer to a call is the
// count, so that no number of goroutines can pass between looking and counting.
// Several rules may bind one resource; a call passes if all admit it, and what
// those took that came before a refusal is given back.
package flow

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/rule"
)

// Rule limits the calls of one resource, or of each of those that match a pattern.
// It is a plain value; loading copies it.
type Rule struct {
	// ID names the rule in errors and snapshots. It must be unique among the flow
	// rules of a gate, and at most 1,040 bytes. If it is empty, it becomes
	// "resource/1" for the first rule of the resource, "resource/2" for the second.
	// What a rule has counted stays with its ID when rules are loaded: without one, a
	// rule that is put before it changes whose counts are whose.
	ID string

	// Resource is the name of the resource, 1 to 1,024 bytes, or the pattern that
	// names must match. With Match Default or All it is empty, or "*".
	Resource string
	// Match is Exact, which is the default, or what type of pattern Resource is. Every
	// resource that matches is counted by itself. Rules that name a resource exactly are
	// asked before those with patterns.
	Match rule.Match

	// Origin limits the rule to calls of one caller, as [resource.WithOrigin] names it;
	// or, if it is [OtherOrigins], to those of callers that no rule on the resource
	// names, whatever its mode; the unknown ones included. Empty: everyone. At most 1,024
	// bytes.
	Origin string

	// Threshold is how many calls are admitted per Interval, 0 or more. Reject
	// rounds it down: 0.9 blocks all, 1.5 admits one.
	Threshold float64

	// Candidate is a threshold that is tried beside the live one: it decides and
	// counts for itself about every call that the rule is asked about, and what
	// it would have blocked is in the snapshot. It blocks nothing. 0 is none.
	Candidate float64

	// Interval is the length of the window: 1 ms to 24 h; 0 is 1 s.
	Interval time.Duration

	// Buckets is how many buckets the window has: 1 to 1,000; 0 is 10. Interval
	// must divide by it, and a bucket is at least 1 ms. More of them let calls in
	// again more evenly, and cost memory: about 70 bytes each. With Pace there are none,
	// and any number will do.
	Buckets int

	// Strict bounds every interval of this length, wherever it begins. Without it,
	// the window of whole buckets is bounded: two bursts that are further apart
	// than Interval − Interval/Buckets may both pass. With it, calls leave the
	// window up to one bucket later: Interval to Interval + Interval/Buckets after they came,
	// where an exact count would let go of them after Interval. It goes with Reject only.
	//
	// On a clock of whole seconds, as when a log is replayed, that is rounded up to the next
	// second. With an Interval of 1 s a call then counts for 2 s, so that the rule admits half
	// of what an exact count would; with 10 s and 10 buckets, for 11 s. On such a clock a rule
	// whose buckets are as long as its ticks is exact without Strict: Buckets 1 for 1 s, 10
	// for 10 s.
	//
	// What is bounded is what the rule admits, which it does when a call comes. If another
	// rule lets the call wait after that, for a free place or for room that it borrowed, the
	// call begins later, perhaps with many others. To charge it then would mean to refuse
	// calls that have waited in vain. To have that, put the strict rule on a resource of
	// its own, which is entered when the wait is over.
	Strict bool

	// Mode is Enforce, which is the default, Shadow or Off.
	Mode rule.Mode

	// Strategy is how the threshold comes about: Direct, which is the default:
	// as it stands; WarmUp: it begins at Threshold / ColdFactor and rises with use;
	// MemoryAdaptive: it falls as the memory in use grows.
	Strategy Strategy

	// Behavior is what happens beyond the threshold: Reject, which is the default,
	// blocks. Pace lets calls pass one by one, Interval / Threshold apart, and
	// makes them wait for their turn; a call that counts more than Threshold never gets
	// one, so for less than one call a second make Interval longer.
	Behavior Behavior

	// MaxWait is how long a call may have to wait: 0 to 24 h. With Pace it is the
	// length of the queue in time; a call whose turn would come later is blocked at once,
	// and 0 makes none wait. Calls get their turns in order of arrival. If one gives up, those
	// behind it move up, and so they do when the threshold rises. No call waits longer than it was told, and
	// priority has no effect. With Reject only calls with
	// priority wait, for room that the oldest buckets will leave, at most Interval; 0 is
	// 500 ms or Interval, if that is shorter.
	MaxWait time.Duration

	// WarmUpPeriod is how long it takes from cold to warm under full use: 1 s to
	// 24 h. It is for WarmUp, which needs it.
	WarmUpPeriod time.Duration
	// ColdFactor is by how much the threshold is lower when the resource is cold:
	// more than 1, at most 1,000; 0 is 3. It is for WarmUp.
	ColdFactor float64

	// With MemoryAdaptive, Threshold holds up to LowMemory bytes in use, and
	// HighMemoryThreshold, which must be lower, from HighMemory bytes; in between
	// it falls in proportion. As long as the memory in use is not known, or the gate
	// has no Config.Memory, Threshold holds.
	HighMemoryThreshold   float64
	LowMemory, HighMemory int64

	// Associated is the name of another resource: then the rule blocks while that
	// passes more than Threshold per second, the call that asks included, and does not
	// count its own resource. It reads the other's statistics, so it is not exact, and
	// Interval must be 1 s, Strategy Direct and Behavior Reject.
	Associated string

	// Source is where the rule came from: the rule file that owns it, or nothing,
	// if the program made it. It changes nothing about the rule.
	Source string
}

// OtherOrigins is the Origin of a rule for the callers that no rule with the same
// resource names.
const OtherOrigins = "other"

// Strategy is how the threshold of a rule comes about.
type Strategy uint8

var strategies = enum.Enum[Strategy]{What: "strategy", Names: []string{"direct", "warm-up", "memory-adaptive"}}

// String is the strategy's name: "direct", "warm-up", "memory-adaptive".
func (s Strategy) String() string { return strategies.String(s) }

// MarshalText returns the strategy's name.
func (s Strategy) MarshalText() ([]byte, error) { return strategies.Marshal(s) }

// UnmarshalText reads a strategy's name.
func (s *Strategy) UnmarshalText(text []byte) error { return strategies.Unmarshal(text, s) }

// The strategies.
const (
	Direct Strategy = iota
	WarmUp
	MemoryAdaptive
)

// Behavior is what a rule does beyond its threshold.
type Behavior uint8

var behaviors = enum.Enum[Behavior]{What: "behavior", Names: []string{"reject", "pace"}}

// String is the behavior's name: "reject", "pace".
func (b Behavior) String() string { return behaviors.String(b) }

// MarshalText returns the behavior's name.
func (b Behavior) MarshalText() ([]byte, error) { return behaviors.Marshal(b) }

// UnmarshalText reads a behavior's name.
func (b *Behavior) UnmarshalText(text []byte) error { return behaviors.Unmarshal(text, b) }

// The behaviors.
const (
	Reject Behavior = iota
	Pace
)

// Bounds and defaults of rules that programs ask for which make rules of something else.
const (
	// MaxInterval is the longest Interval.
	MaxInterval = 24 * time.Hour
	// DefaultBuckets is how many Buckets a window has if the rule does not say.
	DefaultBuckets = 10
)

// Those that stand in the documentation of [Rule].
const (
	defaultInterval   = time.Second
	maxBuckets        = 1000
	minBucket         = time.Millisecond
	maxMaxWait        = 24 * time.Hour
	minWarmUpPeriod   = time.Second
	maxWarmUpPeriod   = 24 * time.Hour
	defaultColdFactor = 3
	maxColdFactor     = 1000

	// priorityWait is how long a call with priority waits for room if the rule does
	// not say.
	priorityWait = 500 * time.Millisecond
)
