package limit

import (
	"context"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/internal/stripes"
)

// RateLimiter admits or refuses by key: so many in a time. Make one with [NewCounter],
// [NewLog] or [NewBucketed], which differ in how they count. All methods may be called by any
// number of goroutines at once.
type RateLimiter struct {
	engine    engine
	packed    *packedCounter // behind engine, if it is that
	name      string
	limit     int64
	window    time.Duration
	clock     clock.Clock
	offenders *offenders // nil: nobody asked for them
	answers   *answers
	ended     atomic.Bool
	end       chan struct{} // closed with ended
}

// answers are how many calls were admitted, and how many not.
type answers struct{ allowed, refused stripes.Counter }

func newRateLimiter(cfg Config, e engine) *RateLimiter {
	l := &RateLimiter{
		engine: e, name: cfg.Name, limit: cfg.Limit, window: cfg.Window, clock: clock.New(cfg.Now),
		answers: new(answers), end: make(chan struct{}),
	}
	if cfg.Offenders > 0 {
		l.offenders = newOffenders(cfg.Offenders)
	}
	return l
}

// check returns what is wrong with a call, if anything.
func (l *RateLimiter) check(ctx context.Context, key string, n int64) error {
	switch {
	case key == "" || len(key) > MaxKeyLength:
		return badKey(key)
	case n < 0:
		return badCount(n)
	case l.ended.Load():
		return ErrClosed
	}
	return ended(ctx)
}

// Allow is shorthand for AllowN of 1.
func (l *RateLimiter) Allow(ctx context.Context, key string) (d Decision, err error) {
	err = l.allow(ctx, key, 1, &d)
	return d, err
}

// AllowN admits n of key, or refuses and takes nothing: the decision says which.
// n = 0 asks whether one would pass, and takes nothing. The error is not a refusal: it
// is [ErrKey], [ErrCount], [ErrClosed], or that of a ctx that has ended, and nothing
// was taken. The clock is read once. A nil ctx never ends.
func (l *RateLimiter) AllowN(ctx context.Context, key string, n int64) (d Decision, err error) {
	err = l.allow(ctx, key, n, &d)
	return d, err
}

// allow writes the decision where it is wanted: copying it from hand to hand takes as long
// as making it.
func (l *RateLimiter) allow(ctx context.Context, key string, n int64, d *Decision) error {
	if err := l.check(ctx, key, n); err != nil {
		return err
	}
	now := int64(0) // as clock.Now does, but inlined
	if l.clock.Given == nil {
		now = l.clock.Real()
	} else {
		now = l.clock.Given()
	}
	if l.packed != nil && n > 0 && l.packed.answerKnown(d, now, l.limit, key, n) {
		d.Name = l.name
		if d.Allowed {
			l.answers.allowed.Add(1)
		} else {
			l.countRefusal(key, n)
		}
		switch {
		case d.Remaining > 0:
		case n == 1 && !d.Allowed: // as setMoreAfter, without a call
			d.MoreAfter = d.RetryAfter
		default:
			l.setMoreAfter(d, now, key, n)
		}
		return nil
	}
	l.decide(d, now, key, n)
	return nil
}

// AllowNAt is AllowN at a given time, in nanoseconds on the axis of Config.Now. What
// would be an error is a refusal, and its RetryAfter is [Never].
func (l *RateLimiter) AllowNAt(now int64, key string, n int64) Decision {
	if l.check(nil, key, n) != nil { //nolint:staticcheck // a nil context never ends
		return l.refusal(Never)
	}
	var d Decision
	l.decide(&d, now, key, n)
	return d
}

func (l *RateLimiter) decide(d *Decision, now int64, key string, n int64) {
	*d = l.engine.decide(key, l.question(now, n))
	d.Name = l.name
	l.count(key, n, d.Allowed)
	if d.Remaining == 0 || n == 0 {
		l.setMoreAfter(d, now, key, n)
	}
}

// question is whether n pass. With 0 it is whether one would.
func (l *RateLimiter) question(now, n int64) question {
	return question{now: now, limit: l.limit, n: max(1, n), take: n > 0}
}

// setMoreAfter sets MoreAfter of what was decided about n of key.
func (l *RateLimiter) setMoreAfter(d *Decision, now int64, key string, n int64) {
	if !d.Allowed && d.Remaining == 0 && n <= 1 {
		d.MoreAfter = d.RetryAfter
		return
	}
	d.MoreAfter = l.engine.moreAfter(now, l.limit, key, d.Crowded, d.Remaining)
}

// count counts an answer.
func (l *RateLimiter) count(key string, n int64, allowed bool) {
	if allowed {
		l.answers.allowed.Add(1)
	} else {
		l.countRefusal(key, n)
	}
}

func (l *RateLimiter) countRefusal(key string, n int64) {
	l.answers.refused.Add(1)
	if l.offenders != nil && n > 0 {
		l.offenders.note(key)
	}
}

// ask says what n would get, and takes nothing.
func (l *RateLimiter) ask(now int64, key string, n int64) Decision {
	d := l.engine.decide(key, question{now: now, limit: l.limit, n: n})
	d.Name = l.name
	l.setMoreAfter(&d, now, key, n)
	return d
}

func (l *RateLimiter) refusal(retryAfter time.Duration) Decision {
	return Decision{Name: l.name, Limit: l.limit, RetryAfter: retryAfter}
}

// Peek returns how things stand for a key: whether one more would pass now, how many,
// when. It takes nothing. For a bad key, or when the limiter is closed, nothing would.
func (l *RateLimiter) Peek(key string) Decision {
	if l.check(nil, key, 0) != nil { //nolint:staticcheck // a nil context never ends
		return l.refusal(Never)
	}
	return l.ask(l.clock.Now(), key, 1)
}

// Wait waits until n of key are admitted. It gives up at once, with the decision that
// refuses, if they can never pass, or not before the deadline of ctx. If ctx ends
// meanwhile, the error is a [*WaitError], and nothing was taken; if the limiter is
// closed, it is [ErrClosed].
//
// [Stats] counts a Wait that comes to nothing once it has asked as refused.
//
// Calls that wait do not queue: when there is room for one, the first that asks gets it.
// Waits are in real time: with a given clock, n are asked for again after RetryAfter of
// real time.
func (l *RateLimiter) Wait(ctx context.Context, key string, n int64) (Decision, error) {
	asked := false
	d, err := wait(ctx, n, l.end, func() (Decision, error) {
		if err := l.check(ctx, key, n); err != nil {
			return Decision{}, err
		}
		asked = true
		d := l.engine.decide(key, l.question(l.clock.Now(), n))
		d.Name = l.name
		return d, nil
	})
	switch {
	case err == nil:
		l.count(key, n, d.Allowed)
	case asked:
		l.answers.refused.Add(1)
	}
	return d, err
}

// wait asks until the answer is yes, or will not be in time.
func wait(ctx context.Context, n int64, end <-chan struct{}, ask func() (Decision, error)) (Decision, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	waited := false
	for {
		d, err := ask()
		switch {
		case err != nil && waited && ctx.Err() != nil:
			return Decision{}, &WaitError{N: n, Cause: ctx.Err()}
		case err != nil || d.Allowed || d.RetryAfter == Never:
			return d, err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d.RetryAfter {
			return d, nil
		}
		timer := time.NewTimer(d.RetryAfter)
		select {
		case <-timer.C:
			waited = true
		case <-ctx.Done():
			timer.Stop()
			return Decision{}, &WaitError{Name: d.Name, N: n, RetryAfter: d.RetryAfter, Cause: ctx.Err()}
		case <-end:
			timer.Stop()
			return Decision{}, ErrClosed
		}
	}
}

// Refund gives back n of what d charged to key: to the window that was charged. If
// that is over, or the key was reset or evicted meanwhile, the refund is dropped. A
// decision must not be refunded by more than it charged in all. The error is
// [ErrKey], [ErrClosed], or [ErrCount] if n is below 0 or more than d charged. That ctx
// has ended does not matter.
func (l *RateLimiter) Refund(_ context.Context, key string, d Decision, n int64) error {
	if err := l.check(nil, key, n); err != nil { //nolint:staticcheck // see the comment
		return err
	}
	if n > d.Charged {
		return badRefund(n, d)
	}
	if n > 0 {
		l.engine.refund(key, d, n)
	}
	return nil
}

// Settle corrects what d charged to key, when the cost is known only afterwards: an
// estimate is taken with AllowN, and Settle makes it into actual.
//
//   - If actual is less, the difference is refunded, as Refund does it.
//   - If it is more, the difference is charged now, whatever the limit: it was spent.
//     The key is then over its limit, and is refused until enough has left the window;
//     Remaining is 0, never less. A window forgets what was charged beyond the limit
//     as it forgets the rest. What a key holds beyond 2×[MaxLimit] is not counted.
//
// A decision must be settled once. One that was refused charged nothing, so all of
// actual is charged. The error is [ErrKey], [ErrClosed], or [ErrCount] if actual is
// below 0 or above [MaxLimit]. That ctx has ended does not matter: the cost remains.
func (l *RateLimiter) Settle(_ context.Context, key string, d Decision, actual int64) error {
	if err := l.check(nil, key, actual); err != nil { //nolint:staticcheck // see the comment
		return err
	}
	switch more := actual - d.Charged; {
	case actual > MaxLimit:
		return badCount(actual)
	case more > 0:
		l.engine.charge(l.clock.Now(), key, more)
	case more < 0:
		l.engine.refund(key, d, -more)
	}
	return nil
}

// Reset forgets what was charged to a key. Refunds and settlements of what was charged
// before do not touch what is charged afterwards; a settlement of more still adds.
func (l *RateLimiter) Reset(key string) {
	if l.check(nil, key, 0) == nil { //nolint:staticcheck // a nil context never ends
		l.engine.forget(key)
	}
}

// Sweep takes out all keys that hold nothing any more, and gives back their memory.
// There is no need to call it: each new key clears away a few. It is for programs that
// had many keys and expect few. It looks at all of them, a few hundred at a time; the
// calls of others go on.
func (l *RateLimiter) Sweep() {
	if !l.ended.Load() {
		l.engine.sweep(l.clock.Now())
	}
}

// Stats returns the figures of the limiter. They are read one after the other.
func (l *RateLimiter) Stats() Stats {
	s := l.engine.stats()
	s.Allowed, s.Refused = l.answers.allowed.Load(), l.answers.refused.Load()
	return s
}

// Offenders returns the keys that were refused most often, at most k, most refused
// first. It is empty unless Config.Offenders was set. See [Offender].
func (l *RateLimiter) Offenders(k int) []Offender {
	if l.offenders == nil {
		return nil
	}
	return l.offenders.top(k)
}

// ForgetOffenders begins the count of refusals anew, so that those of long ago do not
// hide those of today.
func (l *RateLimiter) ForgetOffenders() {
	if l.offenders != nil {
		l.offenders.forget()
	}
}

// Close ends the limiter: calls get [ErrClosed], and so do those that wait; a call
// that waits for a [Group] gets it when its wait is over. It may be called more than once. The
// error is always nil.
func (l *RateLimiter) Close() error {
	if l.ended.CompareAndSwap(false, true) {
		close(l.end)
	}
	return nil
}
