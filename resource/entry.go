package resource

import (
	"context"
	"errors"
	"math/bits"
	"time"

	"github.com/leapgate-go/leapgate/internal/meter"
)

// Entry is one call into a resource, from Entry to [Entry.Exit]. It is a value of
// four words, made to live in a variable of the function that got it:
//
//	e, err := r.Entry()
//	if err != nil {
//		return err
//	}
//	defer e.Exit()
//
// It must not be copied after that, or each copy could exit. Any one goroutine may
// exit it, but not two at once. The zero Entry, which comes with every error, may
// be exited too; nothing happens.
type Entry struct {
	set   *guardSet // as it was at entry; nil when there is nothing to exit
	start int64
	args  *argsCall // nil: no check holds anything for the arguments

	// word packs the rest:
	//
	//	58     57    42  41      40  39    32  31    0
	//	held     took     outcome     stripe    count
	//
	// took has a bit for each check in mode shadow that has to be told of the exit. held
	// is set if args is not nil.
	word entryWord
}

const (
	stripeShift  = 32
	outcomeShift = 40
	outcomeMask  = 3 << outcomeShift
	tookShift    = 42
	held         = 1 << 58
)

// entryWord has the methods of a lock, so that vet finds copies of entries. It is no field
// of its own, since a fifth one would keep entries out of registers.
type entryWord uint64

func (*entryWord) Lock()   {}
func (*entryWord) Unlock() {}

func newEntry(set *guardSet, start int64, stripe int, n int64) Entry {
	return Entry{set: set, start: start, word: entryWord(uint64(stripe)<<stripeShift | uint64(n))}
}

// SetError notes that the call returned err, and so how it ended: see Outcome of the
// gate's configuration. A nil err says nothing. [context.Canceled] is taken for the
// caller's own cancellation; [Entry.SetErrorContext] knows better. Of several errors the gravest counts:
// a failure stays one. After Exit SetError does nothing.
func (e *Entry) SetError(err error) {
	if err == nil || e.set == nil {
		return
	}
	if o := e.set.registry.outcome(err); o == Failure || o == Ignored && e.outcome() == Success {
		e.SetOutcome(o)
	}
}

// SetOutcome sets how the call ended, whatever was said before. Without it, and without
// an error, a call is a [Success]. After Exit it does nothing, nor does an outcome that
// there is not.
func (e *Entry) SetOutcome(o Outcome) {
	if o <= Ignored {
		e.word = e.word&^outcomeMask | entryWord(o)<<outcomeShift
	}
}

func (e *Entry) outcome() Outcome { return Outcome(e.word & outcomeMask >> outcomeShift) }

// Exit ends the call: it counts one success, which means that the call has completed, its
// response time, and an exception if it was a [Failure], times the count of the entry. A second Exit of the same variable
// does nothing.
func (e *Entry) Exit() {
	set := e.set
	if set == nil {
		return
	}
	e.set = nil
	clock, now := &set.registry.clock, int64(0) // as clock.Now does, but inlined
	if clock.Given == nil {
		now = clock.Real()
	} else {
		now = clock.Given()
	}
	now = max(now, e.start) // so that what began at now − rt is what was reserved then
	rt := max(0, now-e.start)
	outcome := e.outcome()
	if outcome == Ignored { // still in flight, so this cannot come too late
		set.metric.Add(now, meter.Ignored, int64(uint32(e.word)))
	}
	set.metric.Complete(now, int(uint8(e.word>>stripeShift)), int64(uint32(e.word)), rt, outcome == Failure)
	if set.told || e.word >= 1<<tookShift {
		e.finish(set, now, time.Duration(rt), outcome)
	}
}

// finish tells the checks of the end, and the program of what they make of it.
func (e *Entry) finish(set *guardSet, now int64, rt time.Duration, outcome Outcome) {
	n := int64(uint32(e.word))
	for _, f := range set.finish {
		f.Finish(now, n, rt, outcome)
	}
	for took := uint16(e.word >> tookShift); took != 0; took &= took - 1 {
		set.finishIf[bits.TrailingZeros16(took)].Finish(now, n, rt, outcome)
	}
	if e.args != nil {
		e.args.finish(now, n, rt, outcome)
		e.args = nil
	}
	switch {
	case set.state != nil && !set.state.due.Load(): // there is no other one
	case set.stateful != nil:
		set.deliver(set.registry)
	}
}

// SetErrorContext is [Entry.SetError] for a call that was made with ctx: if the gate has no
// Outcome of its own, an error that is context.Canceled is a failure unless ctx has ended.
func (e *Entry) SetErrorContext(ctx context.Context, err error) {
	if e.set != nil && e.set.registry.ignoresOwn && errors.Is(err, context.Canceled) && !ended(ctx) {
		e.SetOutcome(Failure) // a cancellation, but not the caller's
	} else {
		e.SetError(err)
	}
}

// Call runs fn as one call into r, and returns what fn returns. If r blocks, fn does
// not run, and the error is a [*BlockError]. What fn returns is told to the entry by
// [Entry.SetErrorContext]. If fn panics or ends its goroutine, that is a failure, and
// goes on.
func Call[T any](ctx context.Context, r *Resource, fn func(context.Context) (T, error), opts ...EntryOption) (T, error) {
	return CallOr(ctx, r, fn, nil, opts...)
}

// CallOr is [Call] with a fallback: if r blocks, it returns what fallback returns. Nothing
// else calls fallback, and a nil fallback is none. See CallOr of package leapgate.
func CallOr[T any](
	ctx context.Context, r *Resource, fn func(context.Context) (T, error),
	fallback func(context.Context, *BlockError) (T, error), opts ...EntryOption,
) (T, error) {
	e, err := r.EntryContext(ctx, opts...)
	if err != nil {
		if blocked, ok := errors.AsType[*BlockError](err); ok && fallback != nil {
			return fallback(ctx, blocked)
		}
		var none T
		return none, err
	}
	returned := false
	defer func() {
		if !returned {
			e.SetOutcome(Failure)
		}
		e.Exit()
	}()
	result, err := fn(ctx)
	e.SetErrorContext(ctx, err)
	returned = true
	return result, err
}

func ended(ctx context.Context) bool { return ctx != nil && ctx.Err() != nil }
