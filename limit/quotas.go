package limit

import (
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
	"github.com/leapgate-go/leapgate/internal/quota"
)

// quotas is an exact quota for each key.
type quotas struct {
	limit    int64
	window   time.Duration
	buckets  int
	strict   bool
	bucket   int64 // the length of one
	forgets  int64 // after what a bucket is forgotten, from its start
	keys     *keys.Table[meter]
	whenFull Policy
	shared   *keys.Node[meter] // for new keys without a place, if whenFull is Share
	crowds   atomic.Int64
}

// meter is the quota of one key. The node's Aux is 1 if the key was taken out: whoever
// takes it out sets it and then looks whether anything was charged, and whoever charges
// looks at it afterwards. One of them sees the other, and steps back.
type meter struct {
	quota *quota.Quota
	begun int64 // nothing is charged before it
}

func newQuotas(cfg Config) *quotas {
	e := &quotas{
		limit: cfg.Limit, window: cfg.Window, buckets: cfg.Buckets, strict: cfg.Strict,
		bucket: int64(cfg.Window) / int64(cfg.Buckets), forgets: int64(cfg.Window), whenFull: cfg.WhenFull,
	}
	if cfg.Strict {
		e.forgets += e.bucket
	}
	e.keys = keys.New(cfg.MaxKeys, cfg.WhenFull == Evict, keys.Rules[meter]{Init: e.begin, Judge: e.judge, Kill: e.kill})
	if cfg.WhenFull == Share {
		e.shared = keys.NewNode[meter]("", 0)
		e.shared.Value = e.newMeter(minTime)
	}
	return e
}

func (e *quotas) newMeter(begun int64) meter {
	q, err := quota.New(e.window, e.buckets, e.strict)
	if err != nil {
		panic(err) // the configuration was checked
	}
	return meter{q, begun}
}

func (e *quotas) begin(node *keys.Node[meter], now, n int64) {
	node.Value = e.newMeter(now)
	node.Value.quota.Take(now, n, quota.MaxLimit)
}

func (e *quotas) judge(node *keys.Node[meter], now int64) (warmth uint64, expired bool) {
	held := node.Value.quota.Window(now)
	return uint64(held), held == 0
}

func (e *quotas) kill(node *keys.Node[meter], now int64, force bool) bool {
	node.Aux.Store(1)
	if force || node.Value.quota.Window(now) == 0 {
		return true
	}
	node.Aux.Store(0)
	return false
}

func (e *quotas) decide(now int64, key string, n int64, take bool) Decision {
	hash := e.keys.Hash(key)
	node := e.keys.Find(hash, key)
	crowded := false
	for {
		if node == nil {
			placed, begun, outcome := place(e.keys, e.whenFull, hash, key, now, n, take && n <= e.limit)
			switch outcome {
			case isUnknown:
				return unknown(e.limit, n)
			case isMade:
				d := Decision{Allowed: true, Limit: e.limit, Remaining: e.limit - n, Charged: n}
				start := e.align(begun)
				d.ResetAfter = time.Duration(between(now, start) + e.forgets)
				d.Ticket = ticket(placed.Generation(), start/e.bucket)
				return d
			case isFound:
				node = placed
			case isCrowded:
				if take {
					e.crowds.Add(1)
				}
				if e.whenFull != Share {
					return crowdedOut(e.limit, n, e.forgets)
				}
				node, crowded = e.shared, true
			}
		}
		if d, alive := e.ask(node, now, n, take); alive {
			d.Crowded = crowded
			return d
		}
		node = nil
	}
}

// align is the start of the bucket of a time.
func (e *quotas) align(now int64) int64 {
	r := now % e.bucket
	if r < 0 {
		r += e.bucket
	}
	return now - r
}

func (e *quotas) ask(node *keys.Node[meter], now, n int64, take bool) (d Decision, alive bool) {
	q := node.Value.quota
	at := max(now, node.Value.begun)
	d.Limit = e.limit
	switch {
	case n > e.limit:
		d.RetryAfter = Never
	case take:
		o := q.Take(at, n, e.limit)
		if node.Aux.Load() != 0 {
			if o.OK {
				q.Refund(o.Ticket, n)
			}
			return d, false
		}
		if d.Allowed = o.OK; o.OK {
			d.Charged, d.Ticket = n, ticket(node.Generation(), o.Ticket/e.bucket)
		} else {
			d.RetryAfter = time.Duration(between(now, at)) + o.Wait
		}
	default:
		if node.Aux.Load() != 0 {
			return d, false
		}
		wait := q.Wait(at, n, e.limit)
		if d.Allowed = wait == 0; wait > 0 {
			d.RetryAfter = time.Duration(between(now, at)) + wait
		}
	}
	d.Remaining = max(0, e.limit-q.Window(at))
	if reset := q.Wait(at, e.limit, e.limit); reset > 0 {
		d.ResetAfter = time.Duration(between(now, at)) + reset
	}
	return d, true
}

func (e *quotas) charge(now int64, key string, n int64) {
	charge(e.keys, e.whenFull, e.shared, key, now, n, func(node *keys.Node[meter]) bool {
		q, at := node.Value.quota, max(now, node.Value.begun)
		// The quota takes no more than it could add up: what is beyond is lost.
		o := q.Take(at, min(n, max(0, quota.MaxLimit-q.Window(at))), quota.MaxLimit)
		alive := node.Aux.Load() == 0
		if !alive && o.OK {
			q.Refund(o.Ticket, n)
		}
		return alive
	})
}

func (e *quotas) refund(key string, d Decision, n int64) {
	node := e.shared
	if node == nil || !d.Crowded {
		node = e.keys.Find(e.keys.Hash(key), key)
	}
	if node == nil || ticket(node.Generation(), d.Ticket) != d.Ticket {
		return
	}
	bucket := d.Ticket << (64 - ticketShift) >> (64 - ticketShift)
	node.Value.quota.Refund(bucket*e.bucket, n)
}

func (e *quotas) forget(key string) { e.keys.Delete(e.keys.Hash(key), key) }

func (e *quotas) sweep(now int64) { e.keys.Sweep(now) }

func (e *quotas) stats() Stats { return statsOf(e.keys, e.crowds.Load()) }
