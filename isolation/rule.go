// Package isolation limits how many calls are in flight.
//
// With a [Rule], a resource has a number of places. A call takes one when it enters, or
// as many as it counts, and the entry that took them gives them back when it exits,
// whatever rules were loaded meanwhile. Never are more taken than there are.
//
// # Adaptive rules
//
// How many calls a resource can work on at once, nobody knows for long: machines differ, and so
// do calls. A rule with [Strategy] Adaptive finds out. While calls take as long as they do without a
// queue, its limit rises; when they take longer, it falls, between MinInFlight and MaxInFlight:
//
//	{Resource: "GET /search", Strategy: isolation.Adaptive, MaxInFlight: 200}
//
// It goes by the mean of at least a hundred calls that began and succeeded in a window of at least
// 100 ms. How long they take without a queue is measured every 30 s, or when they have become much
// slower, but only while the limit keeps calls out: it is halved for half a second or longer. What is
// still as slow then is slow for another reason, such as a dependency, and the limit makes room for
// it. To prevent that, set MaxRT.
//
// Things to know:
//
//   - At three times what a service can do, it does at least 0.95 of that, and the calls that are let in take
//     at most twice as long as in an empty service, at the 99th percentile: simulated with 2 to 100 servers
//     and three shapes of times. In the first ten seconds after a step of the load it is up to five times as
//     long, with two servers, and up to twelve times if three quarters of the servers are lost.
//   - A limit of which less than half is used does not move, and one that keeps out less than a tenth
//     of the calls does not fall.
//   - Failures do not count: they may be quick. If calls fail because they are slow, a breaker
//     helps, or a MaxRT that is shorter than their time-out.
//   - Windows in which the container was throttled do not count; after five in a row they do.
//   - In mode Shadow the limit is computed from the calls that it would let in. It is what the
//     rule would begin with: since nobody is kept out, nothing is measured.
//   - The state is "rising", "falling" or "steady", "measuring", "floor" or "ceiling" when the limit cannot move,
//     and "slow" above MaxRT. A change has the numbers in its reason. Effective of the snapshot is the limit.
package isolation

import (
	"cmp"
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/rule"
)

// Rule limits the calls in flight of one resource, or of each of those that match a
// pattern. It is a plain value; loading copies it.
type Rule struct {
	// ID names the rule in errors and snapshots. It must be unique among the
	// isolation rules of a gate, and at most 1,040 bytes. If it is empty, it becomes
	// "resource/1" for the first rule of the resource, "resource/2" for the second.
	ID string

	// Resource is the name of the resource, 1 to 1,024 bytes, or the pattern that
	// names must match. With Match Default or All it is empty, or "*".
	Resource string
	// Match is Exact, which is the default, or what type of pattern Resource is. Every
	// resource that matches has places of its own.
	Match rule.Match

	// MaxInFlight is how many calls may be in flight: 1 to 1,000,000,000. A call
	// that counts n takes n places. With Strategy Adaptive it is the largest limit.
	MaxInFlight int64

	// Strategy is how the limit comes about: Fixed, which is the default, or Adaptive. What
	// follows, up to MaxRT, is for Adaptive.
	Strategy Strategy
	// MinInFlight is the smallest limit: 1 to MaxInFlight; 0 is 4, or MaxInFlight if that is
	// less. Whatever happens, so many calls get in: it should be no more than the resource can
	// work on at once.
	MinInFlight int64
	// InitialInFlight is the limit to begin with: MinInFlight to MaxInFlight; 0 is 20, or the
	// one of them that is nearest.
	InitialInFlight int64
	// Tolerance is how much longer calls may take on average than without a queue, before the
	// limit falls: more than 0, at most 10; 0 is 0.25, a quarter longer.
	Tolerance float64
	// MaxRT is the longest mean time that is normal, for whatever reason: up to 24 h; 0 is
	// none. While calls take longer, the limit falls, and the resource is not measured.
	MaxRT time.Duration

	// MaxWait is how long a call may wait for a free place: 0, which is the default
	// and means not at all, to 24 h. Calls that wait are served in order of arrival. A call whose
	// context has a deadline that comes before its turn would, as fast as places came free for
	// those that waited in the last 10 s, is refused at once.
	MaxWait time.Duration

	// MaxQueue is how many calls may wait at once, whatever they count: 1 to
	// 1,000,000; 0 is 1,000. A call that comes when so many wait is blocked at once. It goes
	// with MaxWait only.
	MaxQueue int

	// Mode is Enforce, which is the default, Shadow or Off. A rule in mode Shadow
	// makes no call wait: what finds no place at once counts as would-block.
	Mode rule.Mode

	// Source is where the rule came from: the rule file that owns it, or nothing,
	// if the program made it. It changes nothing about the rule.
	Source string
}

// MaxInFlight is the largest MaxInFlight of a [Rule]: as good as no limit.
const MaxInFlight = 1_000_000_000

// The other bounds and defaults of a [Rule].
const (
	maxMaxWait      = 24 * time.Hour
	maxMaxQueue     = 1_000_000
	defaultMaxQueue = 1000

	defaultMinInFlight     = 4
	defaultInitialInFlight = 20
	defaultTolerance       = 0.25
	maxTolerance           = 10
	maxMaxRT               = 24 * time.Hour
)

// maxQueue is how many calls may wait at once.
func (r *Rule) maxQueue() int {
	if r.MaxQueue == 0 {
		return defaultMaxQueue
	}
	return r.MaxQueue
}

// minInFlight is the smallest limit of an adaptive rule.
func (r *Rule) minInFlight() int64 {
	return min(cmp.Or(r.MinInFlight, defaultMinInFlight), r.MaxInFlight)
}

// initialInFlight is the limit that an adaptive rule begins with.
func (r *Rule) initialInFlight() int64 {
	return min(max(cmp.Or(r.InitialInFlight, defaultInitialInFlight), r.minInFlight()), r.MaxInFlight)
}

func (r *Rule) tolerance() float64 { return cmp.Or(r.Tolerance, defaultTolerance) }

// Strategy is how the limit of a rule comes about.
type Strategy uint8

var strategies = enum.Enum[Strategy]{What: "strategy", Names: []string{"fixed", "adaptive"}}

// String is the strategy's name: "fixed", "adaptive".
func (s Strategy) String() string { return strategies.String(s) }

// MarshalText returns the strategy's name.
func (s Strategy) MarshalText() ([]byte, error) { return strategies.Marshal(s) }

// UnmarshalText reads a strategy's name.
func (s *Strategy) UnmarshalText(text []byte) error { return strategies.Unmarshal(text, s) }

// The strategies.
const (
	// Fixed is MaxInFlight, always.
	Fixed Strategy = iota
	// Adaptive finds the limit by how long calls take.
	Adaptive
)
