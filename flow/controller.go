package flow

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/quota"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// controller carries out one rule. It does not change; a changed rule gets
// another controller, which may share the window of this one.
type controller struct {
	rule   Rule
	cause  resource.Cause
	limit  int64 // the threshold in whole calls
	window *window
}

// window is what a rule remembers.
type window struct {
	quota      *quota.Quota
	blocked    metric.Counter
	wouldBlock metric.Counter
}

var _ resource.Check = (*controller)(nil)

// compile makes the controller of a complete rule. It keeps the window of the
// rule that had its ID, if that was cut in the same way: then the calls that were
// admitted already still count.
func compile(r *Rule, old resource.Check, had bool) resource.Check {
	c := &controller{
		rule: *r,
		cause: resource.Cause{
			Resource: r.Resource, Kind: kind, RuleID: r.ID,
			Threshold: r.Threshold, Interval: r.Interval,
		},
		limit: quota.MaxLimit,
	}
	if r.Threshold < quota.MaxLimit {
		c.limit = int64(r.Threshold) // towards 0, which is down
	}
	if had {
		if old := old.(*controller); sameWindow(&old.rule, r) {
			c.window = old.window
			return c
		}
	}
	q, err := quota.New(r.Interval, r.Buckets, r.Strict)
	if err != nil {
		panic(err) // complete has let a rule through that it should not have
	}
	c.window = &window{quota: q}
	return c
}

func sameWindow(a, b *Rule) bool {
	return a.Resource == b.Resource && a.Interval == b.Interval && a.Buckets == b.Buckets && a.Strict == b.Strict
}

func (c *controller) Cause() *resource.Cause  { return &c.cause }
func (c *controller) Mode() Mode              { return c.rule.Mode }
func (c *controller) Interval() time.Duration { return c.rule.Interval }

func (c *controller) Reserve(now, n int64) resource.Verdict {
	o := c.window.quota.Take(now, n, c.limit)
	if o.OK {
		return resource.Verdict{Admitted: true, Ticket: o.Ticket}
	}
	if c.rule.Mode == Shadow {
		c.window.wouldBlock.Add(n)
	} else {
		c.window.blocked.Add(n)
	}
	return resource.Verdict{Observed: float64(o.Held + n), Wait: o.Wait}
}

func (c *controller) Refund(ticket, n int64) { c.window.quota.Refund(ticket, n) }

func (c *controller) Wait(now, n int64) time.Duration {
	return c.window.quota.Wait(now, n, c.limit)
}

func (c *controller) Snapshot() stat.RuleSnapshot {
	return stat.RuleSnapshot{
		ID: c.rule.ID, Kind: kind, Mode: c.rule.Mode, Threshold: c.rule.Threshold, Interval: c.rule.Interval,
		Admitted:   c.window.quota.Admitted(),
		Blocked:    c.window.blocked.Load(),
		WouldBlock: c.window.wouldBlock.Load(),
	}
}
