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

func (p plugged) Kind() string {
	defer p.faults.recover("Kind")
	return p.Guard.Kind()
}

func (p plugged) Bind(name string, old []Check) (checks []Check, named bool) {
	checks = old // if Bind panics, what they remember must not be lost
	defer p.faults.recover("Bind")
	own := make([]Check, len(old))
	last := make(map[string]*atomic.Pointer[stat.RuleSnapshot], len(old))
	for i, c := range old {
		before := c.(pluggedCheck)
		own[i], last[before.cause.RuleID] = before.Check, before.lastSnapshot
	}
	bound, names := p.Guard.Bind(name, own)
	var all []Check
	for _, c := range bound {
		s := pluggedCheck{Check: c, cause: c.Cause(), faults: p.faults}
		if s.cause == nil {
			panic("the Cause of a Check is nil")
		}
		if s.lastSnapshot = last[s.cause.RuleID]; s.lastSnapshot == nil {
			s.lastSnapshot = atomic.NewPointer(&stat.RuleSnapshot{
				ID: s.cause.RuleID, Kind: s.cause.Kind, Threshold: s.cause.Threshold, Interval: s.cause.Interval,
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
	cause  *Cause
	faults *faultLog
	// lastSnapshot is what Snapshot returned last: when it panics, counts must not go back.
	lastSnapshot *atomic.Pointer[stat.RuleSnapshot]
}

func (c pluggedCheck) Cause() *Cause { return c.cause }

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

func (c pluggedCheck) Mode() (mode rule.Mode) {
	mode = rule.Off
	defer c.faults.recover("Mode")
	return c.Check.Mode()
}

func (c pluggedCheck) Stage() Stage {
	defer c.faults.recover("Stage")
	return c.Check.Stage()
}

func (c pluggedCheck) Interval() time.Duration {
	defer c.faults.recover("Interval")
	return c.Check.Interval()
}

func (c pluggedCheck) Snapshot(now int64) (s stat.RuleSnapshot) {
	s = *c.lastSnapshot.Load()
	defer c.faults.recover("Snapshot")
	s = c.Check.Snapshot(now)
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
