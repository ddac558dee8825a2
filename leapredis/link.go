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
	// giveBack gives back what was taken by a call that was answered late, in the call's
	// goroutine, and may use the client.
	giveBack func(c *call)
	// lost is called with a call that got no reply, whatever has become of it on the server, in
	// the call's goroutine. It must not wait. Nil: it does not matter.
	lost func(c *call)
	log  func() *slog.Logger

	// denied is whether the server denies something to this limiter's scripts. That says nothing
	// about the scripts, or the prefixes, of others that share what is known of the servers.
	denied  part
	denials atomic.Int64 // how often it began to

	calls    sync.Pool // of *call; of this link's own, since timers belong to a test's bubble
	trips    atomic.Int64
	failures atomic.Int64

	complaints complaints
}

func newLink(client Client, cfg *Config) *link {
	l := &link{client: client, servers: serversOf(client, cfg.Timeout), timeout: cfg.Timeout}
	l.clock = l.servers.clock // breakers keep times of it
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

// do calls a script, and waits for l.timeout at most. The error is that of ctx if that ended,
// else it is [ErrAway] or, if the script found something wrong with the key, [*ReplyError].
// When ctx ends, what was asked goes on, and the answer to its question is kept.
func (l *link) do(ctx context.Context, r *request) (reply, error) {
	now := l.clock.Now()
	deadline := now + int64(l.timeout)
	part := l.servers.part(r.key)
	own, ok := l.denied.breaker.admit(now)
	if !ok {
		return reply{}, ErrAway
	}
	of, ok := part.breaker.admit(now)
	if !ok {
		l.denied.breaker.unanswered(own, now)
		return reply{}, ErrAway
	}
	p := passes{part, of, own}
	if part.stuck.Load() >= maxStuck {
		return reply{}, l.fail(p, errStuck)
	}
	c := l.calls.Get().(*call)
	c.request, c.passes = *r, p
	c.ctx = lasting(ctx)
	c.state.Store(waiting)
	l.trips.Add(1)
	go c.run()

	c.timer.Reset(l.timeout)
	var gone <-chan struct{}
	if ctx != nil {
		gone = ctx.Done()
	}
	select {
	case <-c.done:
	case <-c.timer.C:
		part.stuck.Add(1)
		if c.state.CompareAndSwap(waiting, late) { // run takes it back
			return reply{}, l.timedOut(p, r.key)
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
	return got, l.record(p, err)
}

var (
	errTimeout = errors.New("no answer in time")
	errStuck   = errors.New("too many calls hang")
	errReply   = errors.New("the reply is no array of integers")
)

func (l *link) put(c *call) {
	c.ctx, c.request, c.passes, c.err, c.overdue = nil, request{}, passes{}, nil, nil
	l.calls.Put(c)
}

// passes let one call be sent: that of the part, and that of what is denied to this limiter.
type passes struct {
	part    *part
	of, own pass
}

// record reports to the breakers how a call went, and returns its error.
func (l *link) record(p passes, err error) error {
	f := asFault(err)
	if err != nil && (f == nil || f.about == aboutServer) {
		return l.fail(p, err)
	}
	if !l.servers.answered.Load() {
		l.servers.answered.Store(true)
	}
	if p.part.breaker.succeed(p.of) {
		l.back(p.part)
	}
	if f != nil {
		l.failures.Add(1)
		l.report(f)
		if f.about == aboutUser && f.script != instancesScript {
			if l.denied.breaker.fail(p.own, l.clock.Now(), 0) {
				l.denials.Add(1)
				l.away(&l.denied, err)
			}
			return ErrAway
		}
	}
	if l.denied.breaker.succeed(p.own) {
		l.back(&l.denied)
	}
	switch {
	case f == nil:
		return nil
	case f.about == aboutKey:
		return f.reply
	default:
		return ErrAway
	}
}

// back logs that a part is back.
func (l *link) back(part *part) {
	l.logOf(part).Info("leapredis: the server is back", "after", time.Duration(l.clock.Now()-part.breaker.since.Load()))
}

// logOf returns the logger for messages about a part.
func (l *link) logOf(part *part) *slog.Logger {
	if part.name == "" {
		return l.log()
	}
	return l.log().With("server", part.name)
}

// timedOut fails a call that was not answered by its deadline.
func (l *link) timedOut(p passes, key string) error {
	if checker, ok := l.client.(IdleChecker); ok {
		checker.CheckIdle(key)
	}
	return l.fail(p, errTimeout)
}

// fail reports to the breakers that a call was not answered, and returns ErrAway.
func (l *link) fail(p passes, err error) error {
	l.failures.Add(1)
	now, waited := l.clock.Now(), time.Duration(0)
	l.denied.breaker.unanswered(p.own, now)
	if err == errTimeout { //nolint:errorlint // it is this very one
		waited = l.timeout
	}
	if p.part.breaker.fail(p.of, now, waited) {
		l.servers.openings.Add(1)
		l.away(p.part, err)
	}
	return ErrAway
}

// away logs that a part went away.
func (l *link) away(part *part, err error) {
	l.logOf(part).Warn("leapredis: the server is away", "error", loggable(err))
}

// state is that of the servers, and how many are not Closed. One that denies something to this
// limiter is away for it.
func (l *link) state() (State, int) {
	state, away := l.servers.state()
	if its := l.denied.breaker.state(); its != Closed && away == 0 {
		return its, 1
	}
	return state, away
}

// keepsAway is the breaker for which calls for a key are not sent now, nil if they are.
func (l *link) keepsAway(key string) *breaker {
	for _, b := range [...]*breaker{&l.servers.part(key).breaker, &l.denied.breaker} {
		if b.state() != Closed {
			return b
		}
	}
	return nil
}

// retryAfter is how long a call for a key that was decided without the server had better wait.
func (l *link) retryAfter(key string) time.Duration {
	if b := l.keepsAway(key); b != nil {
		return b.retryAfter(l.clock.Now())
	}
	return retryTime
}
