package resource

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/stat"
)

// Guard is one family of protection, plugged into every resource of a gate.
// Flow rules are one, and a program may bring its own.
//
// This interface is not yet stable: more guards will show what it lacks.
//
// All methods may be called by any number of goroutines at once. A guard that a
// program brings is called under recover: if it panics, the call is admitted as
// if that guard were not there, and the fault is counted and logged, once per
// cause.
type Guard interface {
	// Kind names the guard in errors and snapshots: "flow".
	Kind() string
	// Bind gives the checks that bind the resource, in the order in which they
	// are asked, nil if there are none; and whether a rule names this very resource.
	// One that is named is there before anybody calls it, and is never evicted.
	// Bind is called when a resource appears and when [Registry.Rebind], or Rebind of
	// the gate, names it. No lock is held meanwhile; but an entry into the resource
	// that is being bound, or a Rebind, would ask again, and so on for ever.
	Bind(resource string) (checks []Check, named bool)
}

// Check is one rule of a guard on one resource. It takes and returns plain
// values: a pointer to the entry would move every entry to the heap.
//
// This interface is not yet stable.
type Check interface {
	// Cause is what a BlockError of this check has in common with its others.
	// It is the same at every call.
	Cause() *Cause
	// Mode tells whether the check blocks, only counts what it would block, or
	// is not to be asked. It is the same at every call.
	Mode() stat.Mode
	// Interval is how far back the check remembers, 0 if it does not. A resource
	// is not evicted before that.
	Interval() time.Duration

	// Reserve takes n at now, or refuses and takes nothing. The answer is the
	// count: there is no second step that could come too late.
	Reserve(now, n int64) Verdict
	// Refund gives back what a Reserve took, because a later check refused.
	Refund(ticket, n int64)
	// Wait tells how long from now n more would find room if nobody else came: 0
	// if they would now, below 0 if that cannot be told or is never.
	Wait(now, n int64) time.Duration

	// Snapshot is the figures of the rule.
	Snapshot() stat.RuleSnapshot
}

// Finisher is a check in mode enforce that wants to know when calls end. Finish
// is called once for every call that was admitted and that it was asked about,
// whatever rules were loaded meanwhile; also if its Reserve panicked.
//
// This interface is not yet stable.
type Finisher interface {
	Finish(now, n int64, rt time.Duration, failed bool)
}

// Verdict is the answer of a check.
type Verdict struct {
	Admitted bool
	Ticket   int64 // if admitted: what Refund needs to find the reservation
	// If not Admitted: what was held against the threshold, the refused call included,
	// and what Check.Wait would say.
	Observed float64
	Wait     time.Duration
}

// plugged is a guard that the program brought.
type plugged struct {
	Guard
	faults *faultLog
}

func (p plugged) Kind() string {
	defer p.faults.recover("Kind")
	return p.Guard.Kind()
}

func (p plugged) Bind(name string) ([]Check, bool) {
	defer p.faults.recover("Bind")
	given, named := p.Guard.Bind(name)
	var checks []Check
	for _, c := range given {
		s := pluggedCheck{c, c.Cause(), p.faults}
		if s.cause == nil {
			panic("the Cause of a Check is nil")
		}
		if f, ok := c.(Finisher); ok {
			checks = append(checks, pluggedFinisher{s, f})
		} else {
			checks = append(checks, s)
		}
	}
	return checks, named
}

type pluggedCheck struct {
	Check
	cause  *Cause
	faults *faultLog
}

func (c pluggedCheck) Cause() *Cause { return c.cause }

// noTicket is the ticket of a Reserve that panicked: it took nothing.
const noTicket = math.MinInt64

func (c pluggedCheck) Reserve(now, n int64) (v Verdict) {
	v = Verdict{Admitted: true, Ticket: noTicket}
	defer c.faults.recover("Reserve")
	return c.Check.Reserve(now, n)
}

func (c pluggedCheck) Refund(ticket, n int64) {
	if ticket != noTicket {
		defer c.faults.recover("Refund")
		c.Check.Refund(ticket, n)
	}
}

func (c pluggedCheck) Wait(now, n int64) time.Duration {
	defer c.faults.recover("Wait")
	return c.Check.Wait(now, n)
}

func (c pluggedCheck) Mode() stat.Mode {
	defer c.faults.recover("Mode")
	return c.Check.Mode()
}

func (c pluggedCheck) Interval() time.Duration {
	defer c.faults.recover("Interval")
	return c.Check.Interval()
}

func (c pluggedCheck) Snapshot() stat.RuleSnapshot {
	defer c.faults.recover("Snapshot")
	return c.Check.Snapshot()
}

type pluggedFinisher struct {
	pluggedCheck
	finisher Finisher
}

func (c pluggedFinisher) Finish(now, n int64, rt time.Duration, failed bool) {
	defer c.faults.recover("Finish")
	c.finisher.Finish(now, n, rt, failed)
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
		l.logger.Error("leapgate: a guard panicked; calls pass as if it were not there",
			"guard", l.kind, "method", method, "panic", fmt.Sprint(cause))
	}
}
