package leapredis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/internal/clock"
)

// ErrAway is the error of what cannot be done while no server answers. Where an answer was
// awaited in vain, it may have been done.
var ErrAway = errors.New("leapredis: no server answers")

// link calls scripts: in time, or not at all.
type link struct {
	client  Client
	servers *servers
	timeout time.Duration
	clock   clock.Clock
	// lateness is how late a call's own timer is when this process is so starved of CPU that an
	// answer may lie unread.
	lateness int64
	// giveBack gives back what was taken by a call that was answered late, in the call's
	// goroutine, and may use the client.
	giveBack func(c *call)
	log      func() *slog.Logger

	calls    sync.Pool // of *call; of this link's own, since timers belong to a test's bubble
	trips    atomic.Int64
	failures atomic.Int64
	late     atomic.Int64 // of failures, those that are excused

	complaints complaints
}

func newLink(client Client, cfg *Config) *link {
	l := &link{client: client, servers: serversOf(client, cfg.Timeout), timeout: cfg.Timeout}
	l.clock = l.servers.clock // breakers keep times of it
	l.lateness = int64(max(leastLateness, cfg.Timeout/25))
	l.calls.New = func() any {
		timer := time.NewTimer(time.Hour)
		timer.Stop()
		return &call{link: l, done: make(chan struct{}, 1), timer: timer}
	}
	logger, name := cfg.Logger, cfg.Name
	l.log = func() *slog.Logger {
		if logger == nil {
			return slog.Default().With("limiter", name)
		}
		return logger.With("limiter", name)
	}
	return l
}

// leastLateness is more than timers are late where there is CPU enough: 1 ms.
const leastLateness = 2 * time.Millisecond

// deadline is when a call that begins now must have its answer.
func (l *link) deadline() int64 { return l.clock.Now() + int64(l.timeout) }

// do calls a script, and waits until the deadline. The error is that of ctx if that ended,
// else it is [ErrAway] or, if the script found something wrong with the key, [*ReplyError].
// When ctx ends, what was asked goes on, and the answer to its question is kept.
func (l *link) do(ctx context.Context, deadline int64, r *request) (reply, error) {
	now := l.clock.Now()
	part := l.servers.part(r.key)
	if part.name != "" && !l.servers.hasNamed.Load() && l.servers.hasNamed.CompareAndSwap(false, true) {
		l.forget(true) // ranges of slots stood for servers until now
	}
	p, ok := part.breaker.admit(now)
	if !ok {
		return reply{}, ErrAway
	}
	if part.stuck.Load() >= part.most {
		return reply{}, l.fail(part, p, errStuck, part.breaker.excused.Load() != 0)
	}
	c := l.calls.Get().(*call)
	c.request, c.part, c.pass = *r, part, p
	c.ctx = lasting(ctx)
	c.state.Store(waiting)
	l.trips.Add(1)
	go c.run()

	c.timer.Reset(time.Duration(deadline - now))
	var gone <-chan struct{}
	if ctx != nil {
		gone = ctx.Done()
	}
	select {
	case <-c.done:
	case <-c.timer.C:
		part.stuck.Add(1)
		if c.state.CompareAndSwap(waiting, late) { // run takes it back
			return reply{}, l.timedOut(part, p, deadline)
		}
		part.stuck.Add(-1)
		<-c.done // it was answered after all
	case <-gone:
		c.timer.Stop()
		c.leave(deadline)
		if c.state.CompareAndSwap(waiting, left) { // run takes it back
			return reply{}, ctx.Err()
		}
		c.inTime()
		<-c.done
	}
	c.timer.Stop()
	got, err := c.reply, c.err
	l.put(c)
	return got, l.judge(part, p, err)
}

var (
	errTimeout = errors.New("no answer in time")
	errStuck   = errors.New("too many calls hang")
	errReply   = errors.New("the reply is no array of integers")
)

func (l *link) put(c *call) {
	c.ctx, c.request, c.part, c.err, c.overdue = nil, request{}, nil, nil, nil
	l.calls.Put(c)
}

// judge tells the breaker how a call went, and returns its error.
func (l *link) judge(part *part, p pass, err error) error {
	f := asFault(err)
	if err == nil || f != nil && f.answered() {
		if !l.servers.answered.Load() {
			l.servers.answered.Store(true)
		}
		if part.breaker.succeed(p) {
			l.back(part)
		}
		if f == nil {
			return nil
		}
		l.failures.Add(1)
		if f.isDenied() {
			l.deny(f)
			return ErrAway
		}
		return f.reply
	}
	return l.fail(part, p, err, false)
}

// back tells that a part is back.
func (l *link) back(part *part) {
	l.servers.returns.Add(1)
	if lasted, over := part.outage.end(l.clock.Now()); over {
		l.logOf(part).Info("leapredis: the server is back", "after", lasted)
	}
}

// forget forgets that ranges of slots were away of which nothing is heard any more.
func (l *link) forget(all bool) {
	if lasted, over := l.servers.forget(l.clock.Now(), all); over {
		l.log().Info("leapredis: no server is known to be away any more", "after", lasted)
	}
}

// logOf is for what is told of a part.
func (l *link) logOf(part *part) *slog.Logger {
	if part.name == "" {
		return l.log()
	}
	return l.log().With("server", part.name)
}

// timedOut fails a call that was not answered by its deadline, which has just passed.
func (l *link) timedOut(part *part, p pass, deadline int64) error {
	return l.fail(part, p, errTimeout, l.clock.Now()-deadline >= l.lateness)
}

// fail tells the breaker that a call was not answered, and returns ErrAway. The call is
// excused if this process is late itself, so that it cannot tell.
func (l *link) fail(part *part, p pass, err error, excused bool) error {
	l.failures.Add(1)
	if f := asFault(err); f != nil && f.isDenied() {
		l.deny(f)
	}
	now, waited, opened := l.clock.Now(), time.Duration(0), false
	if err == errTimeout { //nolint:errorlint // it is this very one
		waited = l.timeout
	}
	if excused {
		l.late.Add(1)
		opened = part.breaker.excuse(p, now, waited)
	} else {
		opened = part.breaker.fail(p, now, waited)
	}
	if !opened {
		return ErrAway
	}
	l.forget(false) // so that what nobody asks does not hide this
	if part.outage.begin(now) {
		l.servers.openings.Add(1)
		l.logOf(part).Warn("leapredis: the server is away", "error", loggable(err))
	}
	return ErrAway
}
