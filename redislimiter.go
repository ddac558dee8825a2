package leapgate

import (
	"errors"
	"runtime"
	"strings"
	"sync"

	"github.com/leapgate-go/leapgate/resource"
)

// Limiter admits calls and is told how they ended. It is the interface of that name in go-redis.
type Limiter interface {
	Allow() error
	ReportResult(result error)
}

// RedisLimiter returns a Limiter for the Options of a go-redis client: each of its commands and
// pipelines, and each attempt to repeat one, is a call into the resource, from before it gets a
// connection until it has its answer. If a rule refuses it, the command's error is [ErrBlocked].
//
//	redis.NewClient(&redis.Options{Addr: addr, Limiter: leapgate.RedisLimiter(gate.Resource("redis"))})
//
// An answer of the server is a [Success], redis.Nil too, unless it says that the server cannot serve:
// BUSY, CLUSTERDOWN, LOADING, MASTERDOWN, MISCONF, NOREPLICAS, OOM, READONLY, or that it has too many
// clients. These and all other errors are what Outcome of the gate's configuration says: by default
// context.Canceled is [Ignored], and the rest, such as errors of the network, a [Failure]. A
// command that is refused elsewhere ([ErrBlocked]) is Ignored.
//
// What go-redis does to set up a connection are calls as well, but they are part of one that was
// admitted, so they are never refused: what rules say to them counts as a block all the same.
//
// The client does not tell which call it is that has ended, so the oldest is taken to be: response
// times and outcomes are exact in sum, but not by call, and none is longer than the longest was. At
// most 65,536 calls are kept in flight; with one more, the oldest ends, as Ignored. ReportResult does
// nothing if there is none. Where a rule lets a call wait, it waits whatever becomes of the command's
// context, which a Limiter does not get.
//
// The Limiter may be used by any number of goroutines at once, but is for one client.
func RedisLimiter(r *resource.Resource) Limiter { return &redisLimiter{resource: r} }

const maxRedisCalls = 1 << 16

type redisLimiter struct {
	resource *resource.Resource

	mu             sync.Mutex // guards what is below
	oldest, newest *redisCall
	calls          int // from oldest to newest
	parts          int // of calls, that rules had refused and that have not ended
}

type redisCall struct {
	entry resource.Entry
	next  *redisCall // the one that came after it
}

func (l *redisLimiter) Allow() (err error) {
	c := &redisCall{}
	if c.entry, err = l.resource.Entry(); err != nil {
		if l.part() {
			return nil
		}
		return err
	}
	if lost := l.push(c); lost != nil {
		lost.entry.SetOutcome(Ignored)
		lost.entry.Exit()
	}
	return nil
}

func (l *redisLimiter) push(c *redisCall) (lost *redisCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == maxRedisCalls {
		lost = l.pop()
	}
	if l.calls++; l.calls == 1 {
		l.oldest = c
	} else {
		l.newest.next = c
	}
	l.newest = c
	return lost
}

func (l *redisLimiter) pop() *redisCall {
	c := l.oldest
	if c != nil {
		l.calls--
		l.oldest = c.next
	}
	return c
}

// part reports whether a call that was refused is part of one that was admitted: a client that may try
// once whether the server is back must connect for that. The stack tells, which is looked at only if a
// call was refused while others are in flight.
func (l *redisLimiter) part() bool {
	l.mu.Lock()
	alone := l.calls == 0
	l.mu.Unlock()
	if alone || !connecting() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts++
	return true
}

// connecting reports whether the caller is go-redis setting up a connection. That function has had
// this name since its version 6; a test with a real server would notice another.
func connecting() bool {
	var stack [128]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, ".(*baseClient).initConn") {
			return true
		}
		if !more {
			return false
		}
	}
}

func (l *redisLimiter) ReportResult(result error) {
	c := l.ended()
	if c == nil {
		return
	}
	defer c.entry.Exit()
	answer, answered := errors.AsType[interface {
		error
		RedisError()
	}](result)
	switch {
	case errors.Is(result, ErrBlocked):
		c.entry.SetOutcome(Ignored)
	case !answered || cannotServe(answer.Error()):
		c.entry.SetError(result)
	}
}

// ended returns the call that a report is of; nil if it has none.
func (l *redisLimiter) ended() *redisCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts > 0 && connecting() {
		l.parts--
		return nil
	}
	return l.pop()
}

// cannotServe reports whether the text of an error that a server of Redis answered says that it
// cannot do what it is for.
func cannotServe(text string) bool {
	text = strings.TrimPrefix(text, "ERR ")
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY":
		return true
	default:
		return strings.HasPrefix(text, "max number of clients")
	}
}
