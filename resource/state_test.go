package resource_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// stateful is a guard whose checks have a state, and do what a test says.
type stateful struct {
	made    atomic.Int64 // checks; first, for 32-bit processors want it aligned
	states  []string
	named   string                                                  // the resource that its rules name
	bind    func(name string, s *resource.State)                    // when a check is made
	reserve func(now int64, s *resource.State) *resource.BlockError // when a call begins
	finish  func(now int64, s *resource.State)                      // when it ends
	show    func(now int64, s *resource.State)                      // when the figures are read
}

func (g *stateful) Kind() string { return "scripted" }

func (g *stateful) Bind(name string, old []resource.Check) ([]resource.Check, bool) {
	c := &statefulCheck{guard: g, cause: resource.Cause{Resource: name, Kind: "scripted", RuleID: "one"}}
	if len(old) > 0 {
		c.cause.State = old[0].Cause().State
	} else {
		c.cause.State = resource.NewState(g.states...)
	}
	g.made.Add(1)
	if g.bind != nil {
		g.bind(name, c.cause.State)
	}
	return []resource.Check{c}, name == g.named
}

type statefulCheck struct {
	guard *stateful
	cause resource.Cause
}

func (c *statefulCheck) Cause() *resource.Cause                           { return &c.cause }
func (c *statefulCheck) Mode() rule.Mode                                  { return rule.Enforce }
func (c *statefulCheck) Stage() resource.Stage                            { return resource.Counting }
func (c *statefulCheck) Interval() time.Duration                          { return time.Hour }
func (c *statefulCheck) Refund(resource.Ticket, int64)                    {}
func (c *statefulCheck) Wait(int64, int64, resource.Caller) time.Duration { return -1 }

func (c *statefulCheck) Reserve(now, _ int64, _ resource.Caller) (v resource.Verdict) {
	if c.guard.reserve != nil {
		if v.Refused = c.guard.reserve(now, c.cause.State); v.Refused != nil {
			v.Refused.Cause = &c.cause
		}
	}
	return v
}

func (c *statefulCheck) Finish(now, _ int64, _ time.Duration, _ resource.Outcome) {
	if c.guard.finish != nil {
		c.guard.finish(now, c.cause.State)
	}
}

func (c *statefulCheck) Snapshot(now int64) stat.RuleSnapshot {
	if c.guard.show != nil {
		c.guard.show(now, c.cause.State)
	}
	return stat.RuleSnapshot{State: "made up", States: []string{"made up"}} // these are not its to fill in
}

// turns makes a guard that goes over to the other of two states at the end of every call.
func turns() *stateful {
	return &stateful{states: []string{"off", "on"}, finish: func(now int64, s *resource.State) { turn(now, s) }}
}

func turn(now int64, s *resource.State) {
	to := "on"
	if s.Current() == to {
		to = "off"
	}
	s.Set(now, to, "its turn")
}

// heard is what OnChange was told.
type heard struct {
	mu  sync.Mutex
	all []leapgate.Change
}

func (h *heard) hear(c leapgate.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, c)
}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func mustPass(t require.TestingT, g *leapgate.Gate, name string) {
	e, err := g.Entry(name)
	assert.NoError(t, err)
	e.Exit()
}

func ruleOf(t require.TestingT, g *leapgate.Gate, name string) stat.RuleSnapshot {
	rules := g.Resource(name).Snapshot().Rules
	for i := range rules {
		if rules[i].Kind == "scripted" {
			return rules[i]
		}
	}
	require.Fail(t, "there is no such rule")
	return stat.RuleSnapshot{}
}

func TestNewState_WantsAFewPlainWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, "closed", resource.NewState("closed", "half-open", "2", strings.Repeat("x", 32)).Current())
	for want, states := range map[string][]string{
		"resource: there are 0 states; want 1 to 16":                                                                  nil,
		"resource: there are 17 states; want 1 to 16":                                                                 make([]string, 17),
		`resource: the state "" is not 1 to 32 lower-case letters, digits and hyphens`:                                {"a", ""},
		`resource: the state "Open" is not 1 to 32 lower-case letters, digits and hyphens`:                            {"Open"},
		`resource: the state "a\nb" is not 1 to 32 lower-case letters, digits and hyphens`:                            {"a\nb"},
		`resource: the state "` + strings.Repeat("x", 33) + `" is not 1 to 32 lower-case letters, digits and hyphens`: {strings.Repeat("x", 33)},
		`resource: the state "a" is there twice`:                                                                      {"a", "b", "a"},
	} {
		require.PanicsWithValue(t, want, func() { resource.NewState(states...) })
	}
	require.PanicsWithValue(t, `resource: there is no state "shut"; want one of ["closed" "open"]`, func() {
		resource.NewState("closed", "open").Set(1, "shut", "")
	})
}

func TestSet_TellsWhatChanged(t *testing.T) {
	t.Parallel()
	s := resource.NewState("closed", "open")
	require.False(t, s.Set(1, "closed", "it is that"))
	require.True(t, s.Set(2, "open", ""))
	require.False(t, s.Set(3, "open", ""))
	require.Equal(t, "open", s.Current())
	require.True(t, s.Set(4, "closed", ""))
}

// A random walk, against a log of everything: what OnChange is told, and what snapshots have.
func TestState_AgreesWithALogOfAllChanges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		now := time.Unix(1_800_000_000, 0)
		var heard heard
		var log []leapgate.Change
		current := map[string]string{"a": "closed", "b": "closed"}
		latest := map[string]time.Time{}
		step := func(name string) func(int64, *resource.State) {
			return func(at int64, s *resource.State) {
				for range random.IntN(3) {
					to := []string{"closed", "open", "half-open"}[random.IntN(3)]
					when := at - random.Int64N(2)*int64(time.Second) // not all clocks are read in order
					reason := fmt.Sprint("step ", len(log))
					if assert.Equal(t, to != current[name], s.Set(when, to, reason)) && to != current[name] {
						c := leapgate.Change{
							At: time.Unix(0, when), Resource: name, Kind: "scripted", RuleID: "one",
							From: current[name], To: to, Reason: reason,
						}
						if c.At.Before(latest[name]) {
							c.At = latest[name]
						}
						current[name], latest[name], log = to, c.At, append(log, c)
					}
					assert.Equal(t, current[name], s.Current())
				}
			}
		}
		var called string
		guard := &stateful{states: []string{"closed", "open", "half-open"}}
		guard.reserve = func(now int64, s *resource.State) *resource.BlockError { step(called)(now, s); return nil }
		guard.finish = func(now int64, s *resource.State) { step(called)(now, s) }
		g := leapgate.Must(leapgate.Config{
			Now: func() int64 { return now.UnixNano() }, Guards: []resource.Guard{guard}, OnChange: heard.hear,
		})
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(time.Second))))
			called = []string{"a", "b"}[random.IntN(2)]
			if random.IntN(10) == 0 {
				require.NoError(t, g.Rebind(called))
			}
			mustPass(t, g, called)
			require.True(t, slices.Equal(log, heard.all)) // by the time at which the call is over

			var own []leapgate.Change
			for _, c := range log {
				if c.Resource == called {
					own = append(own, c)
				}
			}
			r := ruleOf(t, g, called)
			require.Equal(t, current[called], r.State)
			require.Equal(t, guard.states, r.States)
			require.Equal(t, int64(len(own)), r.Changes)
			last := own[max(0, len(own)-16):]
			require.True(t, slices.Equal(last, r.LastChanges))
			require.True(t, r.Since.Equal(latest[called]))
		}
	}
}

func TestOnChange_IsToldOfEveryChangeOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const workers, perCall, calls = 64, 8, 6
	each := gatetest.Rounds(10_000)
	inside := make(chan struct{}, calls) // no more changes are on their way than may wait
	var mu sync.Mutex                    // of the check
	made := 0
	guard := &stateful{states: []string{"a", "b", "c"}}
	guard.finish = func(now int64, s *resource.State) {
		mu.Lock()
		defer mu.Unlock()
		for range perCall {
			made++
			s.Set(now, guard.states[made%3], strconv.Itoa(made))
		}
	}
	told, tellers := 0, atomic.NewInt64(0) // told is changed without a lock: one at a time hears
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}, OnChange: func(c leapgate.Change) {
		if tellers.Inc() != 1 {
			assert.Fail(t, "two are told at once")
		}
		told++
		if c.Reason != strconv.Itoa(told) || c.From != guard.states[(told-1)%3] || c.To != guard.states[told%3] || c.Skipped != 0 {
			assert.Fail(t, "out of order", "%d: %+v", told, c)
		}
		tellers.Dec()
		if told%perCall == 0 {
			<-inside
		}
	}})
	r := g.Resource("orders")
	look := func() { // the state and its changes are as they were at one moment
		s := ruleOf(t, g, "orders")
		last := s.LastChanges[len(s.LastChanges)-1]
		assert.Equal(t, []string{s.State, strconv.FormatInt(s.Changes, 10)}, []string{last.To, last.Reason})
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range each / perCall {
				inside <- struct{}{}
				e, err := r.Entry()
				assert.NoError(t, err)
				e.Exit()
				if i%50 == 0 {
					look()
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, workers*each, told)
	s := ruleOf(t, g, "orders")
	require.Equal(t, int64(workers*each), s.Changes)
	require.Len(t, s.LastChanges, 16)
	for i, c := range s.LastChanges {
		require.Equal(t, strconv.Itoa(workers*each-15+i), c.Reason)
	}
}

func TestOnChange_ThatHangsHoldsUpOneCallOnly(t *testing.T) {
	t.Parallel()
	const calls = 1000
	entered, leave := make(chan struct{}), make(chan struct{})
	var heard heard
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{turns()}, OnChange: func(c leapgate.Change) {
		if heard.count() == 0 {
			close(entered)
			<-leave
		}
		heard.hear(c)
	}})
	var wg sync.WaitGroup
	wg.Go(func() { mustPass(t, g, "orders") })
	<-entered
	for range calls - 1 { // they come back, although OnChange hangs
		mustPass(t, g, "orders")
	}
	require.NoError(t, g.Rebind("orders"))
	require.Equal(t, int64(calls), ruleOf(t, g, "orders").Changes)
	close(leave)
	wg.Wait()

	require.Len(t, heard.all, 1+64)
	told := int64(0)
	for i, c := range heard.all {
		told += 1 + c.Skipped
		if i > 0 {
			require.Equal(t, heard.all[i-1].To, c.From)
			require.Equal(t, i == 64, c.Skipped > 0)
		}
	}
	require.Equal(t, int64(calls), told)
	require.Equal(t, ruleOf(t, g, "orders").State, heard.all[64].To)
}

func TestOnChange_ThatPanicsIsCountedAndLoggedAndAskedAgain(t *testing.T) {
	t.Parallel()
	var heard heard
	var log lines
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{turns()}, Logger: log.logger(), OnChange: func(c leapgate.Change) {
		heard.hear(c)
		panic("no line to the pager")
	}})
	for range 5 {
		mustPass(t, g, "orders")
	}
	require.Equal(t, 5, heard.count())
	require.Equal(t, int64(5), g.GuardFaults())
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "no line to the pager")
	require.Contains(t, log.String(), "OnChange")
}

func TestOnChange_ThatEndsItsGoroutineEndsNothingElse(t *testing.T) {
	t.Parallel()
	var heard heard
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{turns()}, OnChange: func(c leapgate.Change) {
		heard.hear(c)
		if heard.count() == 1 {
			runtime.Goexit()
		}
	}})
	var wg sync.WaitGroup
	wg.Go(func() { mustPass(t, g, "orders") })
	wg.Wait()
	mustPass(t, g, "orders")
	require.Equal(t, 2, heard.count())
	require.Zero(t, g.Resource("orders").Snapshot().Concurrency)
}

func TestOnChange_MayCallTheGate(t *testing.T) {
	t.Parallel()
	var heard heard
	var g *leapgate.Gate
	guard := turns()
	g = leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}, OnChange: func(c leapgate.Change) {
		heard.hear(c)
		n := heard.count()
		if n >= 5 {
			return
		}
		mustPass(t, g, "orders") // makes the next change, which is told when this one has been
		require.Equal(t, n, heard.count())
		mustPass(t, g, fmt.Sprint("new-", n))
		require.NoError(t, g.LoadRules(leapgate.Rules{Flow: []flow.Rule{{Resource: "orders", Threshold: float64(1000 + n)}}}))
		require.NoError(t, g.EditRules(func(r *leapgate.Rules) error { r.Flow[0].Threshold++; return nil }))
		require.NoError(t, g.Rebind("orders"))
		g.Snapshot()
		g.Totals()
	}})
	mustPass(t, g, "orders")
	require.Equal(t, 1002.0, g.FlowRules()[0].Threshold) // the first to be told loads last
	told := map[string]string{}
	for _, c := range heard.all {
		if from, before := told[c.Resource]; before {
			require.Equal(t, from, c.From)
		}
		told[c.Resource] = c.To
	}
	require.Equal(t, int64(heard.count()), total(g))
}

// total is how many changes there were on all resources.
func total(g *leapgate.Gate) (n int64) {
	for _, t := range g.Totals() {
		for i := range t.Rules {
			n += t.Rules[i].Changes
		}
	}
	return n
}

func TestOnChange_OfALoadIsToldWhenItIsDone(t *testing.T) {
	t.Parallel()
	var heard heard
	var g *leapgate.Gate
	guard := &stateful{states: []string{"off", "on"}, named: "orders"}
	guard.bind = func(name string, s *resource.State) { s.Set(7, "on", "it was bound") }
	g = leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}, OnChange: func(c leapgate.Change) {
		heard.hear(c)
		switch {
		case c.To == "off":
		case c.Resource == "orders": // a load within a load
			require.Equal(t, 9.0, g.FlowRules()[0].Threshold)
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "db", Threshold: 10}}))
		default:
			require.NoError(t, g.EditRules(func(r *leapgate.Rules) error { r.Flow[0].Threshold++; return nil }))
		}
	}})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 9}}))
	require.Equal(t, 11.0, g.FlowRules()[0].Threshold)
	require.Equal(t, []string{"orders", "db"}, []string{heard.all[0].Resource, heard.all[1].Resource})
	require.Equal(t, 2, heard.count())

	// What was set outside of any call is told by Rebind.
	ruleOf(t, g, "orders")
	guard.bind = func(_ string, s *resource.State) { s.Set(8, "off", "by hand") }
	require.NoError(t, g.Rebind("orders"))
	require.Equal(t, "by hand", heard.all[2].Reason)
}

func TestOnChange_IsNotCalledByWhoReadsFigures(t *testing.T) {
	t.Parallel()
	var heard heard
	guard := &stateful{states: []string{"off", "on"}, show: func(now int64, s *resource.State) { s.Set(now, "on", "it was looked at") }}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}, OnChange: heard.hear})
	mustPass(t, g, "orders")
	require.Equal(t, "on", ruleOf(t, g, "orders").State)
	g.Snapshot()
	g.Totals()
	require.Zero(t, heard.count())
	mustPass(t, g, "orders")
	require.Equal(t, 1, heard.count())
}

func TestOnChange_IsToldWhatCallsInFlightChangeAfterClose(t *testing.T) {
	t.Parallel()
	var heard heard
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{turns()}})
	closing := leapgate.Must(leapgate.Config{Guards: []resource.Guard{turns()}, OnChange: func(c leapgate.Change) {
		heard.hear(c)
		require.NoError(t, g.Close())
	}})
	e, err := closing.Entry("orders")
	require.NoError(t, err)
	mustPass(t, closing, "orders")
	require.NoError(t, closing.Close())
	mustPass(t, closing, "orders") // unguarded
	e.Exit()
	require.Equal(t, 2, heard.count())
	require.Equal(t, []string{"off", "on"}, []string{heard.all[0].From, heard.all[1].From})
	mustPass(t, g, "orders") // nobody is told, and nothing gathers
}

func TestState_GoesOnWhenItsRuleIsChanged(t *testing.T) {
	t.Parallel()
	guard := turns()
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}})
	for range 3 {
		mustPass(t, g, "orders")
	}
	before := ruleOf(t, g, "orders")
	require.Equal(t, []any{"on", int64(3)}, []any{before.State, before.Changes})
	made := guard.made.Load()
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 100}}))
	require.NoError(t, g.Rebind("orders"))
	require.Equal(t, made+2, guard.made.Load())
	after := ruleOf(t, g, "orders")
	require.WithinDuration(t, before.Since, after.Since, time.Second)
	after.Since, before.Since = time.Time{}, time.Time{}
	require.Equal(t, before.State, after.State)
	require.Equal(t, before.Changes, after.Changes)
	require.Len(t, after.LastChanges, 3)
	require.Empty(t, ruleOf(t, g, "db").LastChanges) // each resource has its own
	require.Equal(t, "off", ruleOf(t, g, "db").State)
}

func TestReason_IsShortAndText(t *testing.T) {
	t.Parallel()
	var heard heard
	reasons := []string{strings.Repeat("é", 400), "a\xffb", strings.Repeat("x", 255) + "é", ""}
	guard := turns()
	guard.finish = func(now int64, s *resource.State) {
		to := "on"
		if s.Current() == to {
			to = "off"
		}
		s.Set(now, to, reasons[heard.count()])
	}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}, OnChange: heard.hear})
	for range reasons {
		mustPass(t, g, "orders")
	}
	require.Equal(t, strings.Repeat("é", 128), heard.all[0].Reason)
	require.Equal(t, "a?b", heard.all[1].Reason)
	require.Equal(t, strings.Repeat("x", 255), heard.all[2].Reason)
	require.Empty(t, heard.all[3].Reason)
}

func TestEntry_WithAStateThatStaysAllocatesNothing(t *testing.T) {
	g := resource.NewRegistry(resource.Config{
		Guards: []resource.Guard{&stateful{states: []string{"closed"}, reserve: mustBe("closed")}}, OnChange: func(stat.Change) {},
	})
	r := g.Resource("orders")
	allocs := testing.AllocsPerRun(1000, func() {
		e, err := r.Entry()
		if err != nil {
			panic(err)
		}
		e.Exit()
	})
	require.Zero(t, allocs)
}

// mustBe refuses calls when the state is another one.
func mustBe(state string) func(int64, *resource.State) *resource.BlockError {
	return func(_ int64, s *resource.State) *resource.BlockError {
		if s.Current() != state {
			return new(resource.BlockError)
		}
		return nil
	}
}
