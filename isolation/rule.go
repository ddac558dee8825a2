// Package isolation limits how many calls are in flight.
//
// With a [Rule], a resource has a number of places. A call takes one when it enters, or
// as many as it counts, and the entry that took them gives them back when it exits,
// whatever rules were loaded meanwhile. Never are more taken than there are.
package isolation

import (
	"time"

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
	// that counts n takes n places.
	MaxInFlight int64

	// MaxWait is how long a call may wait for a free place: 0, which is the default
	// and means not at all, to 24 h. Calls that wait are served in order of arrival.
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
)

// maxQueue is how many calls may wait at once.
func (r *Rule) maxQueue() int {
	if r.MaxQueue == 0 {
		return defaultMaxQueue
	}
	return r.MaxQueue
}
