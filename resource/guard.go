package resource

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/rule"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// Guard is one family of protection, plugged into every resource of a gate.
// Flow rules are one, rules on calls in flight another, and a program may bring its
// own.
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
	// old is what Bind gave for the resource before, nil if it has just appeared:
	// what a check remembers of the resource lives there. If the resource is evicted
	// within the Interval of a check, its checks are kept: when the resource comes again
	// they go on as they are, or, if rules were loaded meanwhile, are old. The IDs of the
	// checks differ. One that has the ID of an old one goes on with its counts; one that
	// was left out is not to be given again.
	//
	// Bind is called when a resource appears and when Rebind of the gate
	// names it. No lock is held meanwhile; but an entry into the resource
	// that is being bound, a Rebind, or a loading of rules may ask again: a guard that
	// does so every time would do it for ever.
	Bind(resource string, old []Check) (checks []Check, named bool)
}

// Caller is who calls, and with what right.
type Caller struct {
	Origin   string // if that was told
	Priority bool   // the call may take what the next buckets will have, and wait for them
}

// Check is one rule of a guard on one resource. It takes and returns plain
// values: a pointer to the entry would move every entry to the heap.
//
// This interface is not yet stable.
type Check interface {
	// Cause is what a BlockError of this check has in common with its others. It is
	// the same at every call.
	Cause() *Cause
	// Mode tells whether the check blocks, only counts what it would block, or
	// is not to be asked. It is the same at every call.
	Mode() rule.Mode
	// Waits tells whether calls may have to wait for the check regularly. Such checks
	// are asked after all others, so that nobody waits for a refusal. It is the same
	// at every call.
	Waits() bool
	// Interval is how far back the check remembers, 0 if it does not. If its resource is
	// evicted before that, the check is kept in case that comes again.
	Interval() time.Duration

	// Reserve takes n, 1 or more, at now, in nanoseconds on the gate's axis; or it
	// refuses and takes nothing. The answer is the count: there is no second step that
	// could come too late.
	Reserve(now, n int64, by Caller) Verdict
	// Refund gives back what a Reserve took: a later check refused, or the
	// call did not wait to the end. A call that got a [Turn] gives that back instead.
	Refund(ticket Ticket, n int64)
	// Wait tells how long after now n more would be admitted if nobody else came: 0 if
	// they would be then, below 0 if that cannot be told or is never. now may be in
	// the future; nothing changes by asking.
	Wait(now, n int64, by Caller) time.Duration

	// Snapshot is the figures of the rule at now. The last refusal is filled in by the
	// caller, and so are the ID and the kind, from the Cause, if they are empty.
	Snapshot(now int64) stat.RuleSnapshot
}

// Finisher is a check that wants to know when calls end. Finish is called once for
// every call that was admitted after the check admitted it, whatever rules were
// loaded meanwhile; also if its Reserve panicked. A resource can have
// 16 of them in mode shadow; further ones are not asked.
//
// This interface is not yet stable.
type Finisher interface {
	Finish(now, n int64, rt time.Duration, outcome Outcome)
}

// Ticket is what Refund needs to find a reservation. Its words are the check's own.
type Ticket struct{ A, B int64 }

// Verdict is the answer of a check. The zero Verdict admits.
type Verdict struct {
	Ticket Ticket
	// Refused is not nil if the check refuses. It is the caller's error, but that its
	// RetryAfter is what Check.Wait would say. Without a Cause, it has that of the
	// check. A check in mode shadow may give the same one every time.
	Refused *BlockError
	// Delay is not nil if the check admits the call, but not at once.
	Delay *Delay
}

// Delay is why and how long a call has to wait.
type Delay struct {
	// For is how long the call waits: exactly, if Turn is nil, and otherwise at most.
	For time.Duration
	// Turn, if it is not nil, is the call's turn in a queue. Checks in mode shadow have
	// none, since nobody waits for them.
	Turn Turn
	// Borrowed tells that the call waits for what it took of a bucket to come, and is
	// counted as occupied-pass.
	Borrowed bool
	// Observed is for the error if the call does not wait to the end, and so is Cause, if
	// it is not nil; without it, the error has that of the check.
	Observed float64
	Cause    *Cause
	// Blocked, if it is not nil, counts the call if it does not wait to the end: what
	// the rule blocked.
	Blocked *metric.Counter
}

// Turn is the turn of one call in the queue of a check. It belongs to the call, which
// waits in its own goroutine, so the queue needs none. Its methods may be called while
// others are in the queue, by any number of goroutines.
//
// This interface is not yet stable.
type Turn interface {
	// Due returns how long after now the call's turn comes if nobody leaves the queue
	// before it: 0 if it has come, and then the call has what it waited for. Below 0
	// means that nobody can know, as with places that calls in flight must leave: then the
	// call waits in real time, and is refused when Delay.For has passed.
	//
	// Due is asked first when the wait begins, with the call's own now, and again when its
	// turn should have come. If the turn comes sooner than the last answer said, the queue
	// calls sooner of the last Due, once or more, and Due is asked again. sooner does not
	// block, and may be called under a lock.
	Due(now int64, sooner func()) time.Duration
	// GiveBack takes the call out of the queue, or gives back what it got when its turn
	// came. It is called, at most once, in place of Check.Refund. now is the present.
	GiveBack(now int64)
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

func (p plugged) Bind(name string, old []Check) ([]Check, bool) {
	defer p.faults.recover("Bind")
	own := make([]Check, len(old))
	told := make(map[string]*atomic.Pointer[stat.RuleSnapshot], len(old))
	for i, c := range old {
		before := c.(interface{ unwrap() pluggedCheck }).unwrap()
		own[i], told[before.cause.RuleID] = before.Check, before.told
	}
	given, named := p.Guard.Bind(name, own)
	var checks []Check
	for _, c := range given {
		s := pluggedCheck{Check: c, cause: c.Cause(), faults: p.faults}
		if s.cause == nil {
			panic("the Cause of a Check is nil")
		}
		if s.told = told[s.cause.RuleID]; s.told == nil {
			s.told = atomic.NewPointer(&stat.RuleSnapshot{
				ID: s.cause.RuleID, Kind: s.cause.Kind, Threshold: s.cause.Threshold, Interval: s.cause.Interval,
			})
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
	// told is what Snapshot gave last: when it panics, counts must not go back.
	told *atomic.Pointer[stat.RuleSnapshot]
}

func (c pluggedCheck) unwrap() pluggedCheck { return c }

func (c pluggedCheck) Cause() *Cause { return c.cause }

// noTicket is the ticket of a Reserve that panicked: it took nothing.
var noTicket = Ticket{math.MinInt64, math.MinInt64}

func (c pluggedCheck) Reserve(now, n int64, by Caller) (v Verdict) {
	v.Ticket = noTicket
	defer c.faults.recover("Reserve")
	v = c.Check.Reserve(now, n, by)
	if v.Refused != nil && v.Refused.Cause == nil { // it may be shared, in mode shadow
		v.Refused = &BlockError{c.cause, v.Refused.Observed, v.Refused.RetryAfter}
	}
	if v.Delay != nil && v.Delay.Turn != nil {
		delay := *v.Delay
		delay.Turn = pluggedTurn{delay.Turn, c.faults}
		v.Delay = &delay
	}
	return v
}

func (c pluggedCheck) Refund(ticket Ticket, n int64) {
	if ticket != noTicket {
		defer c.faults.recover("Refund")
		c.Check.Refund(ticket, n)
	}
}

func (c pluggedCheck) Wait(now, n int64, by Caller) time.Duration {
	defer c.faults.recover("Wait")
	return c.Check.Wait(now, n, by)
}

func (c pluggedCheck) Mode() (mode rule.Mode) {
	mode = rule.Off
	defer c.faults.recover("Mode")
	return c.Check.Mode()
}

func (c pluggedCheck) Waits() bool {
	defer c.faults.recover("Waits")
	return c.Check.Waits()
}

func (c pluggedCheck) Interval() time.Duration {
	defer c.faults.recover("Interval")
	return c.Check.Interval()
}

func (c pluggedCheck) Snapshot(now int64) (s stat.RuleSnapshot) {
	s = *c.told.Load()
	defer c.faults.recover("Snapshot")
	s = c.Check.Snapshot(now)
	c.told.Store(&s)
	return s
}

type pluggedFinisher struct {
	pluggedCheck
	finisher Finisher
}

func (c pluggedFinisher) Finish(now, n int64, rt time.Duration, outcome Outcome) {
	defer c.faults.recover("Finish")
	c.finisher.Finish(now, n, rt, outcome)
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
