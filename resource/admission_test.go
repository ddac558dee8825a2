package resource_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// scripted is a guard whose checks do as they are told, and write down what they are
// asked. Each resource gets copies of its checks: first calls may bind one at the same time.
type scripted struct {
	checks []*scriptedCheck // not changed by the guard

	mu  sync.Mutex // guards log
	log []string
}

func (g *scripted) Kind() string { return "scripted" }

func (g *scripted) Bind(name string, _ []resource.Check) (checks []resource.Check, named bool) {
	for _, c := range g.checks {
		bound := *c
		bound.guard = g
		bound.cause = resource.Cause{Resource: name, Kind: "scripted", RuleID: c.id, Threshold: 7, Last: new(resource.LastRefusal)}
		checks = append(checks, &bound)
	}
	return checks, false
}

func (g *scripted) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, fmt.Sprintf(format, args...))
}

// noted returns what was written down, and forgets it.
func (g *scripted) noted() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { g.log = nil }()
	return strings.Join(g.log, " ")
}

type scriptedCheck struct {
	id      string
	mode    rule.Mode
	stage   resource.Stage
	reserve func(now int64, by resource.Caller) resource.Verdict // nil admits
	wait    func(now int64) time.Duration                        // nil is 0

	guard *scripted
	cause resource.Cause
}

func (c *scriptedCheck) Cause() *resource.Cause            { return &c.cause }
func (c *scriptedCheck) Mode() rule.Mode                   { return c.mode }
func (c *scriptedCheck) Stage() resource.Stage             { return c.stage }
func (c *scriptedCheck) Interval() time.Duration           { return 0 }
func (c *scriptedCheck) Snapshot(int64) stat.RuleSnapshot  { return stat.RuleSnapshot{ID: c.id} }
func (c *scriptedCheck) Refund(t resource.Ticket, _ int64) { c.guard.note("-%s%d", c.id, t.A) }

func (c *scriptedCheck) Reserve(now, _ int64, by resource.Caller) resource.Verdict {
	v := resource.Verdict{}
	if c.reserve != nil {
		v = c.reserve(now, by)
	}
	if v.Delay != nil {
		if turn, ok := v.Delay.Turn.(*scriptedTurn); ok {
			turn.check = c
		}
	}
	if v.Refused != nil {
		c.guard.note("!%s", c.id)
	} else {
		c.guard.note("+%s%d", c.id, v.Ticket.A)
	}
	return v
}

func (c *scriptedCheck) Wait(now, _ int64, _ resource.Caller) time.Duration {
	if c.wait != nil {
		return c.wait(now)
	}
	return 0
}

func (c *scriptedCheck) Finish(int64, int64, time.Duration, resource.Outcome) {
	c.guard.note("=%s", c.id)
}

// refusal is the verdict of a check that refuses; its cause is filled in for it.
func refusal(wait time.Duration) resource.Verdict {
	return resource.Verdict{Refused: &resource.BlockError{Observed: 8, RetryAfter: wait}}
}

func scriptedGate(t testing.TB, cfg leapgate.Config, checks ...*scriptedCheck) (*leapgate.Gate, *scripted) {
	t.Helper()
	guard := &scripted{checks: checks}
	cfg.Guards = []resource.Guard{guard}
	g, err := leapgate.New(cfg)
	require.NoError(t, err)
	return g, guard
}

func TestAdmission_ThoseThatWaitAreAskedLastAndThoseInShadowAfterThem(t *testing.T) {
	t.Parallel()
	g, guard := scriptedGate(t, leapgate.Config{Now: gatetest.NewClock().Now},
		&scriptedCheck{id: "late", stage: resource.Waiting},
		&scriptedCheck{id: "tries", mode: rule.Shadow},
		&scriptedCheck{id: "a"},
		&scriptedCheck{id: "off", mode: rule.Off},
		&scriptedCheck{id: "later", stage: resource.Waiting},
		&scriptedCheck{id: "tries late", mode: rule.Shadow, stage: resource.Waiting},
		&scriptedCheck{id: "b"})
	e, err := g.Entry("orders")
	require.NoError(t, err)
	e.Exit()
	require.Equal(t, "+a0 +b0 +late0 +later0 +tries0 +tries late0 =a =b =late =later =tries =tries late", guard.noted())
}

// The order holds over all guards: nobody waits for a refusal.
func TestAdmission_RulesThatWaitAreAskedAfterOtherGuards(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	slept := 0
	refuses := &scriptedCheck{id: "no"}
	refuses.reserve = func(int64, resource.Caller) resource.Verdict {
		return refusal(-1)
	}
	g, _ := scriptedGate(t, leapgate.Config{
		Now: c.Now, Sleep: func(context.Context, time.Duration) error { slept++; return nil },
	}, refuses)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}}))
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{Resource: "orders", MaxInFlight: 1, MaxWait: time.Minute}}))
	for range 3 {
		require.False(t, gates.Enter(t, g, "orders"))
	}
	require.Zero(t, slept)
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{0, 3}, []int64{s.Pass, s.Block})
	require.Zero(t, s.Rules[0].Admitted)
	require.Zero(t, s.Rules[1].Admitted)
}

// Every way in which three checks can answer, in every order: what each has taken it
// gets back exactly once, or is told of the end.
func TestAdmission_EveryCombinationRefundsExactlyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const kinds = "arwtc" // admits, refuses, lets wait, too long, cancelled
		var ctx context.Context
		var cancel context.CancelFunc
		outcome := func(kind byte) func(int64, resource.Caller) resource.Verdict {
			return func(int64, resource.Caller) resource.Verdict {
				v := resource.Verdict{Ticket: resource.Ticket{A: 5}}
				switch kind {
				case 'r':
					v = refusal(-1)
				case 'w':
					v.Delay = &resource.Delay{For: time.Millisecond}
				case 't':
					v.Delay = &resource.Delay{For: time.Millisecond, Turn: &scriptedTurn{due: -1}, Observed: 9}
				case 'c':
					v.Delay = &resource.Delay{For: time.Hour, Turn: &scriptedTurn{due: -1}, Observed: 9}
					time.AfterFunc(time.Second, cancel)
				}
				return v
			}
		}
		for _, shadows := range []int{0, 1, 2} { // so many of the last ones are in shadow
			for i := range len(kinds) * len(kinds) * len(kinds) {
				checks := []*scriptedCheck{{id: "a"}, {id: "b"}, {id: "c"}}
				script := string([]byte{kinds[i%5], kinds[i/5%5], kinds[i/25]})
				var want, tail []string
				refused, end := byte(0), ""
				for k, c := range checks {
					kind := script[k]
					c.reserve = outcome(kind)
					shadow := k >= len(checks)-shadows
					if shadow {
						c.mode = rule.Shadow // which never delays
					}
					switch {
					case refused != 0:
					case kind == 'r':
						want = append(want, "!"+c.id)
						if !shadow {
							refused = kind
						}
					case !shadow && (kind == 't' || kind == 'c'):
						want, tail = append(want, "+"+c.id+"5"), append(tail, "-"+c.id+" turn")
						refused = kind
					default:
						want, tail = append(want, "+"+c.id+"5"), append(tail, "-"+c.id+"5")
					}
				}
				if refused == 0 {
					for k := range tail { // in the order in which they were asked
						tail[k] = "=" + tail[k][1:2]
					}
				} else {
					slices.Reverse(tail)
				}
				end = strings.Join(append(want, tail...), " ")

				g, guard := scriptedGate(t, leapgate.Config{}, checks...)
				ctx, cancel = context.WithCancel(t.Context()) //nolint:fatcontext // it is that of the test
				e, err := g.EntryContext(ctx, "orders")
				e.Exit()
				cancel()
				require.Equal(t, refused == 0, err == nil, script)
				if err != nil {
					require.ErrorIs(t, err, leapgate.ErrBlocked)
					_, plain := err.(*leapgate.BlockError) //nolint:errorlint // is it just that?
					require.Equal(t, refused != 'c', plain, script)
				}
				require.Equal(t, end, guard.noted(), "%s, of which %d in shadow", script, shadows)
				s := gates.Snapshot(t, g, "orders")
				require.Equal(t, s.Pass, s.Success)
				require.Equal(t, int64(1), s.Pass+s.Block)
				require.Equal(t, refused == 0, s.Pass == 1)
			}
		}
	})
}

func TestAdmission_BorrowedWaitIsOccupiedPassAndCountsFromItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		borrows := &scriptedCheck{id: "a"}
		borrows.reserve = func(_ int64, by resource.Caller) resource.Verdict {
			if !by.Priority {
				return resource.Verdict{Delay: &resource.Delay{For: time.Second}}
			}
			return resource.Verdict{Delay: &resource.Delay{For: 2 * time.Second, Borrowed: true, Observed: 8}}
		}
		g, _ := scriptedGate(t, leapgate.Config{}, borrows)
		start := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			e, err := g.EntryContext(nil, "orders", leapgate.WithPriority(), leapgate.WithCount(3)) //nolint:staticcheck // nil is what is tested
			if err == nil {
				time.Sleep(20 * time.Millisecond)
			}
			e.Exit()
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		s := gates.Snapshot(t, g, "orders")
		require.Equal(t, []int64{0, 0, 0, 0}, []int64{s.Pass, s.OccupiedPass, s.Block, s.Concurrency})
		<-done
		require.Equal(t, 2020*time.Millisecond, time.Since(start))
		s = gates.Snapshot(t, g, "orders")
		require.Equal(t, []int64{3, 3, 3, 0}, []int64{s.Pass, s.OccupiedPass, s.Success, s.Concurrency})
		require.Equal(t, 20*time.Millisecond, s.AvgRT)
		require.Equal(t, 3.0, s.PassQPS) // in the second in which it began

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		ctx = gatetest.Unannounced(ctx)
		defer cancel()
		_, err := g.EntryContext(ctx, "orders", leapgate.WithPriority())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		require.EqualError(t, err, `scripted rule "a" on "orders": 8 of 7: context deadline exceeded`)
		e, err := g.Entry("orders") // waits as well, and has borrowed nothing
		require.NoError(t, err)
		e.Exit()
		s = gates.Snapshot(t, g, "orders")
		require.Equal(t, []int64{4, 3, 1}, []int64{s.Pass, s.OccupiedPass, s.Block})
	})
}

func TestAdmission_ChecksAfterAWaitAreAskedAtItsEnd(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var asked []int64
	ask := func(d *resource.Delay) func(int64, resource.Caller) resource.Verdict {
		return func(now int64, _ resource.Caller) resource.Verdict {
			asked = append(asked, now)
			return resource.Verdict{Delay: d}
		}
	}
	sleep := func(_ context.Context, d time.Duration) error {
		c.Advance(d)
		return nil
	}
	g, _ := scriptedGate(t, leapgate.Config{Now: c.Now, Sleep: sleep},
		&scriptedCheck{id: "a", reserve: ask(&resource.Delay{For: 300})},
		&scriptedCheck{id: "b", reserve: ask(&resource.Delay{For: 50})},
		&scriptedCheck{id: "c", reserve: ask(nil)})
	start := c.Now()
	e, err := g.Entry("orders")
	require.NoError(t, err)
	require.Equal(t, []int64{start, start + 300, start + 350}, asked)
	c.Advance(7)
	e.Exit()
	require.Equal(t, time.Duration(7), gates.Snapshot(t, g, "orders").AvgRT)
}

// What the Sleep of the program says ends a wait, and so does a clock that goes back.
func TestAdmission_SleepOfTheProgramFails(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	var with context.Context
	fault, start := errors.New("no more sleep"), c.Now()
	g := leapgate.Must(leapgate.Config{Now: c.Now, Sleep: func(ctx context.Context, d time.Duration) error {
		with = ctx //nolint:fatcontext // to compare
		require.Equal(t, 100*time.Millisecond, d)
		c.Advance(-time.Hour)
		return fault
	}})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 10, Behavior: flow.Pace, MaxWait: time.Second}}))
	require.True(t, gates.Enter(t, g, "orders"))
	ctx := context.WithValue(t.Context(), fault, 1)
	_, err := g.EntryContext(ctx, "orders")
	require.ErrorIs(t, err, fault)
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	require.Equal(t, 1, with.Value(fault))
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{1, 1}, []int64{s.Pass, s.Block})
	require.Equal(t, []int64{1, 1}, []int64{s.Rules[0].Admitted, s.Rules[0].Blocked})
	require.True(t, s.Rules[0].LastRefusal.At.Equal(time.Unix(0, start)))
	_, err = g.Entry("orders")
	require.ErrorIs(t, err, leapgate.ErrBlocked) // an hour is longer than it may wait
	require.Equal(t, 1, with.Value(fault))
}

// What a call gives up it does not count when it is told how long to wait: the last
// place in a queue is free again.
func TestAdmission_RetryAfterOfAWaitThatEndedIsWithoutTheCallItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 10, Behavior: flow.Pace, MaxWait: 100 * time.Millisecond}}))
		require.True(t, gates.Enter(t, g, "orders"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := g.EntryContext(ctx, "orders") // it would wait for all of MaxWait
		var blocked *leapgate.BlockError
		require.ErrorAs(t, err, &blocked)
		require.Zero(t, blocked.RetryAfter)
		require.True(t, gates.Enter(t, g, "orders"))
	})
}

// Somebody queued behind the call that gave up, and has its turn now: so there is room
// for one that comes at once.
func TestAdmission_WaitThatEndedBeforeOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 10, Behavior: flow.Pace, MaxWait: 200 * time.Millisecond}}))
		require.True(t, gates.Enter(t, g, "orders"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		ctx = gatetest.Unannounced(ctx)
		defer cancel()
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Millisecond)
			assert.True(t, gates.Enter(t, g, "orders"))
			assert.Equal(t, 100*time.Millisecond, time.Since(start))
		})
		_, err := g.EntryContext(ctx, "orders")
		var blocked *leapgate.BlockError
		assert.ErrorAs(t, err, &blocked)
		assert.Zero(t, blocked.RetryAfter)
		assert.True(t, gates.Enter(t, g, "orders"))
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
		wg.Wait()
	})
}

func TestRetryAfter_OverSeveralChecks(t *testing.T) {
	t.Parallel()
	const never = -1
	until := func(c *gatetest.Clock, at time.Duration) func(int64) time.Duration { // free from at on
		start := c.Now()
		return func(now int64) time.Duration { return max(0, at-time.Duration(now-start)) }
	}
	for _, tt := range []struct {
		name  string
		first time.Duration // of the first check, which refuses
		more  func(c *gatetest.Clock) []*scriptedCheck
		want  time.Duration
	}{
		{"one", 5, func(*gatetest.Clock) []*scriptedCheck { return nil }, 5},
		{"one that cannot tell", never, func(*gatetest.Clock) []*scriptedCheck { return nil }, 0},
		{"the other takes longer", 5, func(c *gatetest.Clock) []*scriptedCheck { return []*scriptedCheck{{wait: until(c, 9)}} }, 9},
		{"the other is free earlier", 5, func(c *gatetest.Clock) []*scriptedCheck { return []*scriptedCheck{{wait: until(c, 3)}} }, 5},
		{"the other cannot tell", 5, func(*gatetest.Clock) []*scriptedCheck {
			return []*scriptedCheck{{wait: func(int64) time.Duration { return never }}}
		}, 0},
		{"the last of four cannot tell", 5, func(c *gatetest.Clock) []*scriptedCheck {
			return []*scriptedCheck{{wait: until(c, 9)}, {}, {wait: func(int64) time.Duration { return never }}}
		}, 0},
		{"in shadow, off", 5, func(c *gatetest.Clock) []*scriptedCheck {
			return []*scriptedCheck{{wait: until(c, 99), mode: rule.Shadow}, {wait: until(c, 99), mode: rule.Off}}
		}, 5},
		{"full again by then", 5, func(c *gatetest.Clock) []*scriptedCheck {
			start := c.Now()
			return []*scriptedCheck{{wait: func(now int64) time.Duration {
				if at := time.Duration(now - start); at == 5 {
					return 10 // free at 15, when the next is not
				}
				return 0
			}}, {wait: until(c, 17)}}
		}, 17},
		{"for ever, or as good as that", math.MaxInt64, func(*gatetest.Clock) []*scriptedCheck { return nil }, 0},
		{"for ever, and another is free", math.MaxInt64, func(*gatetest.Clock) []*scriptedCheck { return []*scriptedCheck{{}} }, 0},
		{"the other for ever", 5, func(*gatetest.Clock) []*scriptedCheck {
			return []*scriptedCheck{{wait: func(now int64) time.Duration { return max(0, math.MaxInt64-time.Duration(now)) }}}
		}, 0},
		{"never free at the same time", 5, func(*gatetest.Clock) []*scriptedCheck {
			return []*scriptedCheck{{wait: func(int64) time.Duration { return 1 }}}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := gatetest.NewClock()
			first := &scriptedCheck{id: "first"}
			first.wait = until(c, tt.first)
			first.reserve = func(int64, resource.Caller) resource.Verdict {
				return refusal(tt.first)
			}
			g, _ := scriptedGate(t, leapgate.Config{Now: c.Now}, append([]*scriptedCheck{first}, tt.more(c)...)...)
			_, err := g.Entry("orders")
			var blocked *leapgate.BlockError
			require.ErrorAs(t, err, &blocked)
			require.Equal(t, tt.want, blocked.RetryAfter)
			require.Equal(t, tt.want, gates.Snapshot(t, g, "orders").Rules[0].LastRefusal.RetryAfter)
		})
	}
}

// A full isolation rule cannot tell when a call will end; one with room binds nobody.
func TestRetryAfter_OfRulesOfBothGuards(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.New(t, c, flow.Rule{ID: "qps", Resource: "orders", Threshold: 2})
	require.NoError(t, gates.LoadIsolation(g, []isolation.Rule{{ID: "few", Resource: "orders", MaxInFlight: 2}}))
	var first resource.Entry
	refusal := func() *leapgate.BlockError {
		_, err := g.Entry("orders")
		var blocked *leapgate.BlockError
		require.ErrorAs(t, err, &blocked)
		return blocked
	}
	first, err := g.Entry("orders")
	require.NoError(t, err)
	second, err := g.Entry("orders")
	require.NoError(t, err)
	b := refusal()
	require.Equal(t, "qps", b.RuleID)
	require.Zero(t, b.RetryAfter) // the other rule is full as well
	first.Exit()
	b = refusal()
	require.Equal(t, "qps", b.RuleID)
	require.Equal(t, time.Second, cmp.Or(b.RetryAfter, -1))
	c.Advance(time.Second)
	third, err := g.Entry("orders")
	require.NoError(t, err)
	b = refusal()
	require.Equal(t, "few", b.RuleID)
	require.Zero(t, b.RetryAfter)
	second.Exit()
	third.Exit()
}
