package isolation

import (
	"sync"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// adaptive moves the limit of a rule on one resource. It stays when the rule is changed.
//
// Calls read the running window, and add to it; that takes no lock. The one whose end makes a
// window complete moves the limit, and opens the next window. Those that come meanwhile go by the
// limit before.
type adaptive struct {
	running atomic.Pointer[tally] // written under mu; nil while the rule is not adaptive
	state   *resource.State
	counts  *state
	env     *ruleset.Env

	mu      sync.Mutex // guards what is below
	rule    *Rule
	search  *search        // nil while the rule is not adaptive
	cause   resource.Cause // of refusals, but for the limit
	skipped int            // windows in a row that were not judged
}

func newAdaptive(env *ruleset.Env, counts *state) *adaptive {
	return &adaptive{
		env: env, counts: counts,
		state: resource.NewState(steady, rising, falling, measuring, atFloor, atCeiling, tooSlow, fixed),
	}
}

// tally counts what happens in a window. Its first cache line is read by every call, and its
// second written.
type tally struct {
	limit int64
	opens int64 // when the first calls begin whose ends count
	ends  int64 // when the window ends, if enough calls have by then
	cause *resource.Cause
	out   int64 // calls that had been kept out when it did, and let in
	in    int64
	_     [64 - 6*8]byte

	// took comes first when a call ends: so calls never counts one whose time is missing. The
	// mean may have the time of a call that is not counted yet, one of a hundred.
	took  atomic.Int64 // nanoseconds, together
	calls atomic.Int64 // that began and ended well in the window
	most  atomic.Int64 // in flight

	queued atomic.Int64 // calls that have to wait
}

// maxSkipped is how many windows in a row are not judged because the container was throttled. What goes on for longer
// is how things are.
const maxSkipped = 5

// let notes that a call was let in, so that so many places are taken now.
func (t *tally) let(taken int64) {
	for most := t.most.Load(); taken > most; most = t.most.Load() {
		if t.most.CompareAndSwap(most, taken) {
			return
		}
	}
}

// ended counts a call that has ended well.
func (a *adaptive) ended(now, rt int64) {
	t := a.running.Load()
	if t == nil || now-rt <= t.opens { // what began at that very time may have had another limit
		return
	}
	t.took.Add(rt)
	if t.calls.Add(1) >= minCalls && now >= t.ends {
		a.end(t, now)
	}
}

// end ends a window.
//
//go:noinline
func (a *adaptive) end(t *tally, now int64) {
	throttled := a.env.Load != nil && a.env.Load().Throttled.Raw > 0 // no lock is held while the program's code runs
	if !a.mu.TryLock() {                                             // then somebody else is at it
		return
	}
	defer a.mu.Unlock()
	if a.running.Load() != t {
		return
	}
	calls := t.calls.Load()
	// A clock that moves in jumps may show no time at all for a call, and a mean of 0 no limit.
	mean := max(1, float64(t.took.Load())/float64(calls))
	w := window{now: now, mean: mean, most: t.most.Load(), kept: a.kept(t)}
	if throttled && a.skipped < maxSkipped { // the times of the window say little about the resource
		a.skipped++
	} else {
		a.skipped = 0
		if why := a.search.judge(&w); why != "" {
			a.state.Set(now, a.search.state, why)
		}
	}
	a.open(now)
}

// kept is the share of the calls of a window that the limit kept out, or made wait.
func (a *adaptive) kept(t *tally) float64 {
	out, in := a.counts.out()-t.out, a.counts.admitted.Load()-t.in
	return min(1, float64(out+t.queued.Load())/float64(max(1, out+in)))
}

// open begins a window. The caller holds mu.
func (a *adaptive) open(now int64) {
	settle, span := a.search.span()
	t := &tally{
		limit: int64(a.search.limit), opens: now + int64(settle), ends: now + int64(span),
		out: a.counts.out(), in: a.counts.admitted.Load(),
	}
	before := a.running.Load()
	if before != nil && before.limit == t.limit {
		t.cause = before.cause
		a.running.Store(t)
		return
	}
	cause := a.cause
	cause.Threshold = float64(t.limit)
	t.cause = &cause
	a.running.Store(t)
	a.counts.places.SetLimit(t.limit)
}

// load takes over a rule from now on, which may not be adaptive.
func (a *adaptive) load(r *Rule, cause *resource.Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rule != nil && *a.rule == *r {
		return
	}
	now := a.env.Time()
	a.rule, a.cause = r, *cause
	switch {
	case r.Strategy != Adaptive:
		a.running.Store(nil)
		a.state.Set(now, fixed, "the rule is not adaptive")
		a.search = nil
		return
	case a.search == nil:
		a.search = newSearch(r)
		a.state.Set(now, steady, "the rule is adaptive")
	default:
		a.search.load(r)
	}
	a.open(now)
}
