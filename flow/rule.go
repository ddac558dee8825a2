// Package flow limits how many calls pass per time.
//
// A [Rule] names a resource and admits up to a threshold of calls in a sliding
// window. It counts its own admissions, exactly: the answer to a call is the
// count, so that no number of goroutines can pass between looking and counting.
// Several rules may bind one resource; a call passes if all admit it, and what
// those took that came before a refusal is given back.
package flow

import (
	"fmt"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// Rule limits the calls of one resource. It is a plain value; loading copies it.
type Rule struct {
	// ID names the rule in errors and snapshots. It must be unique among the flow
	// rules of a gate, and at most 1,040 bytes. If it is empty, it becomes
	// "resource/1" for the first rule of the resource, "resource/2" for the second.
	// What a rule has counted stays with its ID when rules are loaded: without one, a
	// rule that is put before it changes whose counts are whose.
	ID string

	// Resource is the name of the resource, 1 to 1,024 bytes.
	Resource string

	// Threshold is how many calls are admitted per Interval, 0 or more. What is
	// behind the point does not count: 0.9 blocks all, 1.5 admits one.
	Threshold float64

	// Interval is the length of the window: 1 ms to 24 h; 0 is 1 s.
	Interval time.Duration

	// Buckets is how many buckets the window has: 1 to 1,000; 0 is 10. Interval
	// must divide by it, and a bucket is at least 1 ms. More of them let calls in
	// again more evenly, and cost memory: about 100 bytes each.
	Buckets int

	// Strict bounds every interval of this length, wherever it begins. Without it,
	// the window of whole buckets is bounded: two bursts that are further apart
	// than Interval − Interval/Buckets may both pass. With it, calls leave the
	// window up to one bucket later.
	Strict bool

	// Mode is Enforce, which is the default, Shadow or Off.
	Mode Mode
}

// Mode is what a rule does with what it decides.
type Mode = stat.Mode

// The modes.
const (
	Enforce = stat.Enforce // block what goes beyond the rule
	Shadow  = stat.Shadow  // decide and count, never block
	Off     = stat.Off     // do not look
)

// RuleError is one thing that is wrong with one rule of a list: which rule, which
// field, what it holds, and what would be right. See [resource.RuleError].
type RuleError = resource.RuleError

// RuleErrors is everything that is wrong with a list of rules, at once. errors.As
// finds the first [RuleError] in it. See [resource.RuleErrors].
type RuleErrors = resource.RuleErrors

// ErrRule is what every fault of a rule is.
var ErrRule = resource.ErrRule

// Bounds and defaults of rules.
const (
	DefaultInterval = time.Second
	MaxInterval     = 24 * time.Hour
	DefaultBuckets  = 10
	MaxBuckets      = 1000
	MaxIDLength     = resource.MaxNameLength + 16 // there is room for the longest name and "/1"
	minBucket       = time.Millisecond
)

// complete fills in the defaults of a rule and reports its faults.
func complete(r *Rule, report *ruleset.Report) {
	if len(r.ID) > MaxIDLength {
		report.Fault("ID", r.ID, fmt.Sprintf("at most %d bytes", MaxIDLength))
	}
	if resource.CheckName(r.Resource) != nil {
		report.Fault("Resource", r.Resource, fmt.Sprintf("a name of 1 to %d bytes", resource.MaxNameLength))
	}
	if !(r.Threshold >= 0) || math.IsInf(r.Threshold, 1) { // NaN compares false
		report.Fault("Threshold", r.Threshold, "a finite number of at least 0")
	}
	if r.Mode > Off {
		report.Fault("Mode", uint8(r.Mode), "Enforce (0), Shadow (1) or Off (2)")
	}
	if r.Interval == 0 {
		r.Interval = DefaultInterval
	}
	if r.Buckets == 0 {
		r.Buckets = DefaultBuckets
	}
	intervalOK := r.Interval >= minBucket && r.Interval <= MaxInterval
	bucketsOK := r.Buckets >= 1 && r.Buckets <= MaxBuckets
	if !intervalOK {
		report.Fault("Interval", r.Interval, fmt.Sprintf("%v to %v", minBucket, MaxInterval))
	}
	if !bucketsOK {
		report.Fault("Buckets", r.Buckets, fmt.Sprintf("1 to %d", MaxBuckets))
	}
	if intervalOK && bucketsOK && !fits(r.Interval, r.Buckets) {
		report.Fault("Buckets", r.Buckets, fmt.Sprintf("a number that divides %v into buckets of at least %v, such as %d",
			r.Interval, minBucket, fittingBuckets(r.Interval, r.Buckets)))
	}
}

func fits(interval time.Duration, buckets int) bool {
	b := time.Duration(buckets)
	return interval%b == 0 && interval/b >= minBucket
}

// fittingBuckets gives the largest fitting number of buckets below n.
func fittingBuckets(interval time.Duration, n int) int {
	for n > 1 && !fits(interval, n) {
		n--
	}
	return n
}
