package leapredis

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/limit"
)

// Log is the exact sliding-window log of [limit.Log], shared by any number of processes:
// for each key, the time of every admission in the last Window. Never, in any true window
// of that length by the server's clock, are more than Limit admitted, by all processes
// together.
//
// On the server, a key is a sorted set or a hash with an entry for each admission (those
// of n at once are one): see [Storage]. It expires when the last has left the window. It
// takes about 0.2 KB, and 30 bytes more for each admission, or 110 if they are more than 128
// (Redis 7.0; a hash with 8.0: 0.25 KB, 35 and 110). A decision looks at the newest and the
// oldest entries only; a refusal of many at once at as many more as it takes to halve them.
// A refund writes anew what came after; if that is more than 1,000 admissions, it is
// dropped.
//
// Make one with [NewLog].
type Log struct{ core }

// NewLog makes a log. The error, if any, is [limit.ErrConfig], and tells everything that
// is wrong with cfg as one or more [*limit.ConfigError]. No server is asked yet.
func NewLog(client Client, cfg Config) (*Log, error) {
	if err := cfg.complete(kindLog, client); err != nil {
		return nil, err
	}
	c := &Log{}
	l := newLink(client, &cfg)
	a := &logging{link: l, terms: newTerms(&cfg), given: cfg.Storage}
	a.back()
	c.init(cfg, l, a)
	return c, nil
}

// logging is the sliding-window log. Its replies are: taken, held, after how many µs n
// would fit (0: now, -1: never), after how many nothing is held, when they were taken.
type logging struct {
	link *link
	terms
	given   Storage
	storage atomic.Uint32 // a Storage; Auto: the server was not asked yet
}

func (l *logging) decide(ctx context.Context, key string, n, most int64) (reply, error) {
	a := l.args(n, most)
	return l.do(ctx, key, &a, sortedScript, fieldsScript)
}

// do calls the script for how the key is kept. If it is kept the other way, the server
// says so before anything was done.
func (l *logging) do(ctx context.Context, key string, a *args, sorted, fields *script) (reply, error) {
	deadline := l.link.deadline()
	storage, err := l.ask(ctx, deadline, key)
	if err != nil {
		return reply{}, err
	}
	s, other := sorted, fields
	if storage == FieldExpiry {
		s, other = fields, sorted
	}
	r, err := l.link.do(ctx, deadline, s, key, a)
	if l.given == Auto && isWrongType(err) {
		return l.link.do(ctx, deadline, other, key, a)
	}
	return r, err
}

func isWrongType(err error) bool {
	replied := replyOf(err)
	return replied != nil && strings.HasPrefix(replied.Text, "WRONGTYPE ")
}

// ask finds out what the server has, the first time.
func (l *logging) ask(ctx context.Context, deadline int64, key string) (Storage, error) {
	if s := Storage(l.storage.Load()); s != Auto {
		return s, nil
	}
	r, err := l.link.do(ctx, deadline, hasFieldExpiryScript, key, &args{})
	if err != nil {
		return Auto, err
	}
	s := SortedSet
	switch {
	case r[0] == 1:
		s = FieldExpiry
	case l.given == FieldExpiry:
		return Auto, errNoFieldExpiry
	}
	l.storage.Store(uint32(s))
	return s, nil
}

// errNoFieldExpiry is as if the server had said so, when it was told to use them.
var errNoFieldExpiry = &ReplyError{"ERR the server has no HPEXPIREAT, or denies COMMAND INFO, which tells so; Storage FieldExpiry needs both"}

// back lets the server be asked again what it has: another may have come.
func (l *logging) back() {
	s := l.given
	if s == FieldExpiry {
		s = Auto
	}
	l.storage.Store(uint32(s))
}

func (l *logging) read(r reply, n int64) (d limit.Decision) {
	d.Limit, d.Remaining = l.limit, max(0, l.limit-r[1])
	d.ResetAfter = time.Duration(r[3]) * microsecond
	switch d.Allowed = r[0] >= n; {
	case d.Allowed:
		d.Ticket = r[4]
	case r[2] < 0:
		d.RetryAfter = limit.Never
	default:
		d.RetryAfter = time.Duration(r[2]) * microsecond
	}
	return d
}

// recall refuses as many or more as long as the refusal said. For more, that is the
// least that they have to wait.
func (l *logging) recall(r *refusal, now, n int64) (d limit.Decision, certain bool) {
	left := r.reply
	if n < r.n || left[2] >= 0 && left[2] <= r.sinceSent(now) {
		return d, false
	}
	past := r.sinceGot(now)
	if left[3] = max(0, left[3]-past); n > l.limit {
		left[2] = -1
	} else {
		left[2] -= past
	}
	return l.read(left, n), true
}

func (l *logging) refund(ctx context.Context, key string, ticket, n int64) error {
	a := l.refundArgs(ticket, n)
	_, err := l.do(ctx, key, &a, sortedRefundScript, fieldsRefundScript)
	return err
}

func (l *logging) refundArgs(ticket, n int64) (a args) {
	a.addInt(ticket)
	a.addInt(n)
	a.addInt(l.length)
	return a
}

func (l *logging) giveBack(made *call) {
	if !made.args.admits || made.reply[0] == 0 {
		return
	}
	made.args = l.refundArgs(made.reply[4], made.reply[0])
	if made.script == fieldsScript {
		made.script = fieldsRefundScript
	} else {
		made.script = sortedRefundScript
	}
	made.send()
}

func (l *logging) reset(ctx context.Context, key string) error {
	_, err := l.link.do(ctx, l.link.deadline(), logResetScript, key, &args{})
	return err
}
