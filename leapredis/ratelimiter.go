package leapredis

import (
	"context"
	"fmt"

	"github.com/leapgate-go/leapgate/internal/keys"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// RateLimiter is a limiter whose count is kept by a server. Make one with [NewCounter],
// [NewLog] or [NewBurst]. All methods may be called by any number of goroutines at once.
type RateLimiter struct {
	remote
	algorithm algorithm
	keys      *keys.Table[station]
	leases    *leases // nil: every call asks the server
	fallback  fallback
}

// newRateLimiter makes a limiter; twin makes the one of package limit that answers with [Local].
func newRateLimiter(cfg Config, l *link, a algorithm, twin func(limit.Config) (*limit.RateLimiter, error)) *RateLimiter {
	c := &RateLimiter{algorithm: a}
	c.begin(&cfg, l)
	c.keys = stations(cfg.MaxKeys, cfg.LeaseTime)
	l.giveBack = c.giveBack
	if counter, ok := a.(*counterScripts); ok && cfg.Lease > 1 {
		c.leases = &leases{most: cfg.Lease, lasts: cfg.LeaseTime, counting: counter}
		c.leases.returns.now = l.clock.Now
		c.leases.returns.gap = cfg.LeaseTime / 16
		c.leases.returns.patience = cfg.Timeout
		c.leases.returns.back = c.endLease
	}
	c.fallback.init(&cfg, twin, &c.instances)
	return c
}

// Allow is shorthand for AllowN of 1.
func (c *RateLimiter) Allow(ctx context.Context, key string) (limit.Decision, error) {
	return c.AllowN(ctx, key, 1)
}

// AllowN admits n of key, or refuses and takes nothing: the decision says which. n = 0
// asks whether one would pass, and takes nothing. It takes no longer than Config.Timeout.
//
// The error is not a refusal: it is [limit.ErrKey], [limit.ErrCount], [limit.ErrClosed],
// or that of a ctx that has ended. Nothing was taken then, unless ctx ended while the server
// was asked. What the server takes stays taken in that case, and a refusal is remembered, so
// that a caller gains nothing by giving up. It is not an error if no server answers: see
// [Policy]. A nil ctx never ends.
func (c *RateLimiter) AllowN(ctx context.Context, key string, n int64) (limit.Decision, error) {
	return c.allow(ctx, key, asked{n: n, limit: limit.Default})
}

// AllowLimit is AllowN under a limit of the call's own, for programs that know the plan of a
// client when it calls: 0, which refuses, to Config.MaxLimit; [limit.Exempt], with which the
// server is not asked, or [limit.Default]. What the key holds is the same whatever the limit.
// The error is also [limit.ErrCount] if there is no such limit.
func (c *RateLimiter) AllowLimit(ctx context.Context, key string, n, limit int64) (limit.Decision, error) {
	return c.allow(ctx, key, asked{n: n, limit: limit})
}

// AllowAtMost admits as many of n as there is room for: Decision.Charged says how many.
// It refuses if not one fits; RetryAfter is then how long until one does. Otherwise it is
// AllowN. It leases no permits beyond n, and uses those that there are.
func (c *RateLimiter) AllowAtMost(ctx context.Context, key string, n int64) (limit.Decision, error) {
	return c.allow(ctx, key, asked{n: n, limit: limit.Default, some: n > 1})
}

// asked is what a caller wants.
type asked struct {
	n, limit int64
	some     bool // of n, if there is no room for all
}

// needs is how many must fit, else the answer is no.
func (a *asked) needs() int64 {
	if a.some {
		return 1
	}
	return max(1, a.n)
}

func (c *RateLimiter) allow(ctx context.Context, key string, a asked) (d limit.Decision, err error) {
	if err := c.check(ctx, key, a.n); err != nil {
		return d, err
	}
	if a.limit, err = c.limitOf(key, a.limit); err != nil {
		return d, err
	}
	if !c.counts(a.limit) {
		c.allowed.Add(min(1, a.n))
		return c.unlimited(), nil
	}
	now := c.link.clock.Now()
	hash := c.keys.Hash(key)
	node := c.keys.Find(hash, key)
	if node != nil && c.leases != nil && a.n > 0 && c.leases.serve(&d, &node.Value, now, a.limit, a.n) {
		d.Name = c.name
		if !c.enforces() {
			overlook(&d)
		}
		return d, nil
	}
	return c.decide(ctx, node, hash, key, a, now)
}

// Peek returns how things stand for a key: whether one more would pass now, how many, when.
// It takes nothing. It asks the server, or the [Policy] if none answers, and knows
// nothing of permits that are leased. The errors are those of AllowN.
func (c *RateLimiter) Peek(ctx context.Context, key string) (d limit.Decision, err error) {
	if err := c.check(ctx, key, 0); err != nil {
		return d, err
	}
	most, err := c.limitOf(key, limit.Default)
	switch {
	case err != nil:
		return d, err
	case !c.counts(most):
		return c.unlimited(), nil
	}
	r, err := c.question(ctx, question{wire: c.wire(key), limit: most, n: 1, most: takeNothing})
	if err == nil {
		d = c.algorithm.read(r, most, 1)
		d.Name, d.Ticket = c.name, 0
	} else if d, err = c.without(ctx, err, key, asked{limit: most}); err != nil {
		return d, err
	}
	if !c.enforces() {
		overlook(&d)
	}
	return d, nil
}

// Reset forgets what was charged to a key, on the server and in this process. Permits of
// it that another process has leased, or that are just on their way here, are served until
// the lease ends. Refunds and settlements of what was charged before do not touch what is
// charged afterwards; a settlement of more still adds. The error is [limit.ErrKey],
// [limit.ErrClosed], that of ctx, [ErrAway], or a [*ReplyError] if the key on the server is
// no limiter's.
func (c *RateLimiter) Reset(ctx context.Context, key string) error {
	if err := c.check(ctx, key, 0); err != nil {
		return err
	}
	c.fallback.reset(key)
	n := c.keys.Find(c.keys.Hash(key), key)
	if n != nil && c.leases != nil {
		c.leases.drop(&n.Value)
	}
	_, err := c.send(ctx, c.algorithm.reset(c.wire(key)))
	c.forget(key)
	return err
}

// forget forgets that a key was refused.
func (c *RateLimiter) forget(key string) {
	if n := c.keys.Find(c.keys.Hash(key), key); n != nil {
		n.Value.refusal.Store(nil)
	}
}

// Refund gives back n of what d charged to key: to the window that was charged, or to a
// lease of it. If that is over, or the key was reset meanwhile, the refund is dropped. It
// is sent once: if no server answers, the error is [ErrAway], and it is not known whether
// it was done. A decision must not be refunded by more than it charged in all. What was
// admitted without the server is given back where it was taken. A limiter of [NewLog] drops a
// refund, with a nil error, if more than 1,000 admissions of the key came after the charge.
//
// The error is also [limit.ErrKey], [limit.ErrClosed], [limit.ErrCount] if n is below 0 or
// more than d charged, or a [*ReplyError] if the key on the server is no limiter's. That
// ctx has ended does not matter.
func (c *RateLimiter) Refund(ctx context.Context, key string, d limit.Decision, n int64) error {
	if err := c.check(nil, key, n); err != nil { //nolint:staticcheck // see the comment
		return err
	}
	switch {
	case n > d.Charged:
		return fmt.Errorf("%w: a refund of %d of a decision that charged %d", limit.ErrCount, n, d.Charged)
	case n == 0:
		return nil
	case d.Degraded:
		return c.fallback.refund(lasting(ctx), key, d, n)
	}
	if c.leases != nil {
		if node := c.keys.Find(c.keys.Hash(key), key); node != nil && c.leases.refund(&node.Value, c.link.clock.Now(), d.Ticket, n) {
			return nil
		}
	}
	_, err := c.send(lasting(ctx), c.algorithm.refund(c.wire(key), d.Ticket, c.under(key, d), n))
	c.forget(key)
	return err
}

// Settle corrects what d charged to key, when the cost is known only afterwards: an
// estimate is taken with AllowN, and Settle makes it into actual.
//
//   - If actual is less, the difference is refunded, as Refund does it.
//   - If it is more, the difference is charged now, whatever the limit: it was spent.
//     The key is then over its limit, and is refused until enough has left the window.
//
// A decision must be settled once. One that was refused charged nothing, so all of actual
// is charged; but nothing is for a key that is [limit.Exempt], nor for what was admitted only
// because the mode is not Enforce. What was decided without the server is settled where it
// was: with [Allow] and [Deny], nowhere. The errors are those of Refund; actual is at most [limit.MaxLimit]. That
// ctx has ended does not matter.
func (c *RateLimiter) Settle(ctx context.Context, key string, d limit.Decision, actual int64) error {
	if err := c.check(nil, key, actual); err != nil { //nolint:staticcheck // see the comment
		return err
	}
	switch more := actual - d.Charged; {
	case actual > limit.MaxLimit:
		return fmt.Errorf("%w: %d; want 0 to %d", limit.ErrCount, actual, int64(limit.MaxLimit))
	case d.Ticket == uncounted:
		return nil
	case more < 0:
		return c.Refund(ctx, key, d, -more)
	case more == 0:
		return nil
	case d.Degraded:
		return c.fallback.settle(lasting(ctx), key, d, actual)
	default:
		_, err := c.question(lasting(ctx), question{
			wire: c.wire(key), limit: c.under(key, d), n: min(more, maxHeld), most: takeAnyway,
		})
		c.forget(key)
		return err
	}
}

// under is the limit of what d has charged, or would have.
func (c *RateLimiter) under(key string, d limit.Decision) int64 {
	most := d.Limit
	if most <= 0 {
		most, _ = c.limitOf(key, limit.Default)
	}
	return min(max(0, most), MaxLimit)
}

// Describe returns the one limit.
func (c *RateLimiter) Describe() []limit.Description {
	d := limit.Description{Name: c.name, Limit: c.limit.Load(), Window: c.cfg.Window, Mode: rule.Mode(c.mode.Load())}
	if b, ok := c.algorithm.(*burstScripts); ok {
		d.Burst = b.most(d.Limit)
	}
	return []limit.Description{d}
}

// Remote is true: limit.All and leaphttp ask it first.
func (c *RateLimiter) Remote() bool { return true }

// Close ends the limiter: calls get [limit.ErrClosed]. What is left of leases is given
// back, as much as there is time for within Config.Timeout, and the heartbeat ends, if a
// server answers. That takes a few times Config.Timeout at most. The client is not closed:
// it is the caller's, and a call that hangs in it ends with it. Close may be called more
// than once; the error is always nil.
func (c *RateLimiter) Close() error {
	if !c.ended.CompareAndSwap(false, true) {
		return nil
	}
	if c.leases != nil {
		c.leases.returns.close()
	}
	c.beside.close()
	c.instances.close()
	c.fallback.close()
	return nil
}
