package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/stat"
)

// State is what a check is in from one call to the next, when that is more than a count: a
// breaker is closed, open or half-open. A check that has one makes it with [NewState],
// names it in its [Cause], and calls [State.Set] when it goes over to another:
//
//	state := resource.NewState("closed", "open")
//	cause := resource.Cause{Resource: name, Kind: "trip", RuleID: "trip", State: state}
//	…
//	state.Set(now, "open", "3 failures in a row")
//
// The rest is done for it: the snapshot of the rule has the state, since when, how many
// changes there were and the last of them; metrics and the dashboard show them; and the
// gate's OnChange is told of each change.
//
// A state belongs to a rule on a resource. So when Bind makes another check for a rule of
// the same ID, because something was changed of it, the new check takes over the State of
// the old one: old.Cause().State. Each resource has its own, also where one rule binds
// many, unless their checks share one: then it is that of all, and Binds of their Causes says
// of what.
//
// # When OnChange is called
//
// Set calls nobody, so it may be called under the locks of the check. The change waits, and
// OnChange is called when the entry, the exit or the loading of rules in which Set was called
// is about to return, with no lock held. It is called for one change of a State after the
// other, in their order: of several goroutines with changes only one calls OnChange, for
// all, as long as there are any, and the others go on. So if OnChange is slow, or hangs, no
// other call waits for it. Then changes gather: when 64 wait, each further one is joined with
// the newest of them, which counts it as Skipped.
//
// Reading figures never calls OnChange, since that may be done under a lock: what a
// check finds out in Snapshot waits for the next call into the resource. So does what is set
// outside of any call, as by a timer; Rebind of the gate, with the name of the resource, tells
// it at once. What still waits when its rule is removed, or its resource is forgotten, is not
// told.
//
// All methods may be called by any number of goroutines at once. Where a check goes over to
// another state because of the one it is in, it needs a lock of its own around both steps.
type State struct {
	states  []string      // all that there are; not changed
	current atomic.Uint32 // index in states; written under mu
	due     atomic.Bool   // changes wait, and nobody is telling them; written under mu

	mu      sync.Mutex // guards what is below; nobody is called under it
	count   int64
	last    []change // oldest first
	waiting []change // those that are to be told, oldest first
	telling bool     // somebody is at it
}

// change is a stat.Change of one State.
type change struct {
	at       int64
	from, to uint32 // indices in its states
	reason   string
	skipped  int64
}

const (
	// maxStates and maxStateLength bound the series that a rule has in metrics.
	maxStates      = 16
	maxStateLength = 32

	maxReasonLength = 256 // bytes
	maxLastChanges  = 16

	// maxWaiting bounds the memory that changes take when OnChange hangs.
	maxWaiting = 64
)

// NewState returns a State that is in the first of the given states; there are no others
// than these. They are 1 to 16 different words of 1 to 32 lower-case letters, digits and
// hyphens. It panics otherwise.
func NewState(states ...string) *State {
	if len(states) == 0 || len(states) > maxStates {
		panic(fmt.Sprintf("resource: there are %d states; want 1 to %d", len(states), maxStates))
	}
	for i, state := range states {
		if !isState(state) {
			panic(fmt.Sprintf("resource: the state %.64q is not 1 to %d lower-case letters, digits and hyphens", state, maxStateLength))
		}
		if slices.Contains(states[:i], state) {
			panic(fmt.Sprintf("resource: the state %q is there twice", state))
		}
	}
	return &State{states: slices.Clone(states)}
}

func isState(s string) bool {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	return s != "" && len(s) <= maxStateLength && !strings.ContainsFunc(s, other)
}

// Current returns the state that s is in. It takes no lock and allocates nothing.
func (s *State) Current() string { return s.states[s.current.Load()] }

// Set makes s go over to a state at now, in nanoseconds on the gate's axis, and reports
// whether it was in another one. If now is before the last change, that time counts. reason
// is for people, and has the numbers: "11 of 20 calls failed". It is cut after 256 bytes. Set
// panics if there is no such state.
func (s *State) Set(now int64, to, reason string) bool {
	i := slices.Index(s.states, to)
	if i < 0 {
		panic(fmt.Sprintf("resource: there is no state %.64q; want one of %q", to, s.states))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := change{at: now, from: s.current.Load(), to: uint32(i), reason: cutReason(reason)}
	if c.from == c.to {
		return false
	}
	if n := len(s.last); n > 0 {
		c.at = max(now, s.last[n-1].at)
	}
	s.current.Store(c.to)
	s.count++
	if len(s.last) == maxLastChanges {
		s.last = slices.Delete(s.last, 0, 1)
	}
	s.last = append(s.last, c)
	if n := len(s.waiting); n < maxWaiting {
		s.waiting = append(s.waiting, c)
	} else {
		newest := &s.waiting[n-1]
		c.from, c.skipped = newest.from, newest.skipped+1
		*newest = c
	}
	s.due.Store(!s.telling)
	return true
}

// cutReason returns a reason that is short and UTF-8, and does not keep a larger text.
func cutReason(reason string) string {
	if len(reason) > maxReasonLength {
		end := maxReasonLength
		for end > maxReasonLength-utf8.UTFMax && !utf8.RuneStart(reason[end]) {
			end--
		}
		reason = strings.Clone(reason[:end])
	}
	return strings.ToValidUTF8(reason, "?")
}

// deliver calls tell for every change that waits, and for those that come meanwhile, unless
// somebody else is at it.
func (s *State) deliver(tell func(change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling {
		return
	}
	s.telling = true
	s.due.Store(false)
	defer func() { // something waits only if tell has ended the goroutine
		s.telling = false
		s.due.Store(len(s.waiting) > 0)
	}()
	for len(s.waiting) > 0 {
		c := s.waiting[0]
		s.waiting = s.waiting[1:]
		func() {
			s.mu.Unlock()
			defer s.mu.Lock()
			tell(c)
		}()
	}
	s.waiting = nil
}

// show fills in the figures of a rule whose state s is, nil if it has none. The wall clock
// shows at when the axis shows now.
func (s *State) show(r *stat.RuleSnapshot, cause *Cause, now int64, at time.Time) {
	r.State, r.States, r.Since, r.Changes, r.LastChanges = "", nil, time.Time{}, 0, nil
	r.SharedState = s != nil && cause.Binds != ""
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.State, r.States, r.Changes = s.Current(), slices.Clone(s.states), s.count
	r.LastChanges = slices.Grow(r.LastChanges, len(s.last))
	for i := range s.last {
		c := s.changeOf(&s.last[i], cause, now, at)
		r.LastChanges, r.Since = append(r.LastChanges, c), c.At
	}
}

func (s *State) changeOf(c *change, cause *Cause, now int64, at time.Time) stat.Change {
	return stat.Change{
		At: at.Add(time.Duration(c.at - now)), Resource: cmp.Or(cause.Binds, cause.Resource), Kind: cause.Kind, RuleID: cause.RuleID,
		From: s.states[c.from], To: s.states[c.to], Reason: c.reason, Skipped: c.skipped,
	}
}

// deliver tells OnChange of the changes of the rules that wait. The caller holds no lock.
func (s *checks) deliver(g *registry) {
	for _, cause := range s.stateful {
		if cause.State.due.Load() {
			cause.State.deliver(func(c change) { g.tell(cause, &c) })
		}
	}
}

// tell calls OnChange.
func (g *registry) tell(cause *Cause, c *change) {
	if g.onChange == nil {
		return
	}
	defer g.panics.recover("OnChange")
	now := g.clock.Now()
	g.onChange(cause.State.changeOf(c, cause, now, g.clock.Wall(now)))
}
