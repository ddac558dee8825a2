package leapredis

import (
	"context"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/limit"
)

// algorithm is what the limiters of NewCounter, NewLog and NewBurst differ in.
type algorithm interface {
	// most is how many may pass at once under a limit.
	most(limit int64) int64
	// request returns the call of a script that decides q.
	request(q question) request
	// plausible reports whether the script can have replied r. Another program may hold the key, or
	// a proxy may answer.
	plausible(q question, r reply) bool
	// read makes a reply to n into a decision, except for its name and what was charged.
	read(r reply, limit, n int64) limit.Decision
	// recall makes the decision that refuses n now, if a refusal makes that certain without
	// asking. It may have been of another n, under another limit.
	recall(r *refusal, now, limit, n int64) (d limit.Decision, certain bool)
	// ticket returns what a refund must know of the reply that admitted.
	ticket(r reply) int64
	// refund returns the call of a script that gives back n of a decision under a limit.
	refund(key string, ticket, limit, n int64) request
	// reset returns the call of a script that forgets a key.
	reset(key string) request
}

// send calls a script. A request without a script has nothing to do.
func (c *RateLimiter) send(ctx context.Context, r request) (reply, error) {
	if r.script == nil {
		return reply{}, nil
	}
	return c.link.do(ctx, &r)
}

// question asks a server.
func (c *RateLimiter) question(ctx context.Context, q question) (reply, error) {
	r := c.algorithm.request(q)
	r.question = q
	got, err := c.send(ctx, r)
	if err == nil && r.script != nil && !c.algorithm.plausible(q, got) {
		return reply{}, errImplausible
	}
	return got, err
}

// errImplausible is as if the server had replied it.
var errImplausible = &ReplyError{"ERR the reply is not one of the script"}

// giveBack gives back what a call was granted whose caller got another answer.
func (c *RateLimiter) giveBack(made *call) {
	if made.args.admits && made.reply[0] > 0 {
		back := c.algorithm.refund(made.key, c.algorithm.ticket(made.reply), made.question.limit, made.reply[0])
		made.script, made.args = back.script, back.args
		made.send()
	}
}

// question is whether n of a key pass, and where the answer is kept.
type question struct {
	wire           string // the key on the server
	limit, n, most int64  // see the scripts

	core  *RateLimiter // that keeps the answer; nil: none does
	node  *node        // of the key; nil: there is none yet
	hash  uint64
	key   string
	count int64 // how many were asked for: n may be less
	sent  int64
	lends bool // what is taken beyond count is leased
}

// needs is how many must fit, else the answer is no.
func (q *question) needs() int64 {
	if q.most == takeSome {
		return 1
	}
	return q.n
}

// refusal is what is remembered of a refusal. The server decided it at some time between sent
// and got. What is certain is told as if it had been at sent, so that the server is asked
// rather too soon; how long to wait, as if at got, so that it is not told too short.
type refusal struct {
	sent, got int64
	until     atomic.Int64 // somebody is to ask anew: see believed
	limit, n  int64
	reply     reply
}

func (r *refusal) sinceSent(now int64) int64 { return (now - r.sent + microsecond - 1) / microsecond }
func (r *refusal) sinceGot(now int64) int64  { return max(0, now-r.got) / microsecond }
