package breaker_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

const (
	ok      = leapgate.Success
	fails   = leapgate.Failure
	ignored = leapgate.Ignored

	ms  = time.Millisecond
	sec = time.Second
)

// usual is a rule that tests change: half of five results open it for 5 s, and one probe
// decides.
func usual(change ...func(*breaker.Rule)) breaker.Rule {
	r := breaker.Rule{
		ID: "b", Resource: "a", Interval: 20 * sec, Buckets: 10, MinCalls: 5, ErrorRatio: 0.5, OpenFor: 5 * sec, Probes: 1,
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// world is a gate with a given clock, and calls to the resource a.
type world struct {
	t     testing.TB
	clock *gatetest.Clock
	gate  *leapgate.Gate

	mu      sync.Mutex
	changes []leapgate.Change
}

func newWorld(t testing.TB, rules ...breaker.Rule) *world {
	t.Helper()
	w := &world{t: t, clock: gatetest.NewClock()}
	w.gate = leapgate.Must(leapgate.Config{Now: w.clock.Now, OnChange: func(c leapgate.Change) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes = append(w.changes, c)
	}})
	t.Cleanup(func() { _ = w.gate.Close() })
	w.load(rules...)
	return w
}

// script makes calls into a resource with one rule. Words are the time since the start (@5s), calls that pass (ok,
// err, ignored) and calls that are blocked.
func script(t *testing.T, r breaker.Rule, text string) {
	t.Helper()
	w := newWorld(t, r)
	outcomes := map[string]leapgate.Outcome{"ok": ok, "err": fails, "ignored": ignored}
	for i, word := range strings.Fields(text) {
		if at, isTime := strings.CutPrefix(word, "@"); isTime {
			d, err := time.ParseDuration(at)
			require.NoError(t, err)
			w.at(d)
			continue
		}
		e, err := w.gate.Entry(r.Resource)
		require.Equal(t, word == "blocked", errors.Is(err, leapgate.ErrBlocked), "word %d, %s", i+1, word)
		e.SetOutcome(outcomes[word])
		e.Exit()
	}
}

// load replaces the breaker rules.
func (w *world) load(rules ...breaker.Rule) {
	w.t.Helper()
	require.NoError(w.t, w.gate.EditRules(func(all *leapgate.Rules) error {
		all.Breaker = rules
		return nil
	}))
}

// at moves the clock to a time after the start.
func (w *world) at(d time.Duration) { w.clock.Set(gatetest.Start + int64(d)) }

// flight is a call in flight.
type flight struct {
	w     *world
	entry resource.Entry
}

// begin begins a call, which must pass.
func (w *world) begin() *flight {
	w.t.Helper()
	f := &flight{w: w}
	var err error
	f.entry, err = w.gate.Entry("a")
	require.NoError(w.t, err)
	return f
}

func (w *world) beginMany(n int) (all []*flight) {
	w.t.Helper()
	for range n {
		all = append(all, w.begin())
	}
	return all
}

func (f *flight) end(o leapgate.Outcome) {
	f.entry.SetOutcome(o)
	f.entry.Exit()
}

// refused makes a call that must be refused.
func (w *world) refused() *leapgate.BlockError {
	w.t.Helper()
	_, err := w.gate.Entry("a")
	var blocked *leapgate.BlockError
	require.ErrorAs(w.t, err, &blocked)
	return blocked
}

// calls makes calls that pass and end at once.
func (w *world) calls(outcomes ...leapgate.Outcome) {
	w.t.Helper()
	for _, o := range outcomes {
		w.begin().end(o)
	}
}

// takes makes a call that passes and takes so long.
func (w *world) takes(d time.Duration, o leapgate.Outcome) {
	w.t.Helper()
	f := w.begin()
	w.clock.Advance(d)
	f.end(o)
}

// try makes so many calls, which end well at once if they pass, and returns which do: "AAR".
func (w *world) try(n int) (admitted string) {
	w.t.Helper()
	for range n {
		e, err := w.gate.Entry("a")
		if err != nil {
			require.ErrorIs(w.t, err, leapgate.ErrBlocked)
			admitted += "R"
			continue
		}
		admitted += "A"
		e.Exit()
	}
	return admitted
}

// hold is try with calls that stay in flight.
func (w *world) hold(n int) (all []*flight) {
	w.t.Helper()
	for range n {
		e, err := w.gate.Entry("a")
		if err == nil {
			all = append(all, &flight{w, e})
		}
	}
	return all
}

func (w *world) rule(id string) stat.RuleSnapshot {
	w.t.Helper()
	for _, r := range w.gate.Resource("a").Snapshot().Rules {
		if r.ID == id {
			return r
		}
	}
	w.t.Fatalf("no rule %q", id)
	return stat.RuleSnapshot{}
}

// in requires that the breaker is in a state.
func (w *world) in(state string) {
	w.t.Helper()
	require.Equal(w.t, state, w.rule("b").State)
}

// why is the reason of the last change.
func (w *world) why() string {
	w.t.Helper()
	last := w.rule("b").LastChanges
	require.NotEmpty(w.t, last)
	return last[len(last)-1].Reason
}

// trace returns the changes so far: "open@5s".
func (w *world) trace() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.changes {
		all = append(all, c.To+"@"+c.At.Sub(time.Unix(0, gatetest.Start)).String())
	}
	return all
}

// opens makes the usual breaker open.
func (w *world) opens() {
	w.t.Helper()
	w.calls(fails, fails, fails, fails, fails)
	w.in("open")
}

var errBackend = errors.New("backend is away")
