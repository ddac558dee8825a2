// Package resource has the named things that a gate protects: the handles to them, the
// entries into them, and what a guard must do to be asked.
//
// Resources belong to a gate: see package leapgate.
package resource

import (
	"context"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/internal/stats"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// Resource is a handle to a named thing that is protected. Hold on to it where a
// call is made often: its entries need no look-up. A handle is always good. If its
// resource was evicted meanwhile, its next entry registers it anew.
//
// All methods may be called by any number of goroutines at once.
type Resource struct {
	// set is what entries use. It is written under the registry's lock, and is
	// registry.nowhere while the resource has no place, or the gate is closed.
	set      atomic.Pointer[guardSet]
	registry *registry
	name     string

	// These are guarded by the registry's lock.
	home   *guardSet // set, or what it was when the gate was closed; nil without a place
	named  bool      // by a rule, so not to be evicted
	index  int       // in the registry's list of resources like it
	born   int64     // when it got its place
	serial int64     // of the resources that got a place before, and of this
}

// Name is the name of the resource.
func (r *Resource) Name() string { return r.name }

// Entry begins a call. A rule may let it wait. The error is a [*BlockError] if a rule
// refused it, or
// leapgate.ErrName if the handle was made for a name that cannot be.
func (r *Resource) Entry() (Entry, error) { return r.begin(context.Background()) }

// begin is Entry, and EntryContext without options.
func (r *Resource) begin(ctx context.Context) (Entry, error) {
	set := r.set.Load()
	clock, now := &set.registry.clock, int64(0) // as clock.Now does, but inlined
	if clock.Given == nil {
		now = clock.Real()
	} else {
		now = clock.Given()
	}
	switch {
	case set.metric == nil: // no place, or a closed gate
	case set.checks == nil:
		stripe := set.metric.Pass(now, 1)
		if set.metric.Holds() {
			return newEntry(set, now, stripe, 1), nil
		}
	case set.only != nil: // enter does the same, at the cost of all that may happen else
		v := set.only.Reserve(now, 1, Caller{})
		if v.Delay != nil || set.state != nil && set.state.due.Load() {
			return r.enterOnly(ctx, set, now, v)
		}
		if v.Refused != nil {
			return Entry{}, set.block(now, 1, "", v.Refused)
		}
		stripe := set.metric.Pass(now, 1)
		if set.metric.Holds() {
			return newEntry(set, now, stripe, 1), nil
		}
		set.only.Refund(v.Ticket, 1)
	}
	return r.enter(ctx, now, 1, Caller{}, nil)
}

// enterOnly is the rest of begin when the only check lets the call wait, or has gone over to
// another state.
//
//go:noinline
func (r *Resource) enterOnly(ctx context.Context, set *guardSet, now int64, v Verdict) (Entry, error) {
	var a admission
	a.set, a.now, a.n = set, now, 1
	ok := a.counted(a.goOn(ctx, 0, v))
	if set.state != nil {
		set.deliver(set.registry)
	}
	switch {
	case !ok:
		return r.enter(ctx, a.now, 1, Caller{}, nil)
	case a.blocked != nil:
		return Entry{}, a.err()
	default:
		return newEntry(set, a.now, a.stripe, 1), nil
	}
}

// EntryContext begins a call with options. If ctx has ended, it returns ctx.Err()
// and counts nothing. A rule may let the call wait; if ctx ends meanwhile, the call is
// blocked, and the error is both leapgate.ErrBlocked and ctx.Err(). If the deadline of ctx comes before
// the wait would be over, that happens at once. A count out of range is
// leapgate.ErrCount, an origin that is too long leapgate.ErrOrigin, a bad argument
// leapgate.ErrArg.
func (r *Resource) EntryContext(ctx context.Context, opts ...EntryOption) (Entry, error) {
	if ctx != nil {
		if err := ctx.Err(); err != nil {
			return Entry{}, err
		}
	}
	if len(opts) == 0 {
		return r.begin(ctx)
	}
	n, by, args, err := apply(opts)
	if err != nil {
		return Entry{}, err
	}
	if args > 0 {
		return r.enterArgs(ctx, n, by, opts)
	}
	return r.enter(ctx, r.registry.clock.Now(), n, by, nil)
}

// enterArgs is enter with the arguments among the options.
func (r *Resource) enterArgs(ctx context.Context, n int64, by Caller, opts []EntryOption) (Entry, error) {
	args := argsCalls.Get().(*argsCall)
	if err := args.take(opts); err != nil {
		args.free()
		return Entry{}, err
	}
	return r.enter(ctx, r.registry.clock.Now(), n, by, args)
}

// enter is begin with everything that may happen.
//
//go:noinline
func (r *Resource) enter(ctx context.Context, now, n int64, by Caller, args *argsCall) (Entry, error) {
	set := r.set.Load()
	var void *meter.Meter // of the resource that was evicted when this call came
	for {
		if set.metric == nil || set.metric == void {
			home, err := r.registry.attach(r, void, now)
			if home == nil { // a bad name, or the gate is closed
				args.free()
				return Entry{}, err
			}
			set = home
		}
		var a admission // a literal would be made elsewhere and copied, which takes its time
		a.set, a.now, a.n, a.by, a.args = set, now, n, by, args
		ok := a.run(ctx)
		if set.checks != nil && set.stateful != nil {
			set.deliver(set.registry)
		}
		switch {
		case !ok:
			void, now, args = set.metric, a.now, a.args // the time is later if the call has waited
		case a.blocked != nil:
			a.args.free()
			return Entry{}, a.err()
		default:
			return a.entry(), nil
		}
	}
}

// QPS is the number of events in the last second, the running tenth of it
// included. For [metric.RT] it is the sum of response times in nanoseconds.
func (r *Resource) QPS(e metric.Event) float64 {
	set := r.set.Load()
	if set.metric == nil {
		if set, _ = r.registry.homeOf(r); set == nil {
			return 0
		}
	}
	clock, now := &r.registry.clock, int64(0) // as clock.Now does, but inlined
	if clock.Given == nil {
		now = clock.Real()
	} else {
		now = clock.Given()
	}
	return set.metric.QPS(now, uint8(e))
}

// Snapshot returns the figures of the resource. If it has no place in the registry,
// they are all zero.
func (r *Resource) Snapshot() stat.Snapshot {
	home, serial := r.registry.homeOf(r)
	now := r.registry.clock.Now()
	at := r.registry.clock.Wall(now)
	if home == nil {
		return stat.Snapshot{Resource: r.name, At: at}
	}
	s := home.snapshot(r.name, now, at)
	s.Serial = serial
	return s
}

// History returns the last minute second by second; the 60 seconds before that of
// now, and that of now as far as it has come, oldest first. Seconds in which nothing happened
// are there too, with the calls that were in flight. It is
// nil if the resource has no place in the registry.
func (r *Resource) History() []stat.Second {
	home, _ := r.registry.homeOf(r)
	if home == nil {
		return nil
	}
	return home.stat.History(r.registry.clock.Now())
}

// Recent returns the latencies of the last eight to ten seconds: of the running bucket of 2s and the four before it.
func (r *Resource) Recent() metric.Latencies { return r.latencies((*stats.Stats).Recent) }

// Minute returns the latencies of the last 50 to 60 seconds: of the running bucket of 10s and the five before it.
func (r *Resource) Minute() metric.Latencies { return r.latencies((*stats.Stats).Minute) }

func (r *Resource) latencies(of func(*stats.Stats, int64) metric.Latencies) metric.Latencies {
	home, _ := r.registry.homeOf(r)
	if home == nil {
		return metric.Latencies{}
	}
	return of(home.stat, r.registry.clock.Now())
}
