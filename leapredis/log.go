package leapredis

import (
	"time"

	"github.com/leapgate-go/leapgate/limit"
)

// NewLog makes the exact sliding-window log of [limit.NewLog], shared by any number of
// processes: for each key, the time of every admission in the last Window. Never, in any true
// window of that length by the server's clock, are more than Limit admitted, by all processes
// together.
//
// On the server, a key is a sorted set with an entry for each admission (those of n at once
// are one). It expires when the last has left the window. It takes about 0.2 KB, and 30 bytes
// more for each admission, or 110 if they are more than 128 (Redis 7.0). A decision looks at
// the newest and the oldest entries only; a refusal of many at once at as many more as it
// takes to halve them. A refund rewrites the entries of all later admissions, so it is dropped,
// without an error, if there are more than 1,000 of them. What was charged then counts until
// it leaves the window.
//
// The error, if any, is [limit.ErrConfig], and holds everything that is wrong with cfg as one
// or more [*limit.ConfigError]. No server is asked yet.
func NewLog(client Client, cfg Config) (*RateLimiter, error) {
	if err := cfg.complete(forLog, client); err != nil {
		return nil, err
	}
	l := newLink(client, &cfg)
	return newRateLimiter(cfg, l, &logScripts{newAsking(&cfg)}, limit.NewLog), nil
}

// logScripts is the sliding-window log. Its replies are: taken, held, after how many µs n
// would fit (0: now, -1: never), after how many nothing is held, when they were taken, after
// how many the first of what is held leaves (0: nothing was taken).
type logScripts struct{ asking }

func (l *logScripts) most(limit int64) int64 { return limit }

func (l *logScripts) request(q question) request {
	return request{script: logScript, key: q.wire, args: l.args(&q)}
}

func (l *logScripts) plausible(question, reply) bool { return true }

func (l *logScripts) read(r reply, most, n int64) (d limit.Decision) {
	d.Limit, d.Remaining = most, max(0, most-r[1])
	d.ResetAfter = time.Duration(r[3]) * microsecond
	switch d.Allowed = r[0] >= n; {
	case d.Allowed:
		d.Ticket, d.MoreAfter = l.ticket(r), time.Duration(r[5])*microsecond
	case r[2] < 0:
		d.RetryAfter = limit.Never
	default:
		d.RetryAfter = time.Duration(r[2]) * microsecond
	}
	if !d.Allowed && n == 1 {
		d.MoreAfter = d.RetryAfter
	}
	return d
}

// recall refuses what lacks as much or more as long as the refusal said. For more, that is the
// least that it has to wait.
func (l *logScripts) recall(r *refusal, now, most, n int64) (d limit.Decision, certain bool) {
	left := r.reply
	if n-most < r.n-r.limit || left[2] >= 0 && left[2] <= r.sinceSent(now) {
		return d, false
	}
	past := r.sinceGot(now)
	if left[3] = max(0, left[3]-past); n > most {
		left[2] = -1
	} else {
		left[2] -= past
	}
	return l.read(left, most, n), true
}

func (l *logScripts) ticket(r reply) int64 { return r[4] }

func (l *logScripts) refund(key string, ticket, _, n int64) request {
	var a args
	a.addInt(ticket)
	a.addInt(n)
	return request{script: logRefundScript, key: key, args: a}
}

func (l *logScripts) reset(key string) request { return request{script: logResetScript, key: key} }
