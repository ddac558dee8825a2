package limit

import (
	"context"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/clock"
)

// RateLimiter admits or refuses by key: so many in a time. Make one with [NewCounter],
// [NewLog], [NewBucketed] or [NewBurst], which differ in how they count. All methods may be called by any
// number of goroutines at once.
type RateLimiter struct {
	terms
	*answers
	engine engine
	packed *packedCounter // behind engine, if it is that
	gcra   *gcra          // the same
	window time.Duration
	clock  clock.Clock
	ended  atomic.Bool
	end    chan struct{} // closed with ended
}

func newRateLimiter(cfg Config, e engine) *RateLimiter {
	l := &RateLimiter{
		answers: newAnswers(cfg), engine: e, window: cfg.Window, clock: clock.New(cfg.Now), end: make(chan struct{}),
	}
	l.init(cfg)
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
	err = l.allow(ctx, key, asked{n: 1, limit: Default}, &d)
	return d, err
}

// AllowN admits n of key, or refuses and takes nothing: the decision says which.
// n = 0 asks whether one would pass, and takes nothing. The error is not a refusal: it
// is [ErrKey], [ErrCount], [ErrClosed], or that of a ctx that has ended, and nothing
// was taken. The clock is read once. A nil ctx never ends.
func (l *RateLimiter) AllowN(ctx context.Context, key string, n int64) (d Decision, err error) {
	err = l.allow(ctx, key, asked{n: n, limit: Default}, &d)
	return d, err
}

// AllowLimit is AllowN under a limit of the call's own, for programs that know the plan of a
// client when it calls: 0, which refuses, to Config.MaxLimit; [Exempt] or [Default]. What the
// key holds is the same whatever the limit. The error is also [ErrCount] if there is no such
// limit.
func (l *RateLimiter) AllowLimit(ctx context.Context, key string, n, limit int64) (d Decision, err error) {
	err = l.allow(ctx, key, asked{n: n, limit: limit}, &d)
	return d, err
}

// AllowAtMost admits as many of n as there is room for: Decision.Charged says how many;
// where Limit is [Exempt], all of them. It refuses if not one fits; RetryAfter is then how
// long until one does. Otherwise it is AllowN. In mode Shadow, WouldRefuse is set if not all fit.
func (l *RateLimiter) AllowAtMost(ctx context.Context, key string, n int64) (d Decision, err error) {
	err = l.allow(ctx, key, asked{n: n, limit: Default, some: true}, &d)
	return d, err
}

// asked is what a caller wants.
type asked struct {
	n, limit int64
	some     bool // of n, if there is no room for all
}

// allow writes the decision where it is wanted: copying it from hand to hand takes as long
// as making it.
func (l *RateLimiter) allow(ctx context.Context, key string, a asked, d *Decision) error {
	if err := l.check(ctx, key, a.n); err != nil {
		return err
	}
	limit, err := l.limitOf(key, a.limit)
	if err != nil {
		return err
	}
	now := int64(0) // as clock.Now does, but inlined
	if l.clock.Given == nil {
		now = l.clock.Real()
	} else {
		now = l.clock.Given()
	}
	if a.n > 0 && !a.some && l.enforces(limit) &&
		(l.packed != nil && l.packed.answerKnown(d, now, limit, key, a.n) || l.gcra != nil && l.gcra.answerKnown(d, now, limit, 0, key, a.n)) {
		d.Name = l.name
		if d.Allowed {
			l.allowed.Add(1)
		} else {
			l.count(d, key, a.n)
		}
		switch {
		case d.Remaining > 0:
		case a.n == 1 && !d.Allowed: // as setMoreAfter, without a call
			d.MoreAfter = d.RetryAfter
		default:
			l.setMoreAfter(d, now, limit, key, a.n)
		}
		return nil
	}
	l.answer(d, key, l.question(now, limit, a))
	l.count(d, key, a.n)
	return nil
}

// AllowNAt is AllowN at a given time, in nanoseconds on the axis of Config.Now. What
// would be an error is a refusal, and its RetryAfter is [Never].
func (l *RateLimiter) AllowNAt(now int64, key string, n int64) (d Decision) {
	if l.check(nil, key, n) != nil { //nolint:staticcheck // a nil context never ends
		return l.refusal()
	}
	limit, err := l.limitOf(key, Default)
	if err != nil {
		return l.refusal()
	}
	l.answer(&d, key, l.question(now, limit, asked{n: n}))
	l.count(&d, key, n)
	return d
}

// question is whether n pass. With 0 it is whether one would.
func (l *RateLimiter) question(now, limit int64, a asked) question {
	return question{now: now, limit: limit, n: max(1, a.n), take: a.n > 0, some: a.some}
}

// answer decides. [Stats] does not count it.
func (l *RateLimiter) answer(d *Decision, key string, q question) {
	if !l.counts(q.limit) {
		*d = unlimited(l.name)
		return
	}
	*d = l.engine.decide(key, q)
	d.Name = l.name
	switch {
	case !l.enforces(q.limit):
		short := q.some && d.Charged < q.n
		d.overlook()
		d.WouldRefuse = d.WouldRefuse || short
	case d.Remaining == 0 || !q.take:
		l.setMoreAfter(d, q.now, q.limit, key, q.n)
	}
}

// setMoreAfter sets MoreAfter of what was decided about n of key.
func (l *RateLimiter) setMoreAfter(d *Decision, now, limit int64, key string, n int64) {
	if !d.Allowed && d.Remaining == 0 && n <= 1 {
		d.MoreAfter = d.RetryAfter
		return
	}
	d.MoreAfter = l.engine.moreAfter(now, limit, key, d.Crowded, d.Remaining)
}

// ask says what n would get, and takes nothing.
func (l *RateLimiter) ask(now int64, key string, n int64) (d Decision) {
	limit, err := l.limitOf(key, Default)
	if err != nil {
		return l.refusal()
	}
	l.answer(&d, key, question{now: now, limit: limit, n: n})
	return d
}

// refusal is the answer to what is no question.
func (l *RateLimiter) refusal() Decision {
	return Decision{Name: l.name, Limit: l.limit.Load(), RetryAfter: Never}
}

// Peek returns how things stand for a key: whether one more would pass now, how many,
// when. It takes nothing. For a bad key, or when the limiter is closed, nothing would.
func (l *RateLimiter) Peek(key string) Decision {
	if l.check(nil, key, 0) != nil { //nolint:staticcheck // a nil context never ends
		return l.refusal()
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
// Those for a [NewBurst] do: each has a turn, which it keeps if the limit changes. Waits are in
// real time: with a given clock, n are asked for again after RetryAfter of real time. A limit that
// has changed meanwhile is seen then.
func (l *RateLimiter) Wait(ctx context.Context, key string, n int64) (Decision, error) {
	if l.gcra != nil && n > 0 {
		return l.waitForTurn(ctx, key, n)
	}
	tried := false
	d, err := wait(ctx, n, l.end, func() (d Decision, err error) {
		if err := l.check(ctx, key, n); err != nil {
			return d, err
		}
		limit, err := l.limitOf(key, Default)
		if err != nil {
			return d, err
		}
		tried = true
		l.answer(&d, key, l.question(l.clock.Now(), limit, asked{n: n}))
		return d, nil
	})
	switch {
	case err == nil:
		l.count(&d, key, n)
	case tried:
		l.refused.Add(1)
	}
	return d, err
}

// waitForTurn is Wait where a call that waits is charged at once, for later.
func (l *RateLimiter) waitForTurn(ctx context.Context, key string, n int64) (d Decision, err error) {
	if err := l.check(ctx, key, n); err != nil {
		return d, err
	}
	limit, err := l.limitOf(key, Default)
	if err != nil {
		return d, err
	}
	q := l.question(l.clock.Now(), limit, asked{n: n})
	if ctx == nil {
		ctx = context.Background()
	}
	if l.enforces(limit) {
		q.patience = maxTime
		if deadline, ok := ctx.Deadline(); ok {
			q.patience = time.Until(deadline) - 1
		}
	}
	l.answer(&d, key, q)
	if d.Charged == 0 || d.RetryAfter == 0 {
		l.count(&d, key, n)
		return d, nil
	}
	timer := time.NewTimer(d.RetryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		d.ResetAfter -= d.RetryAfter
		d.RetryAfter = 0
		l.count(&d, key, n)
		return d, nil
	case <-ctx.Done():
		err = &WaitError{Name: d.Name, N: n, RetryAfter: d.RetryAfter, Cause: ctx.Err()}
	case <-l.end:
		err = ErrClosed
	}
	l.refused.Add(1)
	l.engine.refund(key, d, l.correction(key, d, n))
	return Decision{}, err
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
		l.engine.refund(key, d, l.correction(key, d, n))
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
//     as it forgets the rest. What a key holds beyond 2×[MaxLimit] is not counted, and neither is
//     what a [NewCounter] with a MaxLimit up to 16,777,214 was charged beyond 16,777,214 in one window.
//
// A decision must be settled once. One that was refused charged nothing, so all of
// actual is charged; but nothing is for a key that is [Exempt], nor for what was admitted
// only because the mode is not Enforce. The error is [ErrKey], [ErrClosed], or [ErrCount] if actual is
// below 0 or above [MaxLimit]. That ctx has ended does not matter: the cost remains.
func (l *RateLimiter) Settle(_ context.Context, key string, d Decision, actual int64) error {
	if err := l.check(nil, key, actual); err != nil { //nolint:staticcheck // see the comment
		return err
	}
	switch more := actual - d.Charged; {
	case actual > MaxLimit:
		return badCount(actual)
	case d.generation == uncounted:
	case more > 0:
		l.engine.charge(key, l.correction(key, d, more))
	case more < 0:
		l.engine.refund(key, d, l.correction(key, d, -more))
	}
	return nil
}

// correction is by how much more or less is charged than d did, under its limit.
func (l *RateLimiter) correction(key string, d Decision, n int64) question {
	limit := d.Limit
	if limit <= 0 {
		limit, _ = l.limitOf(key, Default)
	}
	return question{now: l.clock.Now(), limit: max(0, limit), n: n}
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
	l.addTo(&s)
	return s
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
