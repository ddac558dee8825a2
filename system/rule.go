// Package system limits what a process takes in as a whole, by what the machine can take.
//
// All resources that a [Rule] binds share one state. With Match Glob and Resource "GET *" that
// is one side of a service, and with Match All everything. MaxInFlight and MaxQPS are exact over
// all of them. The other bounds are on signals, which Config.Load of the gate provides: package
// load has a sampler. A signal that is not known bounds nothing, and a value that is equal to its
// bound passes. A rule looks at its signals when a call comes, at most every 100 ms. It is in state
// "calm", or "full" while MaxInFlight or MaxQPS refuse calls, and for CoolOff after that.
//
// # Strategy Limit
//
// While a signal is above its bound, the rule finds how many calls may be in flight. It begins
// with 1.5 × the best rate × the least mean response time of the last minute, which it knows from
// seconds in which at least 50 calls succeeded; it is in state "limiting". With each sample that is
// above the bound the limit falls, by at most a tenth, but never below a third of that with which it began; the CPU
// must also have been above 0.97 in the sample itself. With each sample that is not, the limit
// becomes limit × 1.05 + 0.25 if anything was refused. It ends when nothing was refused for CoolOff, and no
// signal is above its bound; or when none of the signals is known any more. While no response time is
// known, which is so while all calls hang, a limit of a rule with MaxRT neither rises nor ends. If there was no
// second with so many calls, the state is "unknown" while a signal is above its bound, and only MaxInFlight
// and MaxQPS hold.
//
// A signal comes late: a step in demand is in the smoothed CPU after 2.5 s. So let a rule with
// MaxCPU have MaxInFlight as well, or put an isolation rule with a limit of its own beside it.
//
// # Strategy Refuse
//
// While a signal is above its bound, and for CoolOff after the rule has last seen it there, nothing
// passes; the state is "refusing". That is for work that can wait, such as batches.
//
// # What it refuses
//
// A rule that blocks calls keeps room for the more critical ones: see leapgate.WithCriticality. Calls of equal
// criticality share the room at random.
//
// Of MaxInFlight, the rule keeps permits free for each criticality whose calls were blocked lately: at most √n and
// n/3 of n permits each. At twice the calls that fit, of which a third are critical, 0.96 of 200 permits are used, and
// 0.79 of 10. All are used if all calls are equally critical.
//
// Of MaxQPS, the rule admits a call only if the more critical calls of the next second would still fit. It expects
// as many as came lately, plus two standard deviations of a Poisson process and at least one; half a minute after the
// last of them it expects none. At four times MaxQPS, when one half of it would go to critical calls, 0.6 % of those
// are blocked with MaxQPS 100, and less with more; 0.94 of 100 calls are used, and 0.99 of 1,000. A rule that starts
// to block calls has admitted others before, so this takes effect after a second.
//
// [resource.BlockError.RetryAfter] of a call that MaxQPS blocked is the wait for room in the window plus up to 25 %, so
// that clients do not return together; the wait for room that is kept for others is 1s. It is 0 where nobody knows it:
// for calls in flight and signals.
package system

import (
	"cmp"
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/rule"
)

// Rule bounds what all resources that it binds take in together. It is a plain value; loading
// copies it. At least one of the bounds must be set.
type Rule struct {
	// ID names the rule in errors and snapshots. It must be unique among the system rules of a
	// gate, and at most 1,040 bytes. If it is empty, it becomes "resource/1" for the first rule
	// of the resource, "resource/2" for the second. What a rule remembers stays with its ID when
	// rules are loaded.
	ID string

	// Resource is the name of the resource, 1 to 1,024 bytes, or the pattern that names must
	// match. With Match Default or All it is empty, or "*".
	Resource string
	// Match is Exact, which is the default, or what type of pattern Resource is. All that match
	// are counted together.
	Match rule.Match

	// MaxCPU is the largest share of the processors which the container, or the process, may
	// use that it does use: more than 0, at most 1; 0 is no bound.
	MaxCPU float64
	// MaxThrottled is the largest share of the periods of the container's quota in which it
	// may run out: more than 0, at most 1; 0 is no bound.
	MaxThrottled float64
	// MaxPressure is the largest share of the time in which something that could run waits for a processor:
	// more than 0, at most 1; 0 is no bound.
	MaxPressure float64
	// MaxSchedLatency is how long a goroutine that could run may wait until it does, 99 % of
	// them: 1 µs to 1 min; 0 is no bound. What Go measures changes between its versions.
	MaxSchedLatency time.Duration
	// MaxRT is the largest mean response time of the calls that succeeded lately, of a
	// quarter of a second or longer: 1 ms to 24 h; 0 is no bound.
	MaxRT time.Duration

	// MaxQPS is how many calls may begin in a second, an aligned window of ten buckets:
	// 1 to 1,000,000,000; 0 is no bound.
	MaxQPS int64
	// MaxInFlight is how many calls may be in flight: 1 to 1,000,000,000; 0 is no bound. A call
	// that counts n takes n permits. While calls are blocked, some permits are kept for more critical calls.
	MaxInFlight int64

	// Strategy is what happens while a signal is above its bound: Limit, which is the default,
	// or Refuse. It goes with MaxCPU, MaxThrottled, MaxPressure, MaxSchedLatency or MaxRT.
	Strategy Strategy
	// CoolOff is how long all must be well until the rule is calm again: 1 ms to 1 h; 0 is 10 s
	// with Limit, and 1 s with Refuse.
	CoolOff time.Duration

	// Mode is Enforce, which is the default, Shadow or Off. In mode Shadow the limit stays the one
	// with which it began, for nothing shows what another one would do.
	Mode rule.Mode

	// Source is where the rule came from: the rule file that owns it, or nothing, if the
	// program made it. It changes nothing about the rule.
	Source string
}

// hasSignal reports whether any bound is on a signal.
func (r *Rule) hasSignal() bool {
	return r.MaxCPU > 0 || r.MaxThrottled > 0 || r.MaxPressure > 0 || r.MaxSchedLatency > 0 || r.MaxRT > 0
}

func (r *Rule) coolOff() time.Duration {
	switch {
	case r.CoolOff > 0:
		return r.CoolOff
	case r.Strategy == Refuse:
		return coolOffRefuse
	default:
		return coolOffLimit
	}
}

// maxInFlight is the largest limit that may be found.
func (r *Rule) maxInFlight() int64 { return cmp.Or(r.MaxInFlight, maxCalls) }

// Strategy is what a rule does while a signal is above its bound.
type Strategy uint8

// The strategies.
const (
	Limit  Strategy = iota // finds how many calls may be in flight
	Refuse                 // lets nothing pass
)

var strategies = enum.Enum[Strategy]{What: "strategy", Names: []string{"limit", "refuse"}}

// String is the strategy's name: "limit", "refuse".
func (s Strategy) String() string { return strategies.String(s) }

// MarshalText returns the strategy's name.
func (s Strategy) MarshalText() ([]byte, error) { return strategies.Marshal(s) }

// UnmarshalText reads a strategy's name.
func (s *Strategy) UnmarshalText(text []byte) error { return strategies.Unmarshal(text, s) }

// Those that stand in the documentation of [Rule].
const (
	coolOffLimit  = 10 * time.Second
	coolOffRefuse = time.Second

	minSpan         = time.Millisecond // of MaxRT and CoolOff
	maxRT           = 24 * time.Hour
	maxCoolOff      = time.Hour
	minSchedLatency = time.Microsecond
	maxSchedLatency = time.Minute
	maxCalls        = 1_000_000_000 // of MaxQPS and MaxInFlight
)
