package leapredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	timeout time.Duration
	clock   clock.Clock
	breaker breaker
	// late is told of what was answered after its caller had gone, in a goroutine of its
	// own, and may use the client.
	late func(c *call)
	// back is told that the server is back.
	back func()
	log  func() *slog.Logger

	calls      sync.Pool    // of *call; of this link's own, since timers belong to a test's bubble
	stuck      atomic.Int64 // calls that were not answered by their deadlines, and still hang
	trips      atomic.Int64
	failures   atomic.Int64
	complaints complaints
}

// maxStuck is how many calls may hang in the client, each in a goroutine, after their
// deadlines. Beyond it, calls are not sent.
const maxStuck = 256

// call is one call of a script. It runs in a goroutine of its own: a client may hang
// where it does not look at the context, while it dials or waits for a connection.
type call struct {
	link   *link
	ctx    context.Context //nolint:containedctx // the call ends with it
	script *script
	key    string
	args   args

	state atomic.Uint32 // waiting, then answered or abandoned
	done  chan struct{}
	timer *time.Timer
	reply reply
	err   error

	overdue *time.Timer // counts it as stuck at its deadline, if its caller has gone
}

const (
	waiting uint32 = iota
	answered
	abandoned
)

func newLink(client Client, cfg *Config) *link {
	l := &link{client: client, timeout: cfg.Timeout, clock: clock.New(nil)}
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

// deadline is when a call that begins now must have its answer.
func (l *link) deadline() int64 { return l.clock.Now() + int64(l.timeout) }

// do calls a script, and waits until the deadline. The error is that of ctx if that ended,
// else it is [ErrAway] or, if the script found something wrong with the key, [*ReplyError].
func (l *link) do(ctx context.Context, deadline int64, s *script, key string, a *args) (reply, error) {
	now := l.clock.Now()
	p, ok := l.breaker.admit(now)
	if !ok {
		return reply{}, ErrAway
	}
	if l.stuck.Load() >= maxStuck {
		return reply{}, l.fail(p, errStuck)
	}
	c := l.calls.Get().(*call)
	c.script, c.key, c.args = s, key, *a
	c.ctx = lasting(ctx)
	c.state.Store(waiting)
	l.trips.Add(1)
	go c.run()

	c.timer.Reset(time.Duration(deadline - now))
	var gone <-chan struct{}
	if ctx != nil {
		gone = ctx.Done()
	}
	var left error
	select {
	case <-c.done:
	case <-c.timer.C:
		left = errTimeout
	case <-gone:
		left = ctx.Err()
	}
	c.timer.Stop()
	if left != nil {
		c.overdue = time.AfterFunc(time.Duration(deadline-l.clock.Now()), func() { l.stuck.Add(1) })
		if c.state.CompareAndSwap(waiting, abandoned) { // run takes it back
			if left == errTimeout { //nolint:errorlint // it is this very one
				return reply{}, l.fail(p, left)
			}
			l.breaker.giveUp(p, l.clock.Now())
			return reply{}, left
		}
		c.notStuck()
		<-c.done // it was answered after all
	}
	r, err := c.reply, faultOf(s, c.err)
	l.put(c)
	return r, l.judge(p, err)
}

var (
	errTimeout = errors.New("no answer in time")
	errStuck   = errors.New("too many calls hang")
	errReply   = errors.New("the reply is no array of integers")
)

// notStuck tells that an abandoned call has ended.
func (c *call) notStuck() {
	if !c.overdue.Stop() {
		c.link.stuck.Add(-1) // it is counted, or will be at once
	}
}

func (l *link) put(c *call) {
	c.ctx, c.script, c.key, c.args, c.err, c.overdue = nil, nil, "", args{}, nil, nil
	l.calls.Put(c)
}

// lasting is ctx without its end.
func lasting(ctx context.Context) context.Context {
	switch {
	case ctx == nil:
		return context.Background()
	case ctx.Done() == nil:
		return ctx
	default:
		return context.WithoutCancel(ctx)
	}
}

func (c *call) run() {
	c.send()
	if c.state.CompareAndSwap(waiting, answered) {
		c.done <- struct{}{}
		return
	}
	l := c.link
	if c.err == nil {
		c.state.Store(waiting) // for what late sends
		l.late(c)
	}
	c.notStuck()
	l.put(c)
}

// send calls the script, and with its text if the server does not know it: then nothing
// was executed.
func (c *call) send() {
	defer func() {
		if fault := recover(); fault != nil {
			c.err = fmt.Errorf("the client panicked: %v", fault)
		}
	}()
	given := c.args.values[:c.args.count]
	got, err := c.link.client.EvalSHA(c.ctx, c.script.sha, c.key, given...)
	if replied := replyOf(err); replied != nil && strings.HasPrefix(replied.Text, "NOSCRIPT") && c.state.Load() == waiting {
		got, err = c.link.client.Eval(c.ctx, c.script.text, c.key, given...)
	}
	if err == nil && (len(got) == 0 || len(got) > len(c.reply)) {
		err = errReply
	}
	c.reply = reply{}
	copy(c.reply[:], got)
	c.err = err
}

// judge tells the breaker how a call went, and gives its error.
func (l *link) judge(p pass, err error) error {
	f := asFault(err)
	if err == nil || f != nil && f.answered() {
		if l.breaker.succeed(p) {
			l.log().Info("leapredis: the server is back", "after", time.Duration(l.clock.Now()-l.breaker.since.Load()))
			l.back()
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
	return l.fail(p, err)
}

func (l *link) fail(p pass, err error) error {
	l.failures.Add(1)
	if f := asFault(err); f != nil && f.isDenied() {
		l.deny(f)
	}
	if l.breaker.fail(p, l.clock.Now()) {
		l.log().Warn("leapredis: the server is away", "error", loggable(err))
	}
	return ErrAway
}
