package leapredis

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// call is one call of a script. It runs in a goroutine of its own: a client may hang
// where it does not look at the context, while it dials or waits for a connection.
type call struct {
	link *link
	ctx  context.Context //nolint:containedctx // the call ends with it
	request
	passes

	state atomic.Uint32 // waiting, then answered, late or left
	done  chan struct{}
	timer *time.Timer
	reply reply
	err   error

	overdue *time.Timer // records it as late at its deadline, if its caller has left
}

type request struct {
	script   *script
	key      string
	args     args
	question question
}

const (
	waiting  uint32 = iota
	answered        // in time
	late            // not by its deadline: its caller has been told something else
	left            // not before its caller left, which was told nothing
)

func (c *call) run() {
	makeRoom(0)
	c.send()
	if c.link.lost != nil && c.err != nil && asFault(c.err) == nil {
		c.link.lost(c)
	}
	if c.state.CompareAndSwap(waiting, answered) {
		c.done <- struct{}{}
		return
	}
	l := c.link
	switch c.state.Load() {
	case late:
		if c.err == nil {
			c.state.Store(waiting) // for what giveBack sends
			l.giveBack(c)
		}
		c.part.stuck.Add(-1)
	case left:
		if c.inTime() {
			c.err = l.record(c.passes, c.err)
		}
		switch {
		case c.question.core != nil:
			c.question.core.keep(&c.question, c.reply, c.err)
		case c.err == nil:
			l.giveBack(c) // the caller can never give it back
		}
	}
	l.put(c)
}

// makeRoom has the goroutine's stack grow while there is next to nothing on it. It begins with
// 2 KB, which clients outgrow, and then all that is on it has to be looked at and moved: that
// took a third of the CPU time of a call.
//
//go:noinline
func makeRoom(i int) byte {
	var room [6 << 10]byte
	return room[i]
}

// leave has a call whose caller leaves recorded as late at its deadline, if it is not answered by then.
func (c *call) leave(deadline int64) {
	l, p, key := c.link, c.passes, c.key
	c.overdue = time.AfterFunc(time.Duration(deadline-l.clock.Now()), func() {
		p.part.stuck.Add(1)
		_ = l.timedOut(p, key)
	})
}

// inTime reports whether a call whose caller left has ended before its deadline.
func (c *call) inTime() bool {
	if c.overdue.Stop() {
		return true
	}
	c.part.stuck.Add(-1) // it is counted, or will be at once
	return false
}

// send calls the script, and with its text if the server does not know it: then nothing
// was executed.
func (c *call) send() {
	defer func() {
		if fault := recover(); fault != nil {
			c.err = fmt.Errorf("the client panicked: %v", fault)
		}
	}()
	got, err := c.eval()
	if err == nil && (len(got) == 0 || len(got) > len(c.reply)) {
		err = errReply
	}
	c.reply = reply{}
	copy(c.reply[:], got)
	c.err = faultOf(c.script, err)
}

func (c *call) eval() ([]int64, error) {
	given := c.args.values[:c.args.count]
	got, err := c.link.client.EvalSHA(c.ctx, c.script.sha, c.key, given...)
	if replied := replyOf(err); replied != nil && strings.HasPrefix(replied.Text, "NOSCRIPT") && c.state.Load() != late {
		return c.link.client.Eval(c.ctx, c.script.text, c.key, given...)
	}
	return got, err
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
