package leapredis

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/sliding"
	"github.com/leapgate-go/leapgate/limit"
)

// NewCounter makes the sliding-window counter of [limit.NewCounter], shared by any number of
// processes: for each key, what was admitted in this window and in the one before, of
// which it takes the part that still lies within Window. It decides as that does, by the
// server's clock, in whole microseconds; see there for what it bounds.
//
// On the server, a key is one string of 24 bytes, which expires when the window after the
// one that charged it last is over. With its name, its expiry and all that a server keeps
// of a key, that is about 175 bytes (Redis 7.0 and 8.0, names of 20 bytes). A decision reads
// it, and writes it if it admits.
//
// The error, if any, is [limit.ErrConfig], and holds everything that is wrong with cfg as one
// or more [*limit.ConfigError]. No server is asked yet.
func NewCounter(client Client, cfg Config) (*RateLimiter, error) {
	if err := cfg.complete(forCounter, client); err != nil {
		return nil, err
	}
	l := newLink(client, &cfg)
	return newRateLimiter(cfg, l, &counterScripts{newAsking(&cfg)}, limit.NewCounter), nil
}

// counterScripts is the sliding-window counter. Its replies are: taken, previous, current, the
// time in µs, generation, how far that time is after the server's.
type counterScripts struct{ asking }

func (c *counterScripts) most(limit int64) int64 { return limit }

func (c *counterScripts) request(q question) request {
	return request{script: counterScript, key: q.wire, args: c.args(&q)}
}

func (c *counterScripts) plausible(q question, r reply) bool {
	n, most := q.n, q.most
	taken, previous, current, at, ahead := r[0], r[1], r[2], r[3], r[5]
	switch {
	case min(taken, previous, current, at, r[4], ahead) < 0 || taken > max(n, most),
		max(previous, current) > maxHeld || at > 1<<53 || r[4] >= 1<<18 || ahead > 1<<52:
		return false
	case taken >= q.needs() || n > q.limit || most == takeAnyway:
		return true
	default: // it refused, so there is a reason
		return sliding.Held(previous, current, at%c.length, c.length)+q.needs() > q.limit
	}
}

const generationAt = 45 // see ticket

func (c *counterScripts) read(r reply, most, n int64) (d limit.Decision) {
	previous, current, elapsed, ahead := r[1], r[2], r[3]%c.length, r[5]
	held := sliding.Held(previous, current, elapsed, c.length)
	d.Limit, d.Remaining = most, max(0, most-held)
	d.MoreAfter = limit.Never
	if most > 0 {
		// When all that remains is used at once.
		d.MoreAfter = time.Duration(ahead+sliding.Wait(most, 1, previous, current+d.Remaining, elapsed, c.length)) * microsecond
	}
	if reset := sliding.Reset(previous, current, elapsed, c.length); reset > 0 {
		d.ResetAfter = time.Duration(ahead+reset) * microsecond
	}
	switch d.Allowed = r[0] >= n; {
	case d.Allowed:
		d.Ticket = c.ticket(r)
	case n > most:
		d.RetryAfter = limit.Never
	default:
		d.RetryAfter = time.Duration(ahead+sliding.Wait(most, n, previous, current, elapsed, c.length)) * microsecond
	}
	return d
}

// ticket is the window that was charged, and its generation: see the script.
//
//	62       45  44   0
//	generation  window
func (c *counterScripts) ticket(r reply) int64 { return r[4]<<generationAt | r[3]/c.length }

// rest is how long the window that was charged lasts.
func (c *counterScripts) rest(r *reply) time.Duration {
	return time.Duration(c.length-r[3]%c.length) * microsecond
}

// recall looks what would be held now if nobody had come.
func (c *counterScripts) recall(r *refusal, now, most, n int64) (d limit.Decision, certain bool) {
	later, ok := c.later(r.reply, r.sinceSent(now))
	if !ok || n <= most && sliding.Held(later[1], later[2], later[3]%c.length, c.length)+n <= most {
		return d, false
	}
	later, _ = c.later(r.reply, r.sinceGot(now))
	return c.read(later, most, n), true
}

// later is what a reply that refuses would be so many µs later, if that is in this window or
// the next.
func (c *counterScripts) later(r reply, past int64) (reply, bool) {
	now := r[3] + past
	turned := now/c.length - r[3]/c.length
	if turned == 1 {
		r[1], r[2] = r[2], 0
	}
	r[3] = now
	return r, turned <= 1
}

func (c *counterScripts) refund(key string, ticket, _, n int64) request {
	var a args
	a.addInt(ticket & (1<<generationAt - 1))
	a.addInt(ticket >> generationAt)
	a.addInt(n)
	return request{script: counterRefundScript, key: key, args: a}
}

func (c *counterScripts) reset(key string) request {
	return request{script: counterResetScript, key: key}
}
