package limit

import (
	"context"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/internal/stripes"
)

// engine is an algorithm over a store of keys. Keys, counts and limits are checked
// before it is called.
type engine interface {
	// decide admits n of key at now and charges it, or refuses; without take, it only
	// says what it would do. n is 1 or more.
	decide(now int64, key string, n int64, take bool) Decision
	// charge takes n, whatever the limit.
	charge(now int64, key string, n int64)
	// refund gives back n of what d charged.
	refund(key string, d Decision, n int64)
	forget(key string)
	sweep(now int64)
	stats() Stats
}

// core is what the limiters have in common.
type core struct {
	engine    engine
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

func newCore(cfg Config, e engine) core {
	c := core{
		engine: e, name: cfg.Name, limit: cfg.Limit, window: cfg.Window, clock: clock.New(cfg.Now),
		answers: new(answers), end: make(chan struct{}),
	}
	if cfg.Offenders > 0 {
		c.offenders = newOffenders(cfg.Offenders)
	}
	return c
}

// check tells what is wrong with a call, if anything.
func (c *core) check(ctx context.Context, key string, n int64) error {
	switch {
	case key == "" || len(key) > MaxKeyLength:
		return badKey(key)
	case n < 0:
		return badCount(n)
	case c.ended.Load():
		return ErrClosed
	}
	return ended(ctx)
}

// Allow is shorthand for AllowN of 1.
func (c *core) Allow(ctx context.Context, key string) (Decision, error) {
	return c.AllowN(ctx, key, 1)
}

// AllowN admits n of key, or refuses and takes nothing: the decision says which.
// n = 0 asks whether one would pass, and takes nothing. The error is not a refusal: it
// is [ErrKey], [ErrCount], [ErrClosed], or that of a ctx that has ended, and nothing
// was taken. The clock is read once. A nil ctx never ends.
func (c *core) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	if err := c.check(ctx, key, n); err != nil {
		return Decision{}, err
	}
	var now int64 // as clock.Now does, but inlined
	if c.clock.Given == nil {
		now = c.clock.Real()
	} else {
		now = c.clock.Given()
	}
	return c.decide(now, key, n), nil
}

// AllowNAt is AllowN at a given time, in nanoseconds on the axis of Config.Now. What
// would be an error is a refusal, and its RetryAfter is [Never].
func (c *core) AllowNAt(now int64, key string, n int64) Decision {
	if c.check(nil, key, n) != nil { //nolint:staticcheck // a nil context never ends
		return c.refusal(Never)
	}
	return c.decide(now, key, n)
}

func (c *core) decide(now int64, key string, n int64) Decision {
	d := c.engine.decide(now, key, max(1, n), n > 0)
	d.Name = c.name
	c.count(key, n, d.Allowed)
	if d.Remaining == 0 || n == 0 {
		c.tellMore(&d, now, key, n)
	}
	return d
}

// count counts an answer.
func (c *core) count(key string, n int64, allowed bool) {
	if allowed {
		c.answers.allowed.Add(1)
	} else {
		c.countRefusal(key, n)
	}
}

func (c *core) countRefusal(key string, n int64) {
	c.answers.refused.Add(1)
	if c.offenders != nil && n > 0 {
		c.offenders.note(key)
	}
}

// ask says what n would get, and takes nothing.
func (c *core) ask(now int64, key string, n int64) Decision {
	d := c.engine.decide(now, key, n, false)
	d.Name = c.name
	c.tellMore(&d, now, key, n)
	return d
}

func (c *core) refusal(retryAfter time.Duration) Decision {
	return Decision{Name: c.name, Limit: c.limit, RetryAfter: retryAfter}
}

// Peek tells how things stand for a key: whether one more would pass now, how many,
// when. It takes nothing. For a bad key, or when the limiter is closed, nothing would.
func (c *core) Peek(key string) Decision {
	if c.check(nil, key, 0) != nil { //nolint:staticcheck // a nil context never ends
		return c.refusal(Never)
	}
	return c.ask(c.clock.Now(), key, 1)
}

// Wait waits until n of key are admitted. It gives up at once, with the decision that
// refuses, if they can never pass, or not before the deadline of ctx. If ctx ends
// meanwhile, the error is a [*WaitError], and nothing was taken; if the limiter is
// closed, it is [ErrClosed].
//
// [Stats] counts a Wait that comes to nothing once it has asked as refused.
//
// Those who wait do not queue: when there is room for one, whoever comes first gets it.
// Waits are in real time: with a given clock, n are asked for again after RetryAfter of
// real time.
func (c *core) Wait(ctx context.Context, key string, n int64) (Decision, error) {
	asked := false
	d, err := wait(ctx, n, c.end, func() (Decision, error) {
		if err := c.check(ctx, key, n); err != nil {
			return Decision{}, err
		}
		asked = true
		d := c.engine.decide(c.clock.Now(), key, max(1, n), n > 0)
		d.Name = c.name
		return d, nil
	})
	switch {
	case err == nil:
		c.count(key, n, d.Allowed)
	case asked:
		c.answers.refused.Add(1)
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
func (c *core) Refund(_ context.Context, key string, d Decision, n int64) error {
	if err := c.check(nil, key, n); err != nil { //nolint:staticcheck // see the comment
		return err
	}
	if n > d.Charged {
		return badRefund(n, d)
	}
	if n > 0 {
		c.engine.refund(key, d, n)
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
func (c *core) Settle(_ context.Context, key string, d Decision, actual int64) error {
	if err := c.check(nil, key, actual); err != nil { //nolint:staticcheck // see the comment
		return err
	}
	switch more := actual - d.Charged; {
	case actual > MaxLimit:
		return badCount(actual)
	case more > 0:
		c.engine.charge(c.clock.Now(), key, more)
	case more < 0:
		c.engine.refund(key, d, -more)
	}
	return nil
}

// Reset forgets what was charged to a key. Refunds and settlements of what was charged
// before do not touch what is charged afterwards; a settlement of more still adds.
func (c *core) Reset(key string) {
	if c.check(nil, key, 0) == nil { //nolint:staticcheck // a nil context never ends
		c.engine.forget(key)
	}
}

// Sweep takes out all keys that hold nothing any more, and gives back their memory.
// There is no need to call it: each new key clears away a few. It is for programs that
// had many keys and expect few. It looks at all of them, a few hundred at a time; the
// calls of others go on.
func (c *core) Sweep() {
	if !c.ended.Load() {
		c.engine.sweep(c.clock.Now())
	}
}

// Stats gives the figures of the limiter. They are read one after the other.
func (c *core) Stats() Stats {
	s := c.engine.stats()
	s.Allowed, s.Refused = c.answers.allowed.Load(), c.answers.refused.Load()
	return s
}

// Offenders gives the keys that were refused most often, at most k, most refused
// first. It is empty unless Config.Offenders was set. See [Offender].
func (c *core) Offenders(k int) []Offender {
	if c.offenders == nil {
		return nil
	}
	return c.offenders.top(k)
}

// ForgetOffenders begins the count of refusals anew, so that those of long ago do not
// hide those of today.
func (c *core) ForgetOffenders() {
	if c.offenders != nil {
		c.offenders.forget()
	}
}

// Close ends the limiter: calls get [ErrClosed], and so do those that wait; who waits
// for a [Group] hears of it when its wait is over. It may be called more than once. The
// error is always nil.
func (c *core) Close() error {
	if c.ended.CompareAndSwap(false, true) {
		close(c.end)
	}
	return nil
}
