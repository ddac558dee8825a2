package leapredis

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// Config is how a limiter works. The processes that share a limit have the same
// Prefix, Limit and Window.
type Config struct {
	// Name stands in decisions, errors and logs: up to 1,024 bytes, may be empty.
	Name string

	// Limit is how many are admitted for a key in a Window, or with [NewInFlight] at a time,
	// over all processes: 0 to [MaxLimit]. 0 refuses all. [RateLimiter.SetLimit] changes it while the limiter runs, in
	// this process.
	Limit int64

	// MaxLimit is the largest limit that any key or call may have, or that Limit may be
	// changed to: Limit to [MaxLimit]; 0 is Limit.
	MaxLimit int64

	// LimitFor, if it is not nil, returns the limit of a key, for plans: 0 to MaxLimit, in the
	// same Window; [limit.Exempt], with which the server is not asked, or [limit.Default], which
	// is Limit. Anything else makes the call an error, [limit.ErrCount]. It is asked with each
	// call, under no lock, and must be safe for concurrent use. What it returns may change:
	// what was counted stays. SetPlans sets those of single keys without a function. The server
	// counts, and does not keep limits: each process decides by what its own function returns.
	LimitFor func(key string) int64

	// Window is the length of time that Limit is for: [limit.MinWindow] to
	// [limit.MaxWindow], in whole microseconds, as a server's clock has them; 0
	// is 1 s. With [NewInFlight] it must be 0.
	Window time.Duration

	// Mode is [rule.Enforce], which is the default; [rule.Shadow], which asks, decides and counts,
	// and refuses nobody: see WouldRefuse of [limit.Decision] and [limit.Stats]; or [rule.Off],
	// which admits all and asks no server. SetMode changes it while the limiter runs, in this
	// process. In mode Shadow, what would have been refused is not charged, as it would not be if
	// it were; and a call waits for the server as ever, for Timeout at most.
	Mode rule.Mode

	// Prefix is what every name on the server begins with: 1 to [MaxPrefix] bytes, such as
	// "api-calls:". It is for one limiter. A different Limit keeps what was counted
	// under it; another Window, or a log in place of a counter, needs another Prefix.
	//
	// It must not have "{" or "}". The name of a key is Prefix, "{}" and the key. So a Prefix
	// may be the beginning of another: "api:" and "api:v2:" never meet, whatever bytes keys
	// have; and a Cluster spreads the keys over all its servers, braces in them or not. Under
	// Prefix alone, the processes are counted: see Instances. A server that grants access by
	// names must grant Prefix followed by "*".
	Prefix string

	// Timeout is how long a call waits for a server, within the deadline of its context:
	// 1 ms to 1 min; 0 is [DefaultTimeout]. A server that does not answer in time counts
	// as away. Limiters that share a client share what they know of its servers if they
	// have the same Timeout.
	Timeout time.Duration

	// WhenAway is what answers while no server does: [Local], [Allow] or [Deny].
	WhenAway Policy

	// Burst is how many of a key [NewBurst] admits at once: 1 to [MaxLimit]; 0 is its limit.
	// With the other constructors it must be 0.
	Burst int64

	// Instances is how many processes share the limit, this one included: 0 to
	// [MaxInstances]. It is for [Local], which see; a Limit below Instances is a fault then. Of
	// limits of keys and calls below it, each process has a share of none.
	//
	// 0: they are counted by a heartbeat on the server, which goes with calls. A process that
	// has not asked for 10 s is not counted; until it has been counted for 10 s again, it
	// takes there to be [AssumedInstances] at least, so a Limit below that is a fault too. So
	// give the number where calls are few, or the limit is small.
	Instances int

	// Lease is how many permits a counter takes at most in one round trip, to serve them
	// without asking: 0 to [MaxLease]. With 0 and 1, every call asks the server. A log
	// and a burst have none.
	Lease int64

	// LeaseTime is how long this process goes on without asking: with the permits of a
	// lease, and with the refusal of a key, which is believed for Timeout more while one call
	// asks. 1 ms to 1 min; 0 is [DefaultLeaseTime]. With [NewInFlight], it is how long a place
	// is its call's without being renewed: longer than calls take, and as short as the places
	// of a process that died may be missed. 100 ms to 24 h; 0 is [DefaultPlaceTime].
	LeaseTime time.Duration

	// MaxKeys bounds what this process keeps of keys, and the keys of the limiter that
	// answers with [Local]: 1 to [limit.MaxKeys]; 0 is [limit.DefaultMaxKeys]. On the
	// server, keys are not bounded: they expire.
	MaxKeys int

	// Logger is told when the server goes away and when it is back, what the server denies,
	// and of what type a value is that another keeps under Prefix. Nil is slog.Default(). No
	// key is ever logged; what a server or a client says is cut to 200 bytes of printable
	// ASCII.
	Logger *slog.Logger
}

// Bounds and defaults of a [Config].
const (
	// MaxLimit is the largest Limit. Scripts count in doubles, which are exact up to
	// 2⁵³: see the comments of the scripts.
	MaxLimit         = 1 << 49
	MaxPrefix        = 128
	MaxInstances     = 1_000_000
	MaxLease         = 1_000_000
	DefaultTimeout   = 50 * time.Millisecond
	DefaultLeaseTime = 100 * time.Millisecond
	DefaultPlaceTime = time.Minute // the LeaseTime of NewInFlight
	maxNameLength    = 1024
	minWait          = time.Millisecond
	maxWait          = time.Minute
	minPlaceTime     = 100 * time.Millisecond
	maxPlaceTime     = 24 * time.Hour
)

// Policy is what answers while no server does. The decision is then marked as
// Degraded.
type Policy uint8

// The policies.
const (
	// Local answers with an in-memory limiter of the same kind and Window, in which each key has
	// this process's share of its limit, see [Link]:
	//
	//   - With Config.Instances, Limit ÷ Instances, rounded down.
	//   - Where processes are counted, the same, and the remainder goes to the first of
	//     them, one each, in the order of random names. If there are more than Limit, some
	//     have no share: they refuse all, and say so in Stats as NoShare.
	//   - Of a Burst, the same share, but one at least.
	//   - A process that is not counted yet, or not any more, has Limit ÷ the number last
	//     known, which is taken to be [AssumedInstances] at least, rounded down.
	//
	// The shares of those that were counted when the server went away sum to at most Limit,
	// whichever came and went. A process beside them that was not, since it started shortly
	// before or after, or had not asked for 10 s, adds at most Limit ÷ AssumedInstances.
	Local Policy = iota
	// Allow admits everything.
	Allow
	// Deny refuses everything. The decision is marked as Unavailable too, since nobody has
	// used up a limit: package leaphttp answers 503.
	Deny
)

var policies = enum.Enum[Policy]{What: "Policy", Names: []string{"Local", "Allow", "Deny"}}

// String is the policy's name.
func (p Policy) String() string { return policies.String(p) }

const wantMode = "enforce (0), shadow (1) or off (2)"

// complete fills in the defaults and reports every fault. maker is what it is for.
func (c *Config) complete(maker string, client Client) error {
	var faults []error
	fault := func(field string, value any, want string) {
		faults = append(faults, &limit.ConfigError{Limiter: maker, Name: c.Name, Field: field, Value: value, Want: want})
	}
	if client == nil {
		fault("client", client, "a Client, such as viarueidis.New returns")
	}
	if len(c.Name) > maxNameLength {
		fault("Name", c.Name, fmt.Sprintf("at most %d bytes", maxNameLength))
	}
	if c.Limit < 0 || c.Limit > MaxLimit {
		fault("Limit", c.Limit, fmt.Sprintf("0 to %d", int64(MaxLimit)))
	}
	switch {
	case c.MaxLimit == 0:
		c.MaxLimit = c.Limit
	case c.MaxLimit < c.Limit || c.MaxLimit > MaxLimit:
		fault("MaxLimit", c.MaxLimit, fmt.Sprintf("%d, which is Limit, to %d; or 0 for Limit", c.Limit, int64(MaxLimit)))
	}
	if c.Mode > rule.Off {
		fault("Mode", uint8(c.Mode), wantMode)
	}
	if c.Window == 0 && maker != forInFlight {
		c.Window = limit.DefaultWindow
	}
	switch {
	case maker == forInFlight && c.Window != 0:
		fault("Window", c.Window, "0: calls in flight have none")
	case maker == forInFlight:
	case c.Window < limit.MinWindow || c.Window > limit.MaxWindow || c.Window%time.Microsecond != 0:
		fault("Window", c.Window, fmt.Sprintf("%v to %v in whole microseconds, or 0 for %v", limit.MinWindow, limit.MaxWindow, limit.DefaultWindow))
	}
	if c.Prefix == "" || len(c.Prefix) > MaxPrefix || strings.ContainsAny(c.Prefix, "{}") {
		fault("Prefix", c.Prefix, fmt.Sprintf("1 to %d bytes without { and }", MaxPrefix))
	}
	wait := func(field string, d *time.Duration, least, usual, most time.Duration) {
		if *d == 0 {
			*d = usual
		}
		if *d < least || *d > most {
			fault(field, *d, fmt.Sprintf("%v to %v, or 0 for %v", least, most, usual))
		}
	}
	wait("Timeout", &c.Timeout, minWait, DefaultTimeout, maxWait)
	if maker == forInFlight {
		wait("LeaseTime", &c.LeaseTime, minPlaceTime, DefaultPlaceTime, maxPlaceTime)
	} else {
		wait("LeaseTime", &c.LeaseTime, minWait, DefaultLeaseTime, maxWait)
	}
	if c.WhenAway > Deny {
		fault("WhenAway", c.WhenAway, "Local (0), Allow (1) or Deny (2)")
	}
	switch {
	case c.Instances < 0 || c.Instances > MaxInstances:
		fault("Instances", c.Instances, fmt.Sprintf("1 to %d, or 0 to count them", MaxInstances))
	case c.WhenAway != Local || c.Limit <= 0:
	case c.Instances == 0 && c.Limit < AssumedInstances:
		fault("Instances", c.Instances, fmt.Sprintf("1 to %d with a Limit of %[1]d, which leaves none for each of the %d processes "+
			"that are assumed until they are counted; or a WhenAway of Allow or Deny", c.Limit, AssumedInstances))
	case int64(c.Instances) > c.Limit:
		fault("Instances", c.Instances, fmt.Sprintf("1 to %d with a Limit of %[1]d, which leaves none for each of more processes "+
			"while no server answers; or a WhenAway of Allow or Deny", c.Limit))
	}
	switch {
	case maker == forInFlight && c.Lease != 0:
		fault("Lease", c.Lease, "0: each place is leased by itself, for LeaseTime")
	case maker != forCounter && (c.Lease < 0 || c.Lease > 1):
		fault("Lease", c.Lease, fmt.Sprintf("0 or 1: only a Counter has leases, since a %s would have to know when each permit is used", maker))
	case c.Lease < 0 || c.Lease > MaxLease:
		fault("Lease", c.Lease, fmt.Sprintf("0 to %d", int64(MaxLease)))
	}
	switch {
	case maker != forBurst && c.Burst != 0:
		fault("Burst", c.Burst, "0: only a Burst has one")
	case c.Burst < 0 || c.Burst > MaxLimit:
		fault("Burst", c.Burst, fmt.Sprintf("1 to %d, or 0 for as many as the limit", int64(MaxLimit)))
	}
	if c.MaxKeys < 0 || c.MaxKeys > limit.MaxKeys {
		fault("MaxKeys", c.MaxKeys, fmt.Sprintf("1 to %d, or 0 for %d", limit.MaxKeys, limit.DefaultMaxKeys))
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = limit.DefaultMaxKeys
	}
	return errors.Join(faults...)
}

// What a configuration is for: a constructor without "New".
const (
	forCounter = "Counter"
	forLog     = "Log"
	forBurst   = "Burst"

	forInFlight = "InFlight"
)
