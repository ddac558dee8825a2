package resource

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/rule"
)

// Entry is one call into a resource, from Entry to [Entry.Exit]. It is a value of
// three words, made to live in a variable of the function that got it:
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
	_     noCopy
	set   *guardSet // as it was at entry; nil when there is nothing to exit
	start int64

	// word packs the rest:
	//
	//	57    42  41      40  39    32  31    0
	//	  took     outcome     stripe    count
	//
	// took has a bit for each check in mode shadow that has to be told of the exit.
	word uint64
}

const (
	stripeShift  = 32
	outcomeShift = 40
	outcomeMask  = 3 << outcomeShift
	tookShift    = 42
)

// MaxCount is the largest count of one entry. Response times are summed up once per
// count: calls that all have the largest may take 2.4 hours together before the sum over
// a window is wrong.
const MaxCount = 1 << 20

// ErrOrigin is the error of an origin that is longer than [rule.MaxNameLength]. It is not a
// block.
var ErrOrigin = errors.New("leapgate: bad origin")

// ErrCount is the error of an entry whose count is not 1 to [MaxCount]. It is not a
// block.
var ErrCount = errors.New("leapgate: bad count")

// noCopy lets vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

func newEntry(set *guardSet, start int64, stripe int, n int64, took uint64) Entry {
	return Entry{set: set, start: start, word: took<<tookShift | uint64(stripe)<<stripeShift | uint64(n)}
}

// SetError tells that the call returned err, and so how it ended: see Outcome of the
// gate's configuration. A nil err says nothing. [context.Canceled] is taken for the
// caller's own cancellation; [Call] knows better. Of several errors the gravest counts:
// a failure stays one. After Exit SetError does nothing.
func (e *Entry) SetError(err error) {
	if err == nil || e.set == nil {
		return
	}
	if o := e.set.registry.outcome(err); o == Failure || o == Ignored && e.outcome() == Success {
		e.SetOutcome(o)
	}
}

// SetOutcome tells how the call ended, whatever was told before. Without it, and without
// an error, a call is a [Success]. After Exit it does nothing, nor does an outcome that
// there is not.
func (e *Entry) SetOutcome(o Outcome) {
	if o <= Ignored {
		e.word = e.word&^outcomeMask | uint64(o)<<outcomeShift
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
	rt := max(0, now-e.start)
	outcome := e.outcome()
	if outcome == Ignored { // still in flight, so this cannot come too late
		set.metric.Add(now, metric.Ignored, int64(uint32(e.word)))
	}
	set.metric.Complete(now, int(uint8(e.word>>stripeShift)), int64(uint32(e.word)), rt, outcome == Failure)
	if set.checks != nil {
		for _, f := range set.finish {
			f.Finish(now, int64(uint32(e.word)), time.Duration(rt), outcome)
		}
		for took := e.word >> tookShift; took != 0; took &= took - 1 {
			set.finishIf[bits.TrailingZeros64(took)].Finish(now, int64(uint32(e.word)), time.Duration(rt), outcome)
		}
	}
}

// EntryOption changes one entry. The zero EntryOption changes nothing.
type EntryOption struct {
	kind   optionKind
	count  int64
	origin string
}

type optionKind uint8

const (
	noOption optionKind = iota
	countOption
	originOption
	priorityOption
)

// WithCount makes an entry count n times, 1 to [MaxCount]: it passes if n more
// fit into every rule, and counts n passes, n successes, n times its response time
// and n calls in flight, so that averages stay per call.
func WithCount(n int64) EntryOption { return EntryOption{kind: countOption, count: n} }

// WithOrigin tells who calls, for rules that are for some callers only, and for the
// last refusal of each rule. It has at most [rule.MaxNameLength] bytes.
func WithOrigin(origin string) EntryOption { return EntryOption{kind: originOption, origin: origin} }

// WithPriority lets an entry take what the next buckets of a rule will have room for,
// and wait for them, when the window is full. It counts there, as pass and as
// occupied-pass. How long it may wait, the rule tells.
func WithPriority() EntryOption { return EntryOption{kind: priorityOption} }

// apply gives what the options say, or tells what is wrong with them.
func apply(opts []EntryOption) (n int64, by Caller, err error) {
	n = 1
	for _, o := range opts {
		switch o.kind {
		case noOption:
		case countOption:
			if o.count < 1 || o.count > MaxCount {
				return 0, by, fmt.Errorf("%w: %d; want 1 to %d", ErrCount, o.count, MaxCount)
			}
			n = o.count
		case originOption:
			if len(o.origin) > rule.MaxNameLength {
				return 0, by, fmt.Errorf("%w: %.32q… has %d bytes; want at most %d", ErrOrigin, o.origin, len(o.origin), rule.MaxNameLength)
			}
			by.Origin = o.origin
		case priorityOption:
			by.Priority = true
		}
	}
	return n, by, nil
}

// Call runs fn as one call into r, and gives what fn gives. If r blocks, fn does
// not run, and the error is a [*BlockError]. What fn returns is told to the entry by
// [Entry.SetError]; if the gate has no Outcome of its own, an error that is
// context.Canceled is a failure unless ctx has ended. If fn panics or ends its
// goroutine, that is a failure too, and goes on.
func Call[T any](ctx context.Context, r *Resource, fn func(context.Context) (T, error), opts ...EntryOption) (T, error) {
	e, err := r.EntryContext(ctx, opts...)
	if err != nil {
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
	returned = true
	if r.registry.ignoresOwn && errors.Is(err, context.Canceled) && !ended(ctx) {
		e.SetOutcome(Failure) // a cancellation, but not the caller's
	} else {
		e.SetError(err)
	}
	return result, err
}

func ended(ctx context.Context) bool { return ctx != nil && ctx.Err() != nil }
