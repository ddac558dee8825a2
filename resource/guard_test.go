package resource_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// inFlight is a guard that bounds the calls in flight of every resource.
type inFlight struct {
	limit  int64
	wait   time.Duration // what it says to those that it refuses; 0 is that it cannot tell
	checks sync.Map      // resource → *inFlightCheck
}

func (g *inFlight) Kind() string { return "in-flight" }

func (g *inFlight) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	c, _ := g.checks.LoadOrStore(name, &inFlightCheck{limit: g.limit, wait: g.wait, cause: resource.Cause{
		Resource: name, Kind: "in-flight", RuleID: name, Threshold: float64(g.limit),
	}})
	return []resource.Check{c.(*inFlightCheck)}, false
}

type inFlightCheck struct {
	limit    int64
	wait     time.Duration
	cause    resource.Cause
	now      atomic.Int64
	most     atomic.Int64
	finished atomic.Int64
	refunded atomic.Int64
}

func (c *inFlightCheck) Cause() *resource.Cause                           { return &c.cause }
func (c *inFlightCheck) Mode() rule.Mode                                  { return rule.Enforce }
func (c *inFlightCheck) Interval() time.Duration                          { return 0 }
func (c *inFlightCheck) Stage() resource.Stage                            { return resource.Counting }
func (c *inFlightCheck) Wait(int64, int64, resource.Caller) time.Duration { return -1 }
func (c *inFlightCheck) Snapshot(int64) stat.RuleSnapshot {
	return stat.RuleSnapshot{ID: c.cause.RuleID, Kind: "in-flight"}
}
func (c *inFlightCheck) Refund(_ resource.Ticket, n int64) { c.now.Add(-n); c.refunded.Add(n) }

func (c *inFlightCheck) Reserve(_, n int64, _ resource.Caller) resource.Verdict {
	for {
		have := c.now.Load()
		if have+n > c.limit {
			return resource.Verdict{Refused: &resource.BlockError{
				Cause: &c.cause, Observed: float64(have + n), RetryAfter: cmp.Or(c.wait, -1),
			}}
		}
		if c.now.CompareAndSwap(have, have+n) {
			return resource.Verdict{Ticket: resource.Ticket{A: 7}}
		}
	}
}

func (c *inFlightCheck) Finish(_, n int64, _ time.Duration, _ resource.Outcome) {
	c.now.Add(-n)
	c.finished.Add(n)
}

// orders returns the check of the resource that the tests call.
func (g *inFlight) orders() *inFlightCheck {
	c, _ := g.checks.Load("orders")
	return c.(*inFlightCheck)
}

func TestGuard_OfTheProgramIsAskedAfterTheRules(t *testing.T) {
	t.Parallel()
	guard := &inFlight{limit: 2}
	c := gatetest.NewClock()
	g := leapgate.Must(leapgate.Config{Now: c.Now, Guards: []resource.Guard{guard}})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "qps", Resource: "orders", Threshold: 3}}))

	a, err := g.Entry("orders")
	require.NoError(t, err)
	b, err := g.Entry("orders")
	require.NoError(t, err)
	_, err = g.Entry("orders") // the rule admits it and gets it back
	var blocked *leapgate.BlockError
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, "in-flight", blocked.Kind)
	require.Equal(t, []float64{3, 2}, []float64{blocked.Observed, blocked.Threshold})
	require.Zero(t, blocked.RetryAfter) // it cannot be told
	require.EqualError(t, err, `in-flight rule "orders" on "orders": 3 of 2`)
	a.Exit()
	b.Exit()
	require.Equal(t, int64(2), guard.orders().finished.Load())

	e, err := g.Entry("orders")
	require.NoError(t, err)
	e.Exit()
	_, err = g.Entry("orders") // now the rule is full, and the guard is not asked
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, "qps", blocked.RuleID)
	require.Zero(t, guard.orders().now.Load())
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{3, 2}, []int64{s.Pass, s.Block})
	require.Equal(t, []string{"flow", "in-flight"}, []string{s.Rules[0].Kind, s.Rules[1].Kind})
	require.Equal(t, int64(3), s.Rules[0].Admitted)
}

// What an entry reserved is released by its exit, whatever was loaded in between.
func TestGuard_IsToldOnceOfEveryCallWhileRulesAreReloaded(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 3000
	guard := &inFlight{limit: 5}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}})
	g.Resource("orders")
	check := guard.orders()
	stop := make(chan struct{})
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			mode := rule.Mode(i % 3)
			assert.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: float64(1e6 + i), Mode: mode}}))
			if i%5 == 0 {
				assert.NoError(t, g.LoadFlowRules(nil))
			}
		}
	})
	var wg sync.WaitGroup
	var passed atomic.Int64
	for range workers {
		wg.Go(func() {
			for i := range each {
				func() {
					defer func() { _ = recover() }()
					e, err := g.Entry("orders")
					if err != nil {
						assert.ErrorIs(t, err, leapgate.ErrBlocked)
						return
					}
					defer e.Exit()
					passed.Add(1)
					inside := check.now.Load()
					for most := check.most.Load(); inside > most && !check.most.CompareAndSwap(most, inside); {
						most = check.most.Load()
					}
					if i%7 == 0 {
						panic("in between")
					}
				}()
			}
		})
	}
	wg.Wait()
	close(stop)
	reloads.Wait()
	require.Zero(t, check.now.Load())
	require.Equal(t, passed.Load(), check.finished.Load())
	require.LessOrEqual(t, check.most.Load(), int64(5))
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, []int64{passed.Load(), passed.Load(), workers*each - passed.Load(), 0},
		[]int64{s.Pass, s.Success, s.Block, s.Concurrency})
}

// broken panics in the method of that name.
type broken struct {
	inFlight
	method string
}

func (b *broken) fail(method string) {
	if b.method == method {
		panic("broken in " + method)
	}
}

func (b *broken) Kind() string { b.fail("Kind"); return "broken" }
func (b *broken) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	b.fail("Bind")
	if b.method == "nil Check" {
		return []resource.Check{nil}, false
	}
	checks, _ := b.inFlight.Bind(name, nil)
	return []resource.Check{&brokenCheck{checks[0].(*inFlightCheck), b}}, false
}

type brokenCheck struct {
	*inFlightCheck
	b *broken
}

func (c *brokenCheck) Cause() *resource.Cause {
	c.b.fail("Cause")
	if c.b.method == "nil Cause" {
		return nil
	}
	return c.inFlightCheck.Cause()
}
func (c *brokenCheck) Mode() rule.Mode         { c.b.fail("Mode"); return rule.Enforce }
func (c *brokenCheck) Stage() resource.Stage   { c.b.fail("Stage"); return resource.Counting }
func (c *brokenCheck) Interval() time.Duration { c.b.fail("Interval"); return 0 }
func (c *brokenCheck) Reserve(now, n int64, by resource.Caller) resource.Verdict {
	c.b.fail("Reserve")
	return c.inFlightCheck.Reserve(now, n, by)
}

func (c *brokenCheck) Refund(ticket resource.Ticket, n int64) {
	c.b.fail("Refund")
	c.inFlightCheck.Refund(ticket, n)
}

func (c *brokenCheck) Wait(int64, int64, resource.Caller) time.Duration { c.b.fail("Wait"); return 0 }

func (c *brokenCheck) Snapshot(int64) stat.RuleSnapshot {
	c.b.fail("Snapshot")
	return stat.RuleSnapshot{}
}

func (c *brokenCheck) Finish(now, n int64, rt time.Duration, outcome resource.Outcome) {
	c.b.fail("Finish")
	c.inFlightCheck.Finish(now, n, rt, outcome)
}

func TestGuard_ThatPanicsIsAsIfItWereNotThere(t *testing.T) {
	t.Parallel()
	for _, method := range []string{
		"Kind", "Bind", "Cause", "Mode", "Stage", "Interval", "Reserve", "Refund", "Wait",
		"Snapshot", "Finish", "nil Check", "nil Cause",
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c := gatetest.NewClock()
			last := &inFlight{limit: 1, wait: time.Second}
			g := leapgate.Must(leapgate.Config{
				Now: c.Now, Guards: []resource.Guard{&broken{inFlight: inFlight{limit: math.MaxInt64}, method: method}, last},
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			for range 3 {
				e, err := g.Entry("orders")
				require.NoError(t, err)
				_, err = g.Entry("orders") // the last guard refuses it
				require.ErrorIs(t, err, leapgate.ErrBlocked)
				e.SetError(errors.New("it broke"))
				e.Exit()
			}
			s := gates.Snapshot(t, g, "orders")
			require.Equal(t, []int64{3, 3, 3, 3, 0}, []int64{s.Pass, s.Block, s.Success, s.Exception, s.Concurrency})
			require.Zero(t, last.orders().now.Load())
			require.Positive(t, g.GuardFaults())
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			require.Contains(t, log.String(), "panic")
		})
	}
}

func TestGuard_WhosePanicsAllDifferFillsNoMemory(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	guard := &moody{}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 1000 {
		require.True(t, gates.Enter(t, g, "orders"))
	}
	require.Equal(t, int64(1000), g.GuardFaults())
	require.Equal(t, 100, strings.Count(log.String(), "\n"))
}

type moody struct{ inFlight }

func (m *moody) Bind(string, []resource.Check) ([]resource.Check, bool) {
	return []resource.Check{&moodyCheck{inFlightCheck: &inFlightCheck{}}}, false
}

type moodyCheck struct {
	*inFlightCheck
	n int
}

func (c *moodyCheck) Reserve(int64, int64, resource.Caller) resource.Verdict {
	c.n++
	panic(fmt.Sprint("mood ", c.n))
}

// A guard that calls the gate back while it is asked must not meet a lock.
func TestGuard_MayCallTheGate(t *testing.T) {
	t.Parallel()
	guard := &curious{}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}})
	guard.gate = g
	require.True(t, gates.Enter(t, g, "orders"))
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "orders", Threshold: 10}, {Resource: "new", Threshold: 1}}))
	require.True(t, gates.Enter(t, g, "new"))
	require.False(t, gates.Enter(t, g, "new"))
	require.Positive(t, guard.asked.Load())
}

// closing is a guard with rules on the resources that are closed.
type closing struct {
	scripted
	closed map[string]bool
}

func (c *closing) Bind(name string, old []resource.Check) ([]resource.Check, bool) {
	if !c.closed[name] {
		return nil, false
	}
	checks, _ := c.scripted.Bind(name, old)
	return checks, true
}

func TestGuard_WhoseRulesChangeIsAskedAgain(t *testing.T) {
	t.Parallel()
	refuse := func(int64, resource.Caller) resource.Verdict { return refusal(-1) }
	guard := &closing{scripted: scripted{checks: []*scriptedCheck{{id: "tonight", reserve: refuse}}}}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}})
	require.True(t, gates.Enter(t, g, "orders"))
	guard.closed = map[string]bool{"orders": true, "new": true}
	require.True(t, gates.Enter(t, g, "orders"))
	require.NoError(t, g.Rebind("orders", "new"))
	require.False(t, gates.Enter(t, g, "orders"))
	require.Equal(t, []string{"new", "orders"}, names(g))

	err := g.Rebind("orders", "", strings.Repeat("x", 2000))
	require.ErrorIs(t, err, leapgate.ErrName)
	require.Equal(t, 1, strings.Count(err.Error(), "\n"))
}

type curious struct {
	inFlight
	gate   *leapgate.Gate
	asked  atomic.Int64
	loaded sync.Map // the names for which it has loaded rules
}

func (g *curious) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if g.gate != nil && name != "asked" {
		g.asked.Add(1)
		g.gate.Resource("asked")
		g.gate.FlowRules()
		g.gate.Snapshot()
		if _, again := g.loaded.LoadOrStore(name, true); !again {
			_ = g.gate.LoadFlowRules(g.gate.FlowRules())
		}
	}
	return nil, false
}
