package resource

import (
	"context"
	"errors"
	"fmt"
	"time"
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
	//	63      40  39    32  31    0
	//	 failed: 40   stripe    count
	word uint64
}

const (
	stripeShift = 32
	failedFlag  = 1 << 40
)

// MaxCount is the largest count of one entry. Response times are summed up once per
// count: with it, a call of nine minutes does not overflow its sum.
const MaxCount = 1<<24 - 1

// ErrCount is the error of an entry whose count is not 1 to [MaxCount]. It is not a
// block.
var ErrCount = errors.New("leapgate: bad count")

// noCopy lets vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

func newEntry(set *guardSet, start int64, stripe int, n int64) Entry {
	return Entry{set: set, start: start, word: uint64(stripe)<<stripeShift | uint64(n)}
}

// SetError tells that the call failed with err, if err counts as an exception.
// A nil err is ignored. After Exit it does nothing.
func (e *Entry) SetError(err error) {
	if err != nil && e.set != nil && e.set.registry.isException(err) {
		e.word |= failedFlag
	}
}

// Exit ends the call: it counts one success, its response time, and an exception
// if it failed, times the count of the entry. A second Exit of the same variable
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
	failed := e.word&failedFlag != 0
	set.metric.Complete(now, int(uint8(e.word>>stripeShift)), int64(uint32(e.word)), rt, failed)
	if set.checks != nil {
		for _, f := range set.finish {
			f.Finish(now, int64(uint32(e.word)), time.Duration(rt), failed)
		}
	}
}

// EntryOption changes one entry. The zero EntryOption changes nothing.
type EntryOption struct {
	count    int64
	hasCount bool
}

// WithCount makes an entry count n times, 1 to [MaxCount]: it passes if n more
// fit into every rule, and counts n passes, n successes, n times its response time
// and n calls in flight, so that averages stay per call.
func WithCount(n int64) EntryOption { return EntryOption{count: n, hasCount: true} }

func countOf(opts []EntryOption) (int64, error) {
	n := int64(1)
	for _, o := range opts {
		if o.hasCount {
			n = o.count
		}
		if n < 1 || n > MaxCount {
			return 0, fmt.Errorf("%w: %d; want 1 to %d", ErrCount, n, MaxCount)
		}
	}
	return n, nil
}

// Call runs fn as one call into r, and gives what fn gives. If r blocks, fn does
// not run, and the error is a [*BlockError]. An error of fn that is an exception
// counts as one; with the default of what is, an error that is context.Canceled
// counts unless ctx itself was canceled. If fn panics or ends its goroutine, that
// counts as an exception too, and goes on.
func Call[T any](ctx context.Context, r *Resource, fn func(context.Context) (T, error), opts ...EntryOption) (T, error) {
	e, err := r.EntryContext(ctx, opts...)
	if err != nil {
		var none T
		return none, err
	}
	returned := false
	defer func() {
		if !returned {
			e.word |= failedFlag
		}
		e.Exit()
	}()
	result, err := fn(ctx)
	returned = true
	switch {
	case err != nil && errors.Is(err, context.Canceled) && !ended(ctx) && r.registry.defaultIsException:
		e.word |= failedFlag // a cancellation, but not the caller's
	default:
		e.SetError(err)
	}
	return result, err
}

func ended(ctx context.Context) bool { return ctx != nil && ctx.Err() != nil }
