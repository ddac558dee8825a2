package limit

import (
	"errors"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate/internal/enum"
)

// Config says how a limiter works.
type Config struct {
	// Name is told in decisions and errors: up to 1,024 bytes, may be empty.
	Name string

	// Limit is how many are admitted for a key in a Window: 0 to [MaxLimit]. 0
	// refuses all.
	Limit int64

	// Window is the length of time that Limit is for: [MinWindow] to [MaxWindow]; 0
	// is 1 s.
	Window time.Duration

	// MaxKeys is how many keys are counted at a time: 1 to [MostMaxKeys]; 0 is
	// [DefaultMaxKeys]. Memory is taken as keys come, besides 0.2 bytes for each of
	// them at the start. A key that holds nothing any more gives way to a new one
	// first.
	MaxKeys int

	// WhenFull says what happens to a new key when all places are taken by keys that
	// still matter: [Evict], which is the default, [Deny] or [Share].
	WhenFull Policy

	// Offenders is how many of the keys that are refused most are kept track of: 0,
	// which is off, to [MaxOffenders]. See [Counter.Offenders].
	Offenders int

	// Now is the clock: nanoseconds, for instance of Unix time. Nil is the real one,
	// which starts at the Unix time and goes on with the monotonic clock, so that
	// setting the system's time moves no window. It must be safe for concurrent use
	// and should not go back: an older time is taken for the latest that the key has
	// seen. If it jumps ahead, windows stay there until it is reached again.
	Now func() int64

	// Buckets is how many buckets the window of a [Bucketed] has: 1 to [MaxBuckets];
	// 0 is 10, or the next lower number that fits. Window must divide by it, and a
	// bucket is at least 1 ms. The other limiters have none.
	Buckets int

	// Strict makes a [Bucketed] bound every window of that length, wherever it begins.
	// The others do not have it: a [Log] always does, a [Counter] never.
	Strict bool

	// MaxBytes bounds the memory in which a [Log] or a [Bucketed] keeps times, of all
	// keys together, besides the first four of each: 0, which is [DefaultMaxBytes], or
	// more. A time takes 16 bytes. Half of it is divided: each of MaxKeys can always keep
	// MaxBytes/2/MaxKeys of it, 20 times by default, whatever the others need. The other
	// half is for whoever needs more first.
	//
	// A key that needs more than there is joins those of its times that are closest
	// together, and what was admitted at them leaves with the last. It is never admitted
	// more than Limit, and may be let in again later than it should: by less than
	// Window × 4/(3k−4) if it can keep k times, and Window/2 with the first four. A key of
	// steady traffic is so refused from 93 % of Limit on if it has 20 places, and from 67 %
	// on if it has four. [Stats] counts what was joined. A [Counter] keeps no times.
	MaxBytes int64
}

// Bounds and defaults of a [Config].
const (
	MinWindow       = time.Millisecond
	DefaultWindow   = time.Second
	MaxWindow       = 366 * 24 * time.Hour
	DefaultMaxKeys  = 100_000
	MostMaxKeys     = 100_000_000
	DefaultBuckets  = 10
	MaxBuckets      = 1000
	DefaultMaxBytes = 64 << 20
	MaxOffenders    = 10_000
	maxNameLength   = 1024
	minBucket       = time.Millisecond
)

// Policy says what happens to a new key when there is no place for it.
type Policy uint8

// The policies. Whatever the policy, keys that hold nothing any more go first; with
// each new key a few places are looked at for them.
const (
	// Evict forgets, of a few keys that it looks at, the one that holds least. That
	// client may use its limit once more, so a flood of new keys weakens limits, but
	// those who hold much keep it. [Stats] tells how often it happened.
	Evict Policy = iota
	// Deny refuses the new key. Known clients are not disturbed by a flood, and new
	// ones are not served until places expire.
	Deny
	// Share counts all new keys together, as if they were one: they have one Limit
	// for all of them until places expire. Known clients are not disturbed.
	Share
)

var policies = enum.Enum{What: "Policy", Names: []string{"Evict", "Deny", "Share"}}

// String is the policy's name.
func (p Policy) String() string { return policies.String(uint8(p)) }

// kind is the limiter that a configuration is for.
type kind string

const (
	kindCounter  kind = "Counter"
	kindLog      kind = "Log"
	kindBucketed kind = "Bucketed"
)

// complete fills in the defaults and reports every fault.
func (c *Config) complete(k kind) error {
	var faults []error
	fault := func(field string, value any, want string) {
		faults = append(faults, &ConfigError{string(k), c.Name, field, value, want})
	}
	if len(c.Name) > maxNameLength {
		fault("Name", c.Name, fmt.Sprintf("at most %d bytes", maxNameLength))
	}
	if c.Limit < 0 || c.Limit > MaxLimit {
		fault("Limit", c.Limit, fmt.Sprintf("0 to %d", int64(MaxLimit)))
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	windowOK := c.Window >= MinWindow && c.Window <= MaxWindow
	if !windowOK {
		fault("Window", c.Window, fmt.Sprintf("%v to %v, or 0 for %v", MinWindow, MaxWindow, DefaultWindow))
	}
	if c.MaxKeys < 0 || c.MaxKeys > MostMaxKeys {
		fault("MaxKeys", c.MaxKeys, fmt.Sprintf("1 to %d, or 0 for %d", MostMaxKeys, DefaultMaxKeys))
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = DefaultMaxKeys
	}
	if c.WhenFull > Share {
		fault("WhenFull", uint8(c.WhenFull), "Evict (0), Deny (1) or Share (2)")
	}
	if c.Offenders < 0 || c.Offenders > MaxOffenders {
		fault("Offenders", c.Offenders, fmt.Sprintf("1 to %d, or 0 for none", MaxOffenders))
	}
	if k == kindBucketed {
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
	case k == kindCounter && c.MaxBytes != 0:
		fault("MaxBytes", c.MaxBytes, "0: a Counter keeps no times")
	case c.MaxBytes < 0:
		fault("MaxBytes", c.MaxBytes, fmt.Sprintf("1 or more, or 0 for %d", DefaultMaxBytes))
	case c.MaxBytes == 0:
		c.MaxBytes = DefaultMaxBytes
	}
	return errors.Join(faults...)
}

func (c *Config) completeBuckets(windowOK bool, fault func(field string, value any, want string)) {
	if c.Buckets == 0 {
		c.Buckets = DefaultBuckets
		for windowOK && !fits(c.Window, c.Buckets) {
			c.Buckets--
		}
	}
	if c.Buckets < 1 || c.Buckets > MaxBuckets {
		fault("Buckets", c.Buckets, fmt.Sprintf("1 to %d, or 0 for %d", MaxBuckets, DefaultBuckets))
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
