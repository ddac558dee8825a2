package resource

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/stat"
)

// BlockError says which rule refused a call and why. It is leapgate.ErrBlocked. The fields of its [Cause] read as
// its own: err.Resource, err.Kind, err.RuleID, err.Threshold. It does not change.
// A test that needs one makes it with a Cause: &BlockError{Cause: &Cause{…}}.
type BlockError struct {
	*Cause

	// Observed is what was held against the threshold, the refused call
	// included: 101 of 100.
	Observed float64
	// RetryAfter is how long from now the call would pass if nobody else came:
	// the longest wait among the rules that bind it. It is 0 when that cannot be
	// told, as with a threshold of 0. It can be too short where the call has to wait for
	// several rules that pace, and one of them warms up: that one cools meanwhile.
	RetryAfter time.Duration
}

// Cause is what the refusals of one rule on one resource have in common. They
// share it, so that refusing stays cheap.
type Cause struct {
	Resource string
	Kind     string // the guard: "flow"
	RuleID   string
	// Status is the HTTP status that a refusal is, 400 to 599: 429 for a quota that is used
	// up, 503 for a service that protects itself. Anything else, such as 0, stands for 503.
	Status int
	// Threshold is what the rule admits at the time: if it rises and falls by itself,
	// the cause of a refusal has what it was then.
	Threshold float64
	Interval  time.Duration // in which the threshold is admitted; 0 for rules without
	// Because stands before the numbers in the error, if it is why they are so: "cpu 0.94 of
	// 0.90".
	Because string
	// Detail goes on where the numbers in the error end: " in flight" makes it "11 of
	// 10 in flight".
	Detail string
	// Last keeps the last refusal of the rule, if it is not nil. Checks of the same ID
	// that share it share what they count as well, as when a rule is changed.
	Last *LastRefusal
	// State is what the rule is in, nil if it has none. See [State].
	State *State
	// Binds is what the changes of the State have as their resource, if it belongs to all
	// resources that the rule binds: their pattern. Empty: it is the Resource.
	Binds string
}

// Error says it in one line: flow rule "orders-qps" on "GET /orders": 101 of 100
// in 1s; retry in 230ms.
func (e *BlockError) Error() string {
	if e == nil || e.Cause == nil {
		return callerror.ErrBlocked.Error()
	}
	text := fmt.Sprintf("%s rule %q on %q: ", e.Kind, e.RuleID, e.Resource)
	if e.Because != "" {
		text += e.Because + ", "
	}
	text += number(e.Observed) + " of " + number(e.Threshold)
	if e.Interval > 0 {
		text += " in " + e.Interval.String()
	}
	text += e.Detail
	if e.RetryAfter > 0 {
		text += "; retry in " + roundUp(e.RetryAfter).String()
	}
	return text
}

// Unwrap returns leapgate.ErrBlocked.
func (e *BlockError) Unwrap() error { return callerror.ErrBlocked }

// LastBlock returns the error of the last refusal by a rule on the resource of that name, as
// its caller got it, but without its Status; nil if there was none.
func LastBlock(name string, rule stat.RuleSnapshot) *BlockError {
	last := rule.LastRefusal
	if last.At.IsZero() {
		return nil
	}
	return &BlockError{
		Cause: &Cause{
			Resource: name, Kind: rule.Kind, RuleID: rule.ID,
			Threshold: last.Threshold, Interval: rule.Interval, Because: last.Because, Detail: last.Detail,
		},
		Observed: last.Observed, RetryAfter: last.RetryAfter,
	}
}

// roundUp leaves out what nobody wants to read of a wait, and never makes it
// shorter.
func roundUp(wait time.Duration) time.Duration {
	unit := time.Microsecond
	if wait > time.Millisecond {
		unit = time.Millisecond
	}
	return (wait + unit - 1).Truncate(unit)
}

// number leaves out what nobody wants to read of a figure.
func number(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}

// endedError is a refusal because a context ended while the call waited: it is
// ErrBlocked and what the context says.
type endedError struct {
	*BlockError
	ended error
}

func (e *endedError) Error() string   { return e.BlockError.Error() + ": " + e.ended.Error() }
func (e *endedError) Unwrap() []error { return []error{e.BlockError, e.ended} }

// LastRefusal keeps the last refusal of one rule on one resource. The zero value is
// empty and ready for use by any number of goroutines at once.
type LastRefusal struct {
	last atomic.Pointer[refusal]
}

type refusal struct {
	at       int64
	origin   string
	cause    *Cause
	observed float64
	wait     time.Duration
	since    int64 // when the row began, which this is the n-th of
	nth      int
}

// Of the refusals in a row of this time, so many are kept, so that a flood does not
// wait for one cache line.
const (
	rowTime  = int64(time.Millisecond)
	maxInRow = 64
)

func (l *LastRefusal) keep(now int64, origin string, blocked *BlockError) {
	if l == nil {
		return
	}
	since, nth := now, 1
	if old := l.last.Load(); old != nil && uint64(now-old.since) < uint64(rowTime) {
		if since, nth = old.since, old.nth+1; nth > maxInRow {
			return
		}
	}
	l.last.Store(&refusal{now, strings.Clone(origin), blocked.Cause, blocked.Observed, blocked.RetryAfter, since, nth})
}

// load returns the last refusal, by the wall clock, which shows at when the axis shows
// now.
func (l *LastRefusal) load(now int64, at time.Time) stat.Refusal {
	r := l.last.Load()
	if r == nil {
		return stat.Refusal{}
	}
	return stat.Refusal{
		At: at.Add(time.Duration(r.at - now)), Origin: r.origin,
		Observed: r.observed, Threshold: r.cause.Threshold, Because: r.cause.Because, Detail: r.cause.Detail, RetryAfter: r.wait,
	}
}
