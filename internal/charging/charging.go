// Package charging asks the limiters that stand in front of calls, for HTTP and for gRPC: in
// which order, what becomes of what was taken when one refuses, fails or panics, and by which
// keys they count. R is what a call is there, and O what is known there of a limit besides.
package charging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/structured"
	"github.com/leapgate-go/leapgate/limit"
)

// Limit is one limiter and what it counts by. The packages that export such a thing say what
// the fields mean.
type Limit[R, O any] struct {
	Limiter    limit.Limiter  // nil: InFlight
	InFlight   limit.Acquirer // nil: Limiter
	Cost       func(R) int64
	Name       string
	Key        func(R) string
	Skip       func(R) bool
	FailClosed bool

	Policies []string // their names, one at least
	Own      O

	logged  atomic.Int64 // when an error of the limiter was last logged, Unix ns
	hasKeys atomic.Bool  // some call had a key
	keyless atomic.Int64 // calls without a key, while none had one
}

// Set is limits that are asked together.
type Set[R, O any] struct {
	All []*Limit[R, O] // in the order of asking

	Package string // in errors and in the log
	Logger  func() *slog.Logger
	// CannotCount makes the error of a limit that refuses since it cannot count.
	CannotCount func(policy string, wait time.Duration) error
}

// Charge is what a limit has decided about a call.
type Charge[R, O any] struct {
	By  *Limit[R, O]
	Key string
	N   int64 // how much was asked for
	limit.Decision
	Place  limit.Place
	Settle bool // what was charged can be corrected
}

// Refusal is why the limits refuse a call.
type Refusal[R, O any] struct {
	Quota      bool          // the first that refused is a limiter that has been used up
	RetryAfter time.Duration // the longest of all, as far as they were asked; 0 if it is not known
	Policies   []string      // those that are used up
	Last       *Limit[R, O]  // of them; nil if there is none
	Err        error         // that of a limiter that failed or cannot count
}

// Text says why a limit has refused, after what is said before: leaphttp: limit "per-host" is used up;
// retry in 3s.
func Text(before, policy string, cannotCount bool, wait time.Duration) string {
	why, then := "is used up", ""
	if cannotCount {
		why = "cannot count now"
	}
	switch wait {
	case 0:
	case limit.Never:
		then = "; it never admits this"
	default:
		then = "; retry in " + wait.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%s: limit %.64q %s%s", before, policy, why, then)
}

// Asked is what is asked if the call does not say it.
type Asked struct {
	Key string
	N   int64
}

// LoggerOf is slog.Default, as it is then, if there is none.
func LoggerOf(logger *slog.Logger) func() *slog.Logger {
	if logger == nil {
		return slog.Default
	}
	return func() *slog.Logger { return logger }
}

// IsNil reports whether what an interface holds is nil, or nothing.
func IsNil(v any) bool {
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
		return value.IsNil()
	default:
		return false
	}
}

// Unused reports the fields of a configuration, a struct, that are set although they have no effect, and why.
func Unused(cfg any, fault func(format string, args ...any), why string, fields ...string) {
	for _, field := range fields {
		if !reflect.ValueOf(cfg).FieldByName(field).IsZero() {
			fault("%s is set%s", field, why)
		}
	}
}

// WithoutGate is why a field has no effect that only a gate uses.
const WithoutGate = " without a Gate, for which it is; want both"

// Add adds a limit, unless it has none, and reports what is wrong with it. field is how the
// program has named it: "Limits[2]".
func (s *Set[R, O]) Add(field string, c *Limit[R, O], fault func(format string, args ...any)) (added bool) {
	switch {
	case c.InFlight != nil && IsNil(c.InFlight): // what a constructor returns with its error
		fault("%s.InFlight is a nil %T; want a limiter", field, c.InFlight)
		return false
	case c.InFlight != nil:
		if c.Limiter != nil {
			fault("%s has a Limiter and InFlight; want one of them", field)
		}
		if c.Cost != nil {
			fault("%s.Cost is set with InFlight, where each request takes one place; want none", field)
		}
	case c.Limiter == nil:
		fault("%s.Limiter is nil; want a limiter", field)
		return false
	case IsNil(c.Limiter): // what a constructor returns with its error
		fault("%s.Limiter is a nil %T; want a limiter", field, c.Limiter)
		return false
	}
	c.Policies = c.namesOfPolicies()
	for i, name := range c.Policies {
		switch {
		case !structured.IsString(name):
			fault("%s: the name %.64q is no header text; want printable ASCII", field, name)
		case slices.Contains(c.Policies[:i], name) || slices.ContainsFunc(s.All, func(o *Limit[R, O]) bool { return slices.Contains(o.Policies, name) }):
			fault("%s: the name %.64q is there twice; want one for each limit", field, name)
		}
	}
	// See limit.All: what follows the answer of another process is decided and given
	// back in this one, within microseconds.
	i := len(s.All)
	for i > 0 && s.All[i-1].order() > c.order() {
		i--
	}
	s.All = slices.Insert(s.All, i, c)
	return true
}

func (c *Limit[R, O]) namesOfPolicies() []string {
	var l any = c.Limiter
	if c.InFlight != nil {
		l = c.InFlight
	}
	var names []string
	if d, ok := l.(limit.Describer); ok {
		for _, d := range d.Describe() {
			if d.Name == "" {
				d.Name = c.Name
			}
			names = append(names, d.Name)
		}
	}
	if names == nil {
		names = []string{c.Name}
	}
	return names
}

// Remote reports whether the limiter may ask another process.
func (c *Limit[R, O]) Remote() bool {
	r, ok := c.Limiter.(limit.Remote)
	return ok && r.Remote()
}

// order is when a limit is asked. Places are taken last, and so held for no longer than need be.
func (c *Limit[R, O]) order() int {
	switch {
	case c.Remote():
		return 0
	case c.InFlight != nil:
		return 2
	default:
		return 1
	}
}

// PolicyOf is the index of the policy that a decision names, or 0 if the limiter made one up.
func (c *Limit[R, O]) PolicyOf(name string) int {
	if name == "" {
		name = c.Name
	}
	return max(0, slices.Index(c.Policies, name))
}

// Take asks the limits in turn, with ctx. If one refuses, those before it get back what they
// took, and those after it are asked how long they would refuse, so that RetryAfter is true.
// The charges are the decisions as they stand then. after is a context that does not end, for
// giving back. If given is not nil, it says the key and the number, and not the call.
func (s *Set[R, O]) Take(ctx, after context.Context, r R, given *Asked, charges []Charge[R, O]) (_ []Charge[R, O], refusal *Refusal[R, O]) {
	returned := false
	defer func() {
		if !returned { // a Key, a Skip or a limiter of the program panicked
			Refund(after, charges)
		}
	}()
	for _, c := range s.All {
		if c.Skip != nil && c.Skip(r) {
			continue
		}
		if c.InFlight != nil && refusal != nil {
			continue // it has nothing to say on how long to wait
		}
		key, n := "", int64(1)
		if given == nil {
			key = c.Key(r)
			if c.Cost != nil {
				n = max(0, c.Cost(r))
			}
		} else {
			key, n = given.Key, given.N
		}
		if refusal != nil {
			n = 0
		}
		key = Key(key)
		if key == UnknownKey {
			s.noteKeyless(c)
		} else if !c.hasKeys.Load() {
			c.hasKeys.Store(true)
		}
		charges = append(charges, Charge[R, O]{By: c, Key: key, N: n, Settle: c.Cost != nil || given != nil})
		charged := &charges[len(charges)-1]
		d, err := limit.Decision{}, error(nil)
		if c.InFlight != nil {
			charged.Place, d, err = c.InFlight.Acquire(ctx, key)
		} else {
			d, err = c.Limiter.AllowN(ctx, key, n)
		}
		if charged.Decision = d; err != nil || !d.Allowed && d.Unavailable {
			charges = charges[:len(charges)-1] // what does not work is not announced
		}
		if err != nil {
			if refusal == nil && s.refuses(ctx, c, err) {
				refusal = &Refusal[R, O]{Err: fmt.Errorf("%s: limit %q: %w", s.Package, c.Name, err)}
				Refund(after, charges)
			}
			continue
		}
		if d.Allowed {
			continue
		}
		policy := c.Policies[c.PolicyOf(d.Name)]
		if d.Unavailable {
			if refusal == nil {
				refusal = &Refusal[R, O]{Err: s.CannotCount(policy, d.RetryAfter)}
				Refund(after, charges)
			}
			refusal.RetryAfter = max(refusal.RetryAfter, d.RetryAfter)
			continue
		}
		if refusal == nil {
			refusal = &Refusal[R, O]{Quota: c.InFlight == nil}
			Refund(after, charges)
		}
		refusal.RetryAfter = max(refusal.RetryAfter, d.RetryAfter)
		refusal.Policies, refusal.Last = append(refusal.Policies, policy), c
	}
	returned = true
	return charges, refusal
}

// keylessToWarn is how many calls must have no key, and none one, to be worth a warning.
const keylessToWarn = 100

// noteKeyless counts a call without a key, and warns of a limit that has never had one.
func (s *Set[R, O]) noteKeyless(c *Limit[R, O]) {
	if !c.hasKeys.Load() && c.keyless.Add(1) == keylessToWarn {
		s.Logger().Warn(s.Package+": the key of a limit could not be told for any request so far: they all share one key",
			"limit", c.Policies[0], "requests", keylessToWarn)
	}
}

// refuses reports whether an error of a limiter refuses the call.
func (s *Set[R, O]) refuses(ctx context.Context, c *Limit[R, O], err error) bool {
	if ctx.Err() != nil {
		return true // the caller has given up, and the limiter did not fail
	}
	now := time.Now().UnixNano()
	if last := c.logged.Load(); (last == 0 || now-last >= int64(time.Minute)) && c.logged.CompareAndSwap(last, now) {
		s.Logger().Error(s.Package+": a limiter failed", "limit", c.Policies[0], "error", err, "requests refused", c.FailClosed)
	}
	return c.FailClosed || errors.Is(err, limit.ErrKey)
}

// Refund returns what the charges took to their limits. ctx must not end when the call does.
func Refund[R, O any](ctx context.Context, charges []Charge[R, O]) {
	for i := range charges {
		c := &charges[i]
		if c.Charged == 0 {
			continue
		}
		if c.By.InFlight != nil {
			c.Place.Release()
			c.Charged, c.Remaining = 0, c.Remaining+1
			continue
		}
		// An error means that the limiter has failed since: the charge stays until it
		// leaves its window.
		if err := c.By.Limiter.Refund(ctx, c.Key, c.Decision, c.Charged); err == nil {
			c.Remaining = min(c.Remaining+c.Charged, max(c.Limit, c.Remaining))
		}
		c.Charged = 0
	}
}
