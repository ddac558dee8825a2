// Package resource has the named things that a gate protects: the handles to them, the
// entries into them, and what a guard must do to be asked.
//
// Resources belong to a gate: see package leapgate.
package resource

import (
	"context"

	"go.uber.org/atomic"

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
	bound  uint32    // the generation of the rules that home has the checks of
	used   int64     // calls that passed in earlier stays that are remembered
}

// Name is the name of the resource.
func (r *Resource) Name() string { return r.name }

// Entry begins a call. A rule may let it wait. The error is a [*BlockError] if a rule
// refused it, or
// [ErrName] if the handle was made for a name that cannot be.
func (r *Resource) Entry() (Entry, error) {
	set := r.set.Load()
	clock, now := &set.registry.clock, int64(0) // as clock.Now does, but inlined
	if clock.Given == nil {
		now = clock.Real()
	} else {
		now = clock.Given()
	}
	if set.checks == nil && set.metric != nil {
		stripe := set.metric.Pass(now, 1)
		if set.metric.Holds() {
			return newEntry(set, now, stripe, 1, 0), nil
		}
	}
	return r.enter(context.Background(), now, 1, Caller{})
}

// EntryContext begins a call with options. If ctx has ended, it gives ctx.Err()
// and counts nothing. A rule may let the call wait; if ctx ends meanwhile, the call is
// blocked, and the error is both [ErrBlocked] and ctx.Err(). A count out of range is
// [ErrCount], an origin that is too long [ErrOrigin].
func (r *Resource) EntryContext(ctx context.Context, opts ...EntryOption) (Entry, error) {
	if ctx != nil {
		if err := ctx.Err(); err != nil {
			return Entry{}, err
		}
	}
	n, by, err := apply(opts)
	if err != nil {
		return Entry{}, err
	}
	return r.enter(ctx, r.registry.clock.Now(), n, by)
}

// enter is Entry with everything that may happen.
//
//go:noinline
func (r *Resource) enter(ctx context.Context, now, n int64, by Caller) (Entry, error) {
	set := r.set.Load()
	var void *metric.Metric // of the resource that was evicted when this call came
	for {
		if set.metric == nil || set.metric == void {
			home, err := r.registry.attach(r, void, now)
			if home == nil { // a bad name, or the gate is closed
				return Entry{}, err
			}
			set = home
		}
		var a admission // a literal would be made elsewhere and copied, which takes its time
		a.set, a.now, a.n, a.by = set, now, n, by
		switch {
		case !a.run(ctx):
			void, now = set.metric, a.now // which is later if the call has waited
		case a.blocked != nil:
			return Entry{}, a.err()
		default:
			return newEntry(set, a.now, a.stripe, n, a.took), nil
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
	return set.metric.QPS(now, e)
}

// Snapshot gives the figures of the resource. If it has no place in the registry,
// they are all zero.
func (r *Resource) Snapshot() stat.Snapshot {
	home, carried := r.registry.homeOf(r)
	now := r.registry.clock.Now()
	at := r.registry.clock.Wall(now)
	if home == nil {
		return stat.Snapshot{Resource: r.name, At: at}
	}
	return home.snapshot(r.name, now, at, carried)
}

// History gives the last minute second by second; see [stat.Stat.History]. It is
// nil if the resource has no place in the registry.
func (r *Resource) History() []stat.Second {
	home, _ := r.registry.homeOf(r)
	if home == nil {
		return nil
	}
	return home.stat.History(r.registry.clock.Now())
}

// Recent gives the latencies of the last ten seconds.
func (r *Resource) Recent() metric.Latencies { return r.latencies((*stat.Stat).Recent) }

// Minute gives the latencies of the last minute.
func (r *Resource) Minute() metric.Latencies { return r.latencies((*stat.Stat).Minute) }

func (r *Resource) latencies(of func(*stat.Stat, int64) metric.Latencies) metric.Latencies {
	home, _ := r.registry.homeOf(r)
	if home == nil {
		return metric.Latencies{}
	}
	return of(home.stat, r.registry.clock.Now())
}
