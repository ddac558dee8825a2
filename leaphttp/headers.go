package leaphttp

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/leapgate-go/leapgate/internal/structured"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// Headers says which header fields inform clients of the limits that they count against. They can be added up: Draft | Legacy. They are set before the handler runs, also
// on what is admitted.
//
// Scripts of a page from another origin see these fields, and Retry-After, only if the
// answer names them in Access-Control-Expose-Headers, which is up to what handles CORS:
//
//	Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After
//
// with Legacy also X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset. It must
// stand around this middleware, so that refusals have its fields too.
type Headers uint8

const (
	// Draft is RateLimit-Policy and RateLimit of the newest draft of
	// draft-ietf-httpapi-ratelimit-headers that this package knows, which is 11 (May 2026).
	// A later version of this package may follow a later one.
	//
	//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
	//	RateLimit: "burst";r=12;t=23, "daily";r=512;t=40000
	//
	// r is how many more would be admitted now, and t for how many seconds no more than
	// these can be used. So with r=0, t is the wait for the next request: a client that
	// waits that long is admitted. With a refusal it is the same as Retry-After; t is never
	// more than that, and is left out of what could be used for longer. (Up to draft 09, t
	// was the time until all of q are there again, for which clients of a sliding window
	// wait too long. Drafts 10 and 11 differ in their words only.) The fields have whole
	// seconds, rounded up, so a client that goes by t waits up to a second too long each
	// time. That is a large part of windows of less than ten seconds, and, with a
	// [limit.NewCounter], of any where Window ÷ Limit is a few seconds.
	//
	// Of limits that [limit.All] joins, RateLimit has the one that decided: to show each,
	// list them one by one in Config.Limits, which is as exact. The t is left out where a
	// limiter does not know it: see MoreAfter of [limit.Decision]. Windows that are not
	// whole seconds are left out, and so are partition keys, which would identify the
	// client. Middlewares in each other add theirs: give their policies names.
	Draft Headers = 1 << iota
	// Legacy is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, of the
	// limit that refused or else has the least remaining. Reset is the end of t, in Unix
	// seconds by the system's clock. A middleware in another overwrites them.
	Legacy
	// NoHeaders is neither. Refusals have Retry-After all the same.
	NoHeaders
)

// fields writes these header fields.
type fields struct {
	draft, legacy bool
	limits        int
	policies      string // RateLimit-Policy of all limits; "" if it depends on decisions
}

// policy is a limit as it is announced.
type policy struct {
	name    string
	quoted  string // as a string of RFC 9651
	quota   int64
	rest    string // of the item of RateLimit-Policy, after the quota
	item    string // of RateLimit-Policy; "" if only decisions have its quota
	problem []byte // the answer when only this policy is violated
}

func newFields(h Headers, l limits, faults *faults) fields {
	if h == 0 {
		h = Draft
	}
	if h >= NoHeaders<<1 || h&NoHeaders != 0 && h != NoHeaders {
		faults.add("Headers is %d; want Draft (%d), Legacy (%d), both added up, or NoHeaders (%d)", h, Draft, Legacy, NoHeaders)
	}
	f := fields{draft: h&Draft != 0, legacy: h&Legacy != 0, limits: len(l.All)}
	for _, c := range l.All {
		for _, p := range c.Own.policies {
			if p.item == "" {
				f.policies = ""
				return f
			}
			if f.policies != "" {
				f.policies += ", "
			}
			f.policies += p.item
		}
	}
	return f
}

// policiesOf returns what a limiter announces. name is for what has none.
func policiesOf(l any, name string) []policy {
	var described []limit.Description
	inFlight := false
	if d, ok := l.(limit.Describer); ok {
		_, inFlight = l.(limit.Acquirer)
		described = d.Describe()
	}
	if len(described) == 0 {
		return []policy{{name: name, quoted: quote(name), problem: problem(http.StatusTooManyRequests, []string{name})}}
	}
	var policies []policy
	for _, d := range described {
		if d.Name == "" {
			d.Name = name
		}
		quoted := quote(d.Name)
		p := policy{name: d.Name, quoted: quoted, quota: max(0, d.Limit), problem: problem(http.StatusTooManyRequests, []string{d.Name})}
		switch {
		case inFlight:
			p.rest = `;qu="concurrent-requests"`
		case d.Window >= time.Second && d.Window%time.Second == 0:
			p.rest = string(structured.AppendParam(nil, "w", int64(d.Window/time.Second)))
		}
		p.item = string(p.appendItem(nil, p.quota))
		policies = append(policies, p)
	}
	return policies
}

func (p *policy) appendItem(b []byte, quota int64) []byte {
	return append(structured.AppendParam(append(b, p.quoted...), "q", max(0, quota)), p.rest...)
}

// set sets the fields. values is memory for two of them. refusal is nil if there is none.
func (f *fields) set(h http.Header, charges []charge, refusal *Refusal, values *[2]string) {
	if !f.draft && !f.legacy || !anyAnnounced(charges) {
		return
	}
	longest := int64(math.MaxInt64) // in seconds
	if refusal != nil && refusal.passesLater() {
		longest = seconds(refusal.RetryAfter)
	}
	if f.draft {
		values[0] = f.policies
		if f.policies == "" || len(charges) != f.limits || !f.asDescribed(charges) {
			values[0] = rateLimitPolicy(charges)
		}
		values[1] = rateLimit(charges, longest)
		// Clipped, so that adding to a field makes a new slice.
		add(h, "Ratelimit-Policy", values[0:1:1])
		add(h, "Ratelimit", values[1:2:2])
	}
	if f.legacy {
		c := tightest(charges)
		t := untilMore(c)
		if t == limit.Never {
			t = c.ResetAfter // the field must say something
		}
		t = min(t, maxWait, duration(uint64(longest)))
		reset := time.Now().Add(t)
		h["X-Ratelimit-Limit"] = []string{strconv.FormatInt(c.Limit, 10)}
		h["X-Ratelimit-Remaining"] = []string{strconv.FormatInt(c.Remaining, 10)}
		h["X-Ratelimit-Reset"] = []string{strconv.FormatInt(reset.Add(time.Second-1).Unix(), 10)}
	}
}

// anyAnnounced reports whether there is a limit that clients should know of: one that refuses.
func anyAnnounced(charges []charge) bool {
	for i := range charges {
		if charges[i].Limit >= 0 {
			return true
		}
	}
	return false
}

// asDescribed reports whether all limits are those that were described at first.
func (f *fields) asDescribed(charges []charge) bool {
	for i := range charges {
		c := &charges[i]
		if p := c.By.Own.policies; len(p) > 1 || p[0].quota != c.Limit {
			return false
		}
	}
	return true
}

// add sets a field, or adds to what a middleware around this one has set. The name is
// canonical.
func add(h http.Header, name string, value []string) {
	if old := h[name]; len(old) > 0 {
		value = append(old, value...)
	}
	h[name] = value
}

// rateLimitPolicy is RateLimit-Policy of the limits that were asked.
func rateLimitPolicy(charges []charge) string {
	var few [256]byte
	b := few[:0]
	for i := range charges {
		c := &charges[i]
		if c.Limit < 0 {
			continue
		}
		quotas := quotasOf(c.By)
		for j := range c.By.Own.policies {
			p := &c.By.Own.policies[j]
			quota := p.quota
			switch {
			case len(c.By.Own.policies) == 1 || p.name == c.Name || c.Name == "" && p.name == c.By.Name:
				quota = c.Limit
			case j < len(quotas) && quotas[j].Mode != rule.Enforce:
				continue
			case j < len(quotas):
				quota = quotas[j].Limit
			}
			if len(b) > 0 {
				b = append(b, ", "...)
			}
			b = p.appendItem(b, quota)
		}
	}
	return string(b)
}

// quotas are what several policies of one limiter are now: one may have changed. Of one
// policy, the decision says it.
func quotasOf(c *preparedLimit) []limit.Description {
	if d, ok := c.Limiter.(limit.Describer); ok && len(c.Own.policies) > 1 {
		return d.Describe()
	}
	return nil
}

// rateLimit is RateLimit. A t of more than so many seconds is left out.
func rateLimit(charges []charge, longest int64) string {
	var few [256]byte
	b := few[:0]
	for i := range charges {
		c := &charges[i]
		if c.Limit < 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, c.By.Own.policies[c.By.PolicyOf(c.Name)].quoted...)
		b = structured.AppendParam(b, "r", max(0, c.Remaining))
		if t := untilMore(c); c.By.InFlight == nil && t != limit.Never && seconds(t) <= longest {
			b = structured.AppendParam(b, "t", max(1, seconds(t)))
		}
	}
	return string(b)
}

// untilMore is how long no more than what remains can be used, or Never if that is not
// known.
func untilMore(c *charge) time.Duration {
	switch {
	case !c.Allowed && c.RetryAfter > 0:
		return c.RetryAfter
	case !c.Allowed:
		return limit.Never
	case c.MoreAfter > 0:
		return c.MoreAfter
	case c.By.Own.peek != nil:
		if now := c.By.Own.peek(c.Key); now.MoreAfter > 0 {
			return now.MoreAfter
		}
	}
	return limit.Never
}

// tightest is the limit that refused for the longest, or else has the least remaining.
func tightest(charges []charge) *charge {
	var least *charge // some are announced
	for i := range charges {
		c := &charges[i]
		switch {
		case c.Limit < 0:
		case least == nil:
			least = c
		case c.Allowed != least.Allowed:
			if !c.Allowed {
				least = c
			}
		case !c.Allowed:
			if c.RetryAfter > least.RetryAfter {
				least = c
			}
		case c.Remaining < least.Remaining:
			least = c
		}
	}
	return least
}

func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// quote makes a string of RFC 9651.
func quote(s string) string { return string(structured.AppendString(nil, s)) }
