package resource

import (
	"time"

	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// Guard carries out one kind of rules in a gate. It is asked for its checks of every
// resource. Flow rules have one, rules on calls in flight another, and a program may bring
// its own, in the Guards of the gate's configuration.
//
// All methods may be called by any number of goroutines at once. A guard that a program
// brings is called under recover, and so are its checks: if one panics, the call is
// admitted as if the check were not there, and the fault is counted, and logged once per
// cause. If Bind panics, the resource keeps the checks that it had. None of the methods may
// end its goroutine: then nobody gives back what the call has taken.
type Guard interface {
	// Kind names the guard in errors, snapshots and metrics: "flow". It is 1 to 64 bytes of
	// printable text, the same at every call, and no other guard of the gate has it.
	Kind() string
	// Bind returns the checks of a resource, in the order in which they are asked; nil for
	// none. named reports whether a rule names this very resource: then it is there before
	// anybody calls it, and is never evicted. The IDs of the checks differ.
	//
	// old is what Bind returned for the resource before; nil if it has just appeared. What
	// a check remembers of the resource lives there. A check that has the ID of an old one, and
	// in its Cause the same Last or State, keeps its counts. One that was left out must not be
	// returned again. The checks of a resource end when it is evicted.
	//
	// Bind is called when a resource appears, when a load of rules of any kind concerns it,
	// and when Rebind of the gate names it. No lock
	// is held meanwhile. Bind may use the gate; but an entry into the resource that is being
	// bound, a Rebind or a load of rules may call Bind again: if that happens every time,
	// it never ends.
	Bind(resource string, old []Check) (checks []Check, named bool)
}

// Check is one rule of a guard on one resource. It takes and returns plain values, so
// that no entry is moved to the heap. What more a check wants, it says by further methods:
// [Finisher], [Looker], [ArgsCheck], [ArgsFinisher]. They are looked for when a resource is
// bound.
type Check interface {
	// Cause is what the refusals of this check have in common. It is the same at every
	// call, and not nil.
	Cause() *Cause
	// Mode reports whether the check blocks, only counts what it would block, or is not
	// asked. It is the same at every call.
	Mode() rule.Mode
	// Stage is when the check is asked, among the checks of its resource. It is the same at
	// every call.
	Stage() Stage
	// Interval is how far back the check remembers, 0 if it does not. It is the same at every
	// call. The resource is not evicted until that time, or an hour, has passed without calls.
	Interval() time.Duration

	// Reserve takes n, 1 to 1,048,576, at now, in nanoseconds on the gate's axis; or it
	// refuses and takes nothing. The answer is the count: there is no second step that
	// could come too late.
	Reserve(now, n int64, by Caller) Verdict
	// Refund gives back what a Reserve took: a later check refused, or the call did not
	// wait to the end. A call that got a [Turn] gives that back instead.
	Refund(ticket Ticket, n int64)
	// Wait returns how long after now n more would be admitted if nobody else came: 0 if
	// they would be at once, below 0 if that is not known or never. now may be in the
	// future, by days. Wait must only read: it is called for calls that other checks have
	// blocked, and must not change what any later Reserve decides. In particular, it must not
	// move windows, drop what will have expired by then, or make room for new keys.
	Wait(now, n int64, by Caller) time.Duration

	// Snapshot returns the figures of the rule at now. The last refusal is filled in by the
	// caller, and so are the ID and the kind, from the Cause, if they are empty.
	Snapshot(now int64) stat.RuleSnapshot
}

// Stage is when a check is asked. The checks of a resource are asked by stage, within
// one stage in the order in which they were bound. Those in mode shadow are asked after
// all that enforce, since only calls that pass those exist for them; again by stage.
type Stage uint8

// The stages.
const (
	// Counting is for checks that never let calls wait, or only those with priority.
	Counting Stage = iota
	// Waiting is for checks in which calls may wait: nobody shall wait to be refused by
	// one that could have said so at once.
	Waiting
	// Beginning is for checks that must be asked at the very moment at which the call
	// begins, when all waits are over. Then now of its Reserve is now − rt of its Finish.
	// Such a check should be a [Looker].
	Beginning
)

// Looker is a check of a later stage that can refuse a call before other checks have taken
// anything of it, or let it wait.
type Looker interface {
	// Look returns the refusal of a call that would be refused, which it counts; nil
	// otherwise. It takes nothing. It is called before all checks, if one of an earlier stage
	// enforces, and not in mode shadow. The check's Reserve is called after that as always.
	// The refusal is as that of a [Verdict]: the caller's error.
	Look(now, n int64, by Caller) *BlockError
}

// Finisher is a check that wants to know when calls end.
type Finisher interface {
	// Finish is called once for every call that was admitted after the check admitted it,
	// whatever rules were loaded meanwhile; also if its Reserve panicked. now is the
	// present, but never before the begin of the call, and rt is how long the call took: it
	// began at now − rt. Pauses are left out of rt: see [Entry.Pause].
	//
	// A resource can have 16 in mode shadow. Further ones are not asked.
	Finish(now, n int64, rt time.Duration, outcome Outcome)
}

// ArgsCheck is a check that decides by the arguments of calls; see [WithArg]. The methods
// with arguments are called in place of those without.
type ArgsCheck interface {
	Check
	// ReserveArgs is Reserve. held is what the check needs to find again what it took for
	// these arguments, besides the ticket; nil for nothing. A pointer needs no allocation.
	ReserveArgs(now, n int64, by Caller, args Args) (v Verdict, held any)
	// RefundArgs is Refund.
	RefundArgs(ticket Ticket, n int64, args Args, held any)
	// WaitArgs is Wait.
	WaitArgs(now, n int64, by Caller, args Args) time.Duration
}

// ArgsFinisher is an [ArgsCheck] that wants to know when calls end for which it holds
// something. If it is a [Finisher] as well, Finish is not called.
type ArgsFinisher interface {
	// FinishArgs is called once for every call that was admitted after the check admitted it
	// with a held that was not nil. See Finish of [Finisher].
	FinishArgs(now, n int64, rt time.Duration, outcome Outcome, held any)
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
	// Expected is how long the call will probably wait, 0 if that is not known. If its context
	// has a deadline before that, it is refused at once.
	Expected time.Duration
	// Turn, if it is not nil, is the call's turn in a queue. Checks in mode shadow have
	// none, since nobody waits for them.
	Turn Turn
	// Borrowed is true if the call waits for what it took of a bucket to come, and is
	// counted as occupied-pass.
	Borrowed bool
	// Observed is for the error if the call does not wait to the end, and so is Cause, if
	// it is not nil; without it, the error has that of the check.
	Observed float64
	Cause    *Cause
	// Blocked, if it is not nil, counts the call if it does not wait to the end: what
	// the rule blocked.
	Blocked interface{ Add(n int64) }
}

// Turn is the turn of one call in the queue of a check. It belongs to the call, which
// waits in its own goroutine, so the queue needs none. Its methods may be called while
// others are in the queue, by any number of goroutines.
type Turn interface {
	// Due returns how long after now the call's turn comes if nobody leaves the queue
	// before it: 0 if it has come, and then the call has what it waited for. Below 0
	// means that nobody can know, as with places that calls in flight must leave: then the
	// call is refused when Delay.For has passed.
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
