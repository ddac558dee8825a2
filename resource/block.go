package resource

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrBlocked is what every refusal is, and nothing else: errors.Is(err, ErrBlocked).
var ErrBlocked = errors.New("leapgate: blocked")

// BlockError tells who refused a call and why. The fields of its [Cause] read as
// its own: err.Resource, err.Kind, err.RuleID, err.Threshold. It does not change.
// A test that needs one makes it with a Cause: &BlockError{Cause: &Cause{…}}.
type BlockError struct {
	*Cause

	// Observed is what was held against the threshold, the refused call
	// included: 101 of 100.
	Observed float64
	// RetryAfter is how long from now the call would pass if nobody else came:
	// the longest wait among the rules that bind it. It is 0 when that cannot be
	// told, as with a threshold of 0.
	RetryAfter time.Duration
}

// Cause is what the refusals of one rule on one resource have in common. They
// share it, so that refusing stays cheap.
type Cause struct {
	Resource  string
	Kind      string // the guard: "flow"
	RuleID    string
	Threshold float64
	Interval  time.Duration // in which the threshold is admitted; 0 for rules without
}

// Error says it in one line: flow rule "orders-qps" on "GET /orders": 101 of 100
// in 1s; retry in 230ms.
func (e *BlockError) Error() string {
	if e == nil || e.Cause == nil {
		return ErrBlocked.Error()
	}
	text := fmt.Sprintf("%s rule %q on %q: %s of %s", e.Kind, e.RuleID, e.Resource,
		number(e.Observed), number(e.Threshold))
	if e.Interval > 0 {
		text += " in " + e.Interval.String()
	}
	if e.RetryAfter > 0 {
		text += "; retry in " + roundUp(e.RetryAfter).String()
	}
	return text
}

// Unwrap gives [ErrBlocked].
func (e *BlockError) Unwrap() error { return ErrBlocked }

// roundUp leaves out what nobody wants to read of a wait, and never makes it
// shorter.
func roundUp(wait time.Duration) time.Duration {
	unit := time.Microsecond
	if wait > time.Millisecond {
		unit = time.Millisecond
	}
	return (wait + unit - 1).Truncate(unit)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
