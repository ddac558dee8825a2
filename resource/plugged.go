package resource

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// plugged is a guard that the program brought.
type plugged struct {
	Guard
	faults *faultLog
}

func (p plugged) Bind(name string, old []Check) (checks []Check, named bool) {
	checks = old // if Bind panics, what they remember must not be lost
	defer p.faults.recover("Bind")
	own := make([]Check, len(old))
	before := make(map[string]pluggedCheck, len(old))
	for i, c := range old {
		c := c.(pluggedCheck)
		own[i], before[c.cause.RuleID] = c.Check, c
	}
	bound, names := p.Guard.Bind(name, own)
	var all []Check
	for _, c := range bound {
		cause := c.Cause()
		if cause == nil {
			panic("the Cause of a Check is nil")
		}
		s := pluggedCheck{Check: c, cause: cause, faults: p.faults, lastSnapshot: before[cause.RuleID].lastSnapshot}
		s.mode = valueOf(p.faults, "Mode", rule.Off, c.Mode)
		s.stage = valueOf(p.faults, "Stage", 0, c.Stage)
		s.interval = valueOf(p.faults, "Interval", 0, c.Interval)
		if s.lastSnapshot == nil {
			s.lastSnapshot = atomic.NewPointer(&stat.RuleSnapshot{
				ID: cause.RuleID, Kind: cause.Kind, Threshold: cause.Threshold, Interval: cause.Interval,
			})
		}
		all = append(all, s)
	}
	return all, names
}

// pluggedCheck has all the methods that a check may have. [as] knows which of them the
// program's check has.
type pluggedCheck struct {
	Check
	faults *faultLog

	// These are the same at every call.
	cause    *Cause
	mode     rule.Mode
	stage    Stage
	interval time.Duration

	// lastSnapshot is what Snapshot returned last: when it panics, counts must not go back.
	lastSnapshot *atomic.Pointer[stat.RuleSnapshot]
}

func (c pluggedCheck) Cause() *Cause           { return c.cause }
func (c pluggedCheck) Mode() rule.Mode         { return c.mode }
func (c pluggedCheck) Stage() Stage            { return c.stage }
func (c pluggedCheck) Interval() time.Duration { return c.interval }

// valueOf returns what a method of the program returns, or fallback if it panics.
func valueOf[T any](faults *faultLog, method string, fallback T, of func() T) (value T) {
	value = fallback
	defer faults.recover(method)
	return of()
}

// noTicket is the ticket of a Reserve that panicked: it took nothing.
var noTicket = Ticket{math.MinInt64, math.MinInt64}

func (c pluggedCheck) Reserve(now, n int64, by Caller) (v Verdict) {
	v.Ticket = noTicket
	defer c.faults.recover("Reserve")
	return c.guarded(c.Check.Reserve(now, n, by))
}

func (c pluggedCheck) ReserveArgs(now, n int64, by Caller, args Args) (v Verdict, held any) {
	v.Ticket = noTicket
	defer c.faults.recover("ReserveArgs")
	own, held := c.Check.(ArgsCheck).ReserveArgs(now, n, by, args)
	return c.guarded(own), held
}

// guarded is a verdict of the program's check, made complete.
func (c pluggedCheck) guarded(v Verdict) Verdict {
	v.Refused = c.caused(v.Refused)
	if v.Delay != nil {
		delay := *v.Delay
		if delay.Turn != nil {
			delay.Turn = pluggedTurn{delay.Turn, c.faults}
		}
		if delay.Blocked != nil {
			delay.Blocked = pluggedCounter{delay.Blocked, c.faults}
		}
		v.Delay = &delay
	}
	return v
}

// caused is a refusal with a cause. It may be shared, in mode shadow, so it is not changed.
func (c pluggedCheck) caused(b *BlockError) *BlockError {
	if b != nil && b.Cause == nil {
		return &BlockError{c.cause, b.Observed, b.RetryAfter}
	}
	return b
}

func (c pluggedCheck) Look(now, n int64, by Caller) *BlockError {
	defer c.faults.recover("Look")
	b := c.Check.(Looker).Look(now, n, by)
	if b != nil { // it may be the same every time
		own := *b
		b = &own
	}
	return c.caused(b)
}

func (c pluggedCheck) Refund(ticket Ticket, n int64) {
	if ticket != noTicket {
		defer c.faults.recover("Refund")
		c.Check.Refund(ticket, n)
	}
}

func (c pluggedCheck) RefundArgs(ticket Ticket, n int64, args Args, held any) {
	if ticket != noTicket {
		defer c.faults.recover("RefundArgs")
		c.Check.(ArgsCheck).RefundArgs(ticket, n, args, held)
	}
}

func (c pluggedCheck) Wait(now, n int64, by Caller) time.Duration {
	defer c.faults.recover("Wait")
	return c.Check.Wait(now, n, by)
}

func (c pluggedCheck) WaitArgs(now, n int64, by Caller, args Args) time.Duration {
	defer c.faults.recover("WaitArgs")
	return c.Check.(ArgsCheck).WaitArgs(now, n, by, args)
}

func (c pluggedCheck) Finish(now, n int64, rt time.Duration, outcome Outcome) {
	defer c.faults.recover("Finish")
	c.Check.(Finisher).Finish(now, n, rt, outcome)
}

func (c pluggedCheck) FinishArgs(now, n int64, rt time.Duration, outcome Outcome, held any) {
	defer c.faults.recover("FinishArgs")
	c.Check.(ArgsFinisher).FinishArgs(now, n, rt, outcome, held)
}

func (c pluggedCheck) Snapshot(now int64) (s stat.RuleSnapshot) {
	s = valueOf(c.faults, "Snapshot", *c.lastSnapshot.Load(), func() stat.RuleSnapshot { return c.Check.Snapshot(now) })
	c.lastSnapshot.Store(&s)
	return s
}

// as returns a check as one of the interfaces that it may have besides Check.
func as[T any](c Check) (T, bool) {
	if p, ok := c.(pluggedCheck); ok {
		if _, has := p.Check.(T); !has {
			var none T
			return none, false
		}
	}
	t, ok := c.(T)
	return t, ok
}

type pluggedTurn struct {
	turn   Turn
	faults *faultLog
}

func (t pluggedTurn) Due(now int64, sooner func()) time.Duration {
	defer t.faults.recover("Due")
	return t.turn.Due(now, sooner)
}

func (t pluggedTurn) GiveBack(now int64) {
	defer t.faults.recover("GiveBack")
	t.turn.GiveBack(now)
}

type pluggedCounter struct {
	counter interface{ Add(n int64) }
	faults  *faultLog
}

func (c pluggedCounter) Add(n int64) {
	defer c.faults.recover("Add")
	c.counter.Add(n)
}

// faultLog counts the panics of one guard, and logs each cause once.
type faultLog struct {
	kind   string
	logger *slog.Logger

	mu     sync.Mutex // guards what is below
	count  int64
	causes map[string]bool
}

// maxFaultCauses bounds the memory of a guard whose panics differ every time.
const maxFaultCauses = 100

// recover is deferred around a call into a guard.
func (l *faultLog) recover(method string) {
	cause := recover()
	if cause == nil {
		return
	}
	text := fmt.Sprintf("%s: %.200s", method, fmt.Sprint(cause))
	l.mu.Lock()
	l.count++
	isNew := !l.causes[text] && len(l.causes) < maxFaultCauses
	if isNew {
		if l.causes == nil {
			l.causes = make(map[string]bool)
		}
		l.causes[text] = true
	}
	l.mu.Unlock()
	if isNew {
		l.logger.Error("leapgate: code of the program panicked; calls go on as if it were not there",
			"guard", l.kind, "method", method, "panic", fmt.Sprint(cause))
	}
}
