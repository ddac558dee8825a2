package leapredis

import (
	"context"

	"github.com/leapgate-go/leapgate/limit"
)

// decide decides what no lease was for. (In allow, the decision would be on the heap.)
func (c *RateLimiter) decide(ctx context.Context, node *node, hash uint64, key string, a asked, now int64) (d limit.Decision, err error) {
	certain := false
	if r := c.believed(node, now); r != nil {
		d, certain = c.algorithm.recall(r, now, a.limit, a.needs())
		d.Name = c.name
	}
	if !certain {
		if d, err = c.ask(ctx, node, hash, key, a, now); err != nil {
			return d, err
		}
	}
	if a.some && c.leases != nil && !d.Degraded {
		if node := c.keys.Find(hash, key); node != nil {
			c.leases.add(&d, &node.Value, c.link.clock.Now(), min(a.n, a.limit))
		}
	}
	if !c.enforces() {
		overlook(&d)
	}
	if a.n > 0 {
		c.count(&d)
	}
	return d, nil
}

// ask asks a server, and the fallback if none answers.
func (c *RateLimiter) ask(ctx context.Context, n *node, hash uint64, key string, a asked, now int64) (d limit.Decision, err error) {
	most := c.algorithm.most(a.limit)
	q := question{
		core: c, node: n, hash: hash, key: key, wire: c.wire(key), limit: a.limit, count: a.n, sent: now,
		// What is more than ever passes is refused, however much it is.
		n: min(max(1, a.n), most+1), most: min(a.n, most+1),
	}
	extra := int64(0)
	switch {
	case a.some:
		q.n, q.most = max(1, min(a.n, most)), takeSome
	case c.leases != nil && a.n > 0 && a.n <= a.limit:
		if n == nil {
			q.node, _, _ = c.keys.FindOrMake(hash, key, now, 0)
		}
		if q.lends = q.node != nil; q.lends {
			q.most, extra = c.leases.want(&q.node.Value, now, a.n)
		}
	}
	r, err := c.question(ctx, q)
	if q.lends {
		c.leases.came(&q.node.Value, extra, r[0])
	}
	if err != nil {
		return c.without(ctx, err, key, a)
	}
	return c.digest(&q, &r), nil
}

// keep digests an answer for which nobody waits any more, as if one did: what it took is
// charged, and a refusal is remembered.
func (c *RateLimiter) keep(q *question, r reply, err error) {
	if err != nil || !c.algorithm.plausible(*q, r) {
		return
	}
	if q.lends {
		c.leases.came(&q.node.Value, 0, r[0])
	}
	c.digest(q, &r)
}

// digest makes a decision of an answer, and keeps what is to be known of it.
func (c *RateLimiter) digest(q *question, r *reply) limit.Decision {
	c.instances.beat()
	d := c.algorithm.read(*r, q.limit, q.needs())
	d.Name = c.name
	now := c.link.clock.Now()
	switch {
	case !d.Allowed:
		c.remember(q, &refusal{sent: q.sent, got: now, limit: q.limit, n: q.needs(), reply: *r})
		return d
	case q.count == 0:
		d.Ticket = 0
	default:
		d.Charged = min(q.count, r[0])
	}
	if q.node == nil {
		return d
	}
	if q.node.Value.refusal.Load() != nil {
		q.node.Value.refusal.Store(nil)
	}
	if more := r[0] - q.count; q.lends && more > 0 {
		c.leases.put(q.node, q.sent, now, more, r, &d)
		d.Remaining = min(d.Limit, d.Remaining+more)
	}
	return d
}

// believed is what is remembered of a key, for a call that need not ask because of it. When
// LeaseTime is over, one call asks, and the others go on believing until its answer is there,
// for as long as it may take: so a flood does not reach a server that has become slow.
func (c *RateLimiter) believed(n *node, now int64) *refusal {
	if n == nil {
		return nil
	}
	r := n.Value.refusal.Load()
	if r == nil {
		return nil
	}
	if until := r.until.Load(); now >= until && r.until.CompareAndSwap(until, now+int64(c.cfg.Timeout)) {
		return nil
	}
	return r
}

// remember keeps a refusal.
func (c *RateLimiter) remember(q *question, r *refusal) {
	n := q.node
	if n == nil {
		if n, _, _ = c.keys.FindOrMake(q.hash, q.key, r.sent, 0); n == nil {
			return
		}
	}
	r.until.Store(r.sent + int64(c.cfg.LeaseTime))
	n.Value.asked.Store(r.sent)
	n.Value.refusal.Store(r)
}

// without decides when the server has returned an error.
func (c *RateLimiter) without(ctx context.Context, err error, key string, a asked) (limit.Decision, error) {
	if err := c.unanswered(err, key); err != nil {
		return limit.Decision{}, err
	}
	c.forget(key)
	return c.fallback.decide(ctx, key, a, c.algorithm.most(a.limit), c.link.retryAfter(c.wire(key)))
}
