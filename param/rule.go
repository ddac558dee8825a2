// Package param limits calls by what they are about: by the values of their arguments.
//
// A call names its arguments with [resource.WithArg]: a tenant, an item, an address. A
// [Rule] counts each value by itself, so that one that is hot does not use up what the
// others have. Values come from outside: a rule keeps at most so many at a time.
package param

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/bykey"
	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// Rule limits the calls with each value of an argument, of one resource or of each of those
// that match a pattern. It is a plain value; loading copies it.
type Rule struct {
	// ID names the rule in errors and snapshots. It must be unique among the param rules of a
	// gate, and at most 1,040 bytes. If it is empty, it becomes "resource/1" for the first rule
	// of the resource, "resource/2" for the second. What a rule has counted stays with its ID
	// when rules are loaded, unless the new rule counts otherwise: another Resource, Match, Arg,
	// Interval, Behavior, MaxKeys or WhenFull begins anew, and so does MaxInFlight instead of
	// Threshold. A rule that begins anew does not count the calls that are in flight by then.
	// Threshold, MaxInFlight, Burst, MaxWait, Items, Missing, Top and Mode may change.
	ID string

	// Resource is the name of the resource, 1 to 1,024 bytes, or the pattern that names must
	// match. With Match Default or All it is empty, or "*".
	Resource string
	// Match is Exact, which is the default, or what type of pattern Resource is. Every resource
	// that matches counts its values by itself.
	Match rule.Match

	// Arg is the name of the argument whose values are counted: "item". Up to four with commas
	// between them are counted together: with "tenant,item", each item of each tenant by
	// itself. At most 1,024 bytes each; blanks around names do not matter.
	Arg string

	// Threshold is how many calls with one value are admitted per Interval: 0, which blocks
	// all unless Top is set, to 16,777,214. Reject rounds it down; the other
	// behaviors want a whole number.
	Threshold float64

	// Candidate is a threshold that is tried beside the live one: it decides and counts for
	// itself, and what it would have blocked is in the snapshot. It blocks nothing. It is
	// tried for values without a limit of their own in Items. 0 is none; else as Threshold.
	Candidate float64

	// Interval is what Threshold is for: 1 ms to 24 h; 0 is 1 s.
	Interval time.Duration

	// Behavior is how values are counted, and what happens beyond the threshold: Reject, which
	// is the default, Bucket or Pace.
	Behavior Behavior

	// Burst is how many calls with one value Bucket admits at once: 1 to 16,777,214, whatever
	// Items says; 0 is as many as the value's limit.
	Burst int64

	// MaxWait is how long a call may have to wait for its turn with Pace: 0 to 24 h. One whose
	// turn would come later is blocked at once. One that gives up frees its turn only if
	// nobody waits behind it.
	MaxWait time.Duration

	// MaxInFlight is how many calls with one value may be in flight: 1 to 16,777,214. It goes
	// instead of Threshold, and nobody waits. 0 is no such limit.
	MaxInFlight int64

	// Items are limits of single values, in place of Threshold or MaxInFlight: "vip=10, ban=0,
	// free=-1, 10.0.0.0/8=100, bot-*=1". A limit is a whole number up to 16,777,214; 0 blocks,
	// −1 admits all and counts none. What stands before it is a value; a block of addresses; or, with
	// a star at its end, what values begin with. The closest wins: the value itself; else the smallest block
	// that has the address; else the longest beginning. In double quotes, as Go has them, it is a value
	// whatever is in it. Values are compared as text; leaphttp.Address makes networks of addresses of
	// IPv6, 2001:db8:1:2::/64, which a block binds and no single address. The values themselves count among
	// MaxKeys on each resource, but always have room, and are never evicted. So if a pattern binds many
	// resources, MaxKeys must be larger than Items times resources, or other values may find no room. At most
	// 1,000 of them. It goes with one argument only.
	//
	// It is text since rules are compared. In rule files it may be a mapping, {vip: 10}, as well.
	Items string

	// Missing is what becomes of a call without the argument, or without one of them: Skip,
	// which is the default, Shared or Block. The snapshot has how many there were.
	Missing Missing

	// MaxKeys limits the number of values that are counted at a time, on all resources of the rule
	// together, from 1 to 10,000,000. The default is 100,000. It must be larger than the number of
	// values in Items. A value takes about 50 bytes and its own length; longer values than 96 bytes
	// are kept as a hash of 34 bytes. WhenFull is what happens to a new value when there are
	// MaxKeys that matter. A call that a later rule blocks may have evicted a value. With MaxInFlight,
	// values that have calls in flight are never evicted: a new one is blocked then, whatever WhenFull
	// says.
	MaxKeys  int
	WhenFull WhenFull

	// Top is how many of the values that calls come with most often, and of those that are
	// refused most, are in the snapshot: 0, which is none, to 1,000. Each count has its error: see
	// [stat.ValueCount]. They are counted from when the rule was loaded, and anew with another Top
	// or Arg. Memory is at most 12 KB for each of Top and for 15 more, on each resource; a sixth of
	// that while values are short. A call takes a lock for it only if its value begins to be tracked.
	//
	// A rule with Top, but without Threshold and MaxInFlight, is a probe: it blocks none but by
	// Items.
	Top int

	// Mode is Enforce, which is the default, Shadow or Off. In mode Shadow no call waits.
	Mode rule.Mode

	// Source is where the rule came from: the rule file that owns it, or nothing, if the
	// program made it. It changes nothing about the rule.
	Source string
}

// Behavior is how values are counted, and what happens beyond the threshold.
type Behavior uint8

// The behaviors.
const (
	// Reject counts in a sliding window, as [limit.NewCounter] does, and blocks.
	Reject Behavior = iota
	// Bucket admits Burst at once and then evenly Threshold per Interval, as [limit.NewBurst] does, and blocks.
	Bucket
	// Pace lets calls pass one by one, Interval / Threshold apart, and makes them wait for
	// their turn, at most MaxWait. A call that counts more than its limit never gets one.
	Pace
)

var behaviors = enum.Enum[Behavior]{What: "behavior", Names: []string{"reject", "bucket", "pace"}}

// String is the behavior's name: "reject", "bucket", "pace".
func (b Behavior) String() string { return behaviors.String(b) }

// MarshalText returns the behavior's name.
func (b Behavior) MarshalText() ([]byte, error) { return behaviors.Marshal(b) }

// UnmarshalText reads a behavior's name.
func (b *Behavior) UnmarshalText(text []byte) error { return behaviors.Unmarshal(text, b) }

// Missing is what becomes of calls without the argument.
type Missing uint8

// What may become of them.
const (
	Skip   Missing = iota // they pass
	Shared                // they are counted together, as if they had one value
	Block                 // they are blocked
)

var missings = enum.Enum[Missing]{What: "missing", Names: []string{"skip", "shared", "block"}}

// String is the name: "skip", "shared", "block".
func (m Missing) String() string { return missings.String(m) }

// MarshalText returns the name.
func (m Missing) MarshalText() ([]byte, error) { return missings.Marshal(m) }

// UnmarshalText reads a name.
func (m *Missing) UnmarshalText(text []byte) error { return missings.Unmarshal(text, m) }

// WhenFull is what happens to a new value when there are MaxKeys that matter.
type WhenFull uint8

// What may happen: see [limit.Evict], [limit.Deny] and [limit.Share].
const (
	Evict = WhenFull(limit.Evict)
	Deny  = WhenFull(limit.Deny)
	Share = WhenFull(limit.Share)
)

var whenFulls = enum.Enum[WhenFull]{What: "whenFull", Names: []string{"evict", "deny", "share"}}

// String is the name: "evict", "deny", "share".
func (w WhenFull) String() string { return whenFulls.String(w) }

// MarshalText returns the name.
func (w WhenFull) MarshalText() ([]byte, error) { return whenFulls.Marshal(w) }

// UnmarshalText reads a name.
func (w *WhenFull) UnmarshalText(text []byte) error { return whenFulls.Unmarshal(text, w) }

// MaxLimit is the largest limit of a value.
const MaxLimit = bykey.MaxLimit

// The other bounds and defaults of a [Rule].
const (
	minInterval     = time.Millisecond
	maxInterval     = 24 * time.Hour
	defaultInterval = time.Second
	maxMaxWait      = 24 * time.Hour
	maxKeys         = 10_000_000
	defaultMaxKeys  = 100_000
	maxItems        = 1000
	maxArgs         = 4
	maxTop          = 1000
)
