package limit

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/rule"
)

// Config is how a limiter works.
type Config struct {
	// Name stands in decisions and errors: up to 1,024 bytes, may be empty.
	Name string

	// Limit is how many are admitted for a key in a Window, or with [NewInFlight] at a time: 0
	// to [MaxLimit]. 0 refuses all. [RateLimiter.SetLimit] changes it while the limiter runs.
	Limit int64

	// MaxLimit is the largest limit that any key or call may have, or that Limit may be
	// changed to: Limit to [MaxLimit]; 0 is Limit.
	MaxLimit int64

	// LimitFor, if it is not nil, returns the limit of a key, for plans: 0 to MaxLimit, in the
	// same Window; [Exempt], or [Default], which is Limit. Anything else makes the call an
	// error, [ErrCount]. It is asked with each call, under no lock, and must be safe for
	// concurrent use. What it returns may change: what was counted stays. SetPlans sets the
	// limits of single keys without a function.
	LimitFor func(key string) int64

	// Window is the length of time that Limit is for: [MinWindow] to [MaxWindow]; 0
	// is 1 s. With [NewInFlight] it must be 0.
	Window time.Duration

	// MaxKeys is how many keys are counted at a time: 1 to [MaxKeys]; 0 is
	// [DefaultMaxKeys]. Memory is taken as keys come, besides 0.2 bytes for each of
	// them at the start. A key that holds nothing any more makes room for a new one
	// first.
	MaxKeys int

	// WhenFull is what happens to a new key when there are MaxKeys that still matter:
	// [Evict], which is the default, [Deny] or [Share].
	WhenFull Policy

	// Mode is [rule.Enforce], which is the default; [rule.Shadow], which decides and counts, and
	// refuses nobody: see WouldRefuse of [Decision] and [Stats]; or [rule.Off], which admits
	// all and counts no key. SetMode changes it while the limiter runs. In mode Shadow, what
	// would have been refused is not charged, as it would not be if it were.
	Mode rule.Mode

	// Offenders is how many of the keys that are refused most are kept track of: 0,
	// which is off, to 10,000. See [RateLimiter.Offenders].
	Offenders int

	// Now is the clock: nanoseconds, for instance of Unix time. Nil is the real one,
	// which starts at the Unix time and then follows the monotonic clock, so that
	// setting the system's time moves no window. It must be safe for concurrent use
	// and should not go back: an older time is taken for the latest that the key has
	// seen, but with [NewBurst], which see. If it jumps ahead, windows stay there until it is reached again.
	Now func() int64

	// Buckets is how many buckets the window has with [NewBucketed]: 1 to 1,000;
	// 0 is 10, or the next lower number that fits. Window must divide by it, and a
	// bucket is at least 1 ms. With the other constructors it must be 0.
	Buckets int

	// Strict makes [NewBucketed] bound every window of that length, wherever it begins.
	// With the others it must be false: a log always does so, a counter never.
	Strict bool

	// Burst is how many of a key [NewBurst] admits at once: 1 to [MaxLimit]; 0 is its limit.
	// SetBurst changes it while the limiter runs.
	// With the other constructors it must be 0.
	Burst int64

	// MaxBytes bounds the memory in which [NewLog] and [NewBucketed] keep times, of all
	// keys together, besides the first four of each: 1 or more; 0 is 64 MiB. A time takes 16 bytes. Half of it is divided: each of MaxKeys can always keep
	// MaxBytes/2/MaxKeys of it, 20 times by default, whatever the others need. The other
	// half is for the keys that need more first.
	//
	// A key that needs more than there is joins those of its times that are closest
	// together, and what was admitted at them leaves with the last. It is never admitted
	// more than Limit, and may be let in again later than it should: by less than
	// Window × 4/(3k−4) if it can keep k times, and Window/2 with the first four. A key of
	// steady traffic is so refused from 93 % of Limit on if it can keep 20, and from 67 %
	// on if it can keep four. [Stats] counts what was joined. With the others, which keep no
	// times, it must be 0.
	MaxBytes int64

	keep func(key string) bool // reports whether a key is never evicted, and always has room; nil: none
}

// Bounds and defaults of a [Config]. Max and Min with the name of a field are its bounds.
const (
	MaxLimit       = math.MaxInt64 / 4
	MinWindow      = time.Millisecond
	DefaultWindow  = time.Second
	MaxWindow      = 366 * 24 * time.Hour
	DefaultMaxKeys = 100_000
	MaxKeys        = 100_000_000 // the largest Config.MaxKeys

	defaultBuckets  = 10
	maxBuckets      = 1000
	minBucket       = time.Millisecond
	defaultMaxBytes = 64 << 20
	maxOffenders    = 10_000
	maxNameLength   = 1024
)

// Policy is what happens to a new key when there are Config.MaxKeys already.
type Policy uint8

// The policies. Whatever the policy, keys that hold nothing any more go first; with
// each new key a few are looked at for them.
const (
	// Evict forgets, of a few keys that it looks at, the one that holds least. That
	// client may use its limit once more, so a flood of new keys weakens limits, but
	// clients that hold much keep it. [Stats] counts how often it happened.
	Evict Policy = iota
	// Deny refuses the new key. Known clients are not disturbed by a flood, and new
	// ones are not served until keys expire.
	Deny
	// Share counts all new keys together, as if they were one: they have one Limit
	// for all of them until keys expire. Known clients are not disturbed.
	Share
)

var policies = enum.Enum[Policy]{What: "Policy", Names: []string{"Evict", "Deny", "Share"}}

// String is the policy's name.
func (p Policy) String() string { return policies.String(p) }

const (
	wantMode    = "enforce (0), shadow (1) or off (2)"
	wantNoBurst = "0: only a Burst has one"
)

var wantBurst = fmt.Sprintf("1 to %d, or 0 for as many as the limit", int64(MaxLimit))

// maker is the constructor that a configuration is for, without "New".
type maker string

const (
	forCounter  maker = "Counter"
	forLog      maker = "Log"
	forBucketed maker = "Bucketed"
	forBurst    maker = "Burst"
	forInFlight maker = "InFlight"
)

// complete fills in the defaults and reports every fault.
func (c *Config) complete(m maker) error {
	var faults []error
	fault := func(field string, value any, want string) {
		faults = append(faults, &ConfigError{string(m), c.Name, field, value, want})
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
	if c.Window == 0 && m != forInFlight {
		c.Window = DefaultWindow
	}
	windowOK := c.Window >= MinWindow && c.Window <= MaxWindow
	switch {
	case m == forInFlight && c.Window != 0:
		fault("Window", c.Window, "0: calls in flight have none")
	case m != forInFlight && !windowOK:
		fault("Window", c.Window, fmt.Sprintf("%v to %v, or 0 for %v", MinWindow, MaxWindow, DefaultWindow))
	}
	if c.MaxKeys < 0 || c.MaxKeys > MaxKeys {
		fault("MaxKeys", c.MaxKeys, fmt.Sprintf("1 to %d, or 0 for %d", MaxKeys, DefaultMaxKeys))
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = DefaultMaxKeys
	}
	if c.WhenFull > Share {
		fault("WhenFull", uint8(c.WhenFull), "Evict (0), Deny (1) or Share (2)")
	}
	if c.Mode > rule.Off {
		fault("Mode", uint8(c.Mode), wantMode)
	}
	if c.Offenders < 0 || c.Offenders > maxOffenders {
		fault("Offenders", c.Offenders, fmt.Sprintf("1 to %d, or 0 for none", maxOffenders))
	}
	if m == forBucketed {
		c.completeBuckets(windowOK, fault)
	} else {
		if c.Buckets != 0 {
			fault("Buckets", c.Buckets, "0: only a Bucketed has buckets")
		}
		if c.Strict {
			fault("Strict", c.Strict, "false: only a Bucketed can be told to be strict; a Log always is")
		}
	}
	switch {
	case m != forBurst && c.Burst != 0:
		fault("Burst", c.Burst, wantNoBurst)
	case c.Burst < 0 || c.Burst > MaxLimit:
		fault("Burst", c.Burst, wantBurst)
	}
	switch {
	case m != forLog && m != forBucketed && c.MaxBytes != 0:
		fault("MaxBytes", c.MaxBytes, fmt.Sprintf("0: a %s keeps no times", m))
	case c.MaxBytes < 0:
		fault("MaxBytes", c.MaxBytes, fmt.Sprintf("1 or more, or 0 for %d", defaultMaxBytes))
	case c.MaxBytes == 0:
		c.MaxBytes = defaultMaxBytes
	}
	return errors.Join(faults...)
}

func (c *Config) completeBuckets(windowOK bool, fault func(field string, value any, want string)) {
	if c.Buckets == 0 {
		c.Buckets = defaultBuckets
		for windowOK && !fits(c.Window, c.Buckets) {
			c.Buckets--
		}
	}
	if c.Buckets < 1 || c.Buckets > maxBuckets {
		fault("Buckets", c.Buckets, fmt.Sprintf("1 to %d, or 0 for %d", maxBuckets, defaultBuckets))
		return
	}
	if windowOK && !fits(c.Window, c.Buckets) {
		n := c.Buckets
		for n > 1 && !fits(c.Window, n) {
			n--
		}
		fault("Buckets", c.Buckets, fmt.Sprintf("a number that divides %v into buckets of at least %v, such as %d",
			c.Window, minBucket, n))
	}
}

func fits(window time.Duration, buckets int) bool {
	b := time.Duration(buckets)
	return window%b == 0 && window/b >= minBucket
}
