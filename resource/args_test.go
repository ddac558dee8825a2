package resource_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// perItem is a guard with one rule: at most limit calls in flight for each value of "item".
type perItem struct {
	limit int64
	mode  rule.Mode
	items map[string]*atomic.Int64
	after resource.Check // asked after it
	fails string         // the method that panics
}

func newPerItem(limit int64, items ...string) *perItem {
	p := &perItem{limit: limit, items: make(map[string]*atomic.Int64)}
	for _, item := range items {
		p.items[item] = new(atomic.Int64)
	}
	return p
}

func (p *perItem) Kind() string { return "per item" }

func (p *perItem) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	checks := []resource.Check{&perItemCheck{
		perItem: p,
		cause:   &resource.Cause{Resource: name, Kind: p.Kind(), RuleID: "items", Threshold: float64(p.limit), Detail: " in flight"},
	}}
	if p.after != nil {
		checks = append(checks, p.after)
	}
	return checks, false
}

type perItemCheck struct {
	*perItem
	cause *resource.Cause
}

func (c *perItemCheck) Cause() *resource.Cause               { return c.cause }
func (c *perItemCheck) Mode() rule.Mode                      { return c.mode }
func (c *perItemCheck) Stage() resource.Stage                { return resource.Counting }
func (c *perItemCheck) Interval() time.Duration              { return 0 }
func (c *perItemCheck) Snapshot(int64) (s stat.RuleSnapshot) { return s }
func (c *perItemCheck) Refund(resource.Ticket, int64)        { panic("without arguments") }
func (c *perItemCheck) Wait(_, _ int64, _ resource.Caller) (d time.Duration) {
	panic("without arguments")
}

func (c *perItemCheck) Reserve(_, _ int64, _ resource.Caller) resource.Verdict {
	panic("without arguments")
}

func (c *perItemCheck) Finish(int64, int64, time.Duration, resource.Outcome) {
	panic("without what it holds")
}

func (c *perItemCheck) fail(method string) {
	if c.fails == method {
		panic(method)
	}
}

func (c *perItemCheck) ReserveArgs(_, n int64, _ resource.Caller, args resource.Args) (resource.Verdict, any) {
	c.fail("ReserveArgs")
	item, _ := args.Get("item")
	places := c.items[item]
	if places == nil {
		return resource.Verdict{}, nil
	}
	if now := places.Add(n); now > c.limit {
		places.Sub(n)
		return resource.Verdict{Refused: &resource.BlockError{Cause: c.cause, Observed: float64(now), RetryAfter: time.Second}}, nil
	}
	return resource.Verdict{Ticket: resource.Ticket{A: n}}, places
}

func (c *perItemCheck) RefundArgs(ticket resource.Ticket, n int64, _ resource.Args, held any) {
	c.fail("RefundArgs")
	if held != nil {
		held.(*atomic.Int64).Sub(ticket.A)
	}
}

func (c *perItemCheck) WaitArgs(now, _ int64, _ resource.Caller, args resource.Args) time.Duration {
	c.fail("WaitArgs")
	return max(0, 2*time.Second-time.Duration(now)) * time.Duration(args.Len())
}

func (c *perItemCheck) FinishArgs(_, n int64, _ time.Duration, _ resource.Outcome, held any) {
	c.fail("FinishArgs")
	held.(*atomic.Int64).Sub(n)
}

func (p *perItem) inFlight(item string) int64 { return p.items[item].Load() }

func TestArgs_ACheckDecidesByThemAndGetsBackWhatItHolds(t *testing.T) {
	t.Parallel()
	p := newPerItem(2, "pen", "ink")
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{p}})
	enter := func(opts ...leapgate.EntryOption) (resource.Entry, error) {
		return g.EntryContext(t.Context(), "orders", opts...)
	}
	pen := leapgate.WithArg("item", "pen")
	first, err := enter(pen)
	require.NoError(t, err)
	second, err := enter(leapgate.WithArg("tenant", "a"), leapgate.WithArg("item", "ink"), pen) // the last holds
	require.NoError(t, err)
	_, err = enter(leapgate.WithArg("tenant", "a"), pen)
	require.EqualError(t, err, `per item rule "items" on "orders": 3 of 2 in flight; retry in 1s`)
	other, err := enter(leapgate.WithArg("item", "ink"), leapgate.WithCount(2))
	require.NoError(t, err)
	none, err := enter(leapgate.WithArg("tenant", "a")) // holds nothing
	require.NoError(t, err)
	plain, err := g.Entry("orders")
	require.NoError(t, err)
	require.Equal(t, []int64{2, 2}, []int64{p.inFlight("pen"), p.inFlight("ink")})
	for _, e := range []*resource.Entry{&first, &second, &other, &none, &plain} {
		e.SetError(errors.New("it broke"))
		e.Exit()
		e.Exit()
	}
	require.Equal(t, []int64{0, 0}, []int64{p.inFlight("pen"), p.inFlight("ink")})
	require.Zero(t, g.GuardFaults())
}

func TestArgs_WhatALaterCheckRefusesIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, mode := range []rule.Mode{rule.Enforce, rule.Shadow} {
		p := newPerItem(2, "pen")
		p.mode = mode
		refuses := &scriptedCheck{id: "z", guard: new(scripted), reserve: func(int64, resource.Caller) resource.Verdict { return refusal(-1) }}
		refuses.cause.RuleID = "z"
		p.after = refuses
		g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{p}})
		for range 3 {
			_, err := g.EntryContext(t.Context(), "orders", leapgate.WithArg("item", "pen"))
			require.ErrorContains(t, err, `rule "z"`)
			require.Zero(t, p.inFlight("pen"))
		}
		require.Zero(t, g.GuardFaults())
	}
}

func TestArgs_InModeShadowCallsAreHeldAndNotRefused(t *testing.T) {
	t.Parallel()
	p := newPerItem(1, "pen")
	p.mode = rule.Shadow
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{p}})
	var entries [3]resource.Entry
	for i := range entries {
		var err error
		entries[i], err = g.EntryContext(t.Context(), "orders", leapgate.WithArg("item", "pen"))
		require.NoError(t, err)
		require.Equal(t, int64(1), p.inFlight("pen"))
	}
	for i := range entries {
		entries[i].Exit()
	}
	require.Zero(t, p.inFlight("pen"))
	require.Equal(t, int64(2), gates.Snapshot(t, g, "orders").WouldBlock)
}

func TestArgs_ThoseThatCannotBeAreErrorsAndCountNothing(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.NewClock())
	long := strings.Repeat("x", 1025)
	var five []leapgate.EntryOption
	for i := range 5 {
		five = append(five, leapgate.WithArg(fmt.Sprint(i), ""))
	}
	for text, opts := range map[string][]leapgate.EntryOption{
		`leapgate: bad argument of a call: its name is empty; want 1 to 1024 bytes`:                      {leapgate.WithArg("", "x")},
		`leapgate: bad argument of a call: the name "` + long[:32] + `"… has 1025 bytes; want 1 to 1024`: {leapgate.WithArg(long, "x")},
		`leapgate: bad argument of a call: the value of "item" has 1025 bytes; want at most 1024`:        {leapgate.WithArg("item", long)},
		`leapgate: bad argument of a call: "4" is one too many; want at most 4`:                          five,
	} {
		_, err := g.EntryContext(t.Context(), "orders", opts...)
		require.ErrorIs(t, err, leapgate.ErrArg)
		require.NotErrorIs(t, err, leapgate.ErrBlocked)
		require.EqualError(t, err, text)
	}
	require.Zero(t, gates.Snapshot(t, g, "orders").Pass)
	e, err := g.EntryContext(t.Context(), "orders", append(five[:4], leapgate.WithArg("3", long[:1024]))...)
	require.NoError(t, err)
	e.Exit()
}

// The race: nobody is inside beyond the limit of an item, and in the end nobody is.
func TestArgs_HammerNoItemIsEverOverItsLimit(t *testing.T) {
	t.Parallel()
	const goroutines, each, limit = 16, 2000, 3
	items := []string{"pen", "ink", "nib"}
	p := newPerItem(limit, items...)
	inside := make(map[string]*atomic.Int64)
	for _, item := range items {
		inside[item] = new(atomic.Int64)
	}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{p}})
	var all sync.WaitGroup
	for id := range goroutines {
		all.Go(func() {
			for i := range each {
				item := items[(id+i)%len(items)]
				e, err := g.EntryContext(t.Context(), "orders", leapgate.WithArg("item", item))
				if err != nil {
					continue
				}
				if now := inside[item].Inc(); now > limit {
					t.Errorf("%d of %d inside", now, limit)
				}
				inside[item].Dec()
				e.Exit()
			}
		})
	}
	all.Wait()
	for _, item := range items {
		require.Zero(t, p.inFlight(item), item)
	}
	s := gates.Snapshot(t, g, "orders")
	require.Equal(t, int64(goroutines*each), s.Pass+s.Block)
	require.Equal(t, s.Pass, s.Success)
}

func TestArgs_FaultsOfThemAreAsIfTheCheckWereNotThere(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"ReserveArgs", "RefundArgs", "WaitArgs", "FinishArgs"} {
		p := newPerItem(1, "pen")
		p.fails = method
		last := &inFlight{limit: 1, wait: time.Second}
		g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{p, last}})
		for range 2 {
			e, err := g.EntryContext(t.Context(), "orders", leapgate.WithArg("item", "pen"))
			require.NoError(t, err)
			_, err = g.EntryContext(t.Context(), "orders", leapgate.WithArg("item", "ink"))
			require.ErrorIs(t, err, leapgate.ErrBlocked)
			e.Exit()
			p.items["pen"].Store(0) // what a fault left
		}
		require.Zero(t, last.orders().now.Load())
		require.Positive(t, g.GuardFaults(), method)
	}
}

func TestArgs_AllocateNothing(t *testing.T) {
	p := newPerItem(1, "pen")
	plain := leapgate.Must(leapgate.Config{})
	guarded := leapgate.Must(leapgate.Config{Guards: []resource.Guard{p}})
	for _, g := range []*leapgate.Gate{plain, guarded} {
		ctx, r := t.Context(), g.Resource("orders")
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			e, err := r.EntryContext(ctx, leapgate.WithArg("tenant", "a"), leapgate.WithArg("item", "pen"))
			if err != nil {
				t.Error(err)
			}
			e.Exit()
		}))
	}
}

func TestCriticality_OfACallReachesItsChecks(t *testing.T) {
	t.Parallel()
	var got []string
	check := &scriptedCheck{id: "a", reserve: func(_ int64, by resource.Caller) resource.Verdict {
		got = append(got, by.Criticality.String())
		return resource.Verdict{}
	}}
	g, _ := scriptedGate(t, leapgate.Config{Now: gatetest.NewClock().Now}, check)
	for _, opts := range [][]leapgate.EntryOption{
		nil,
		{leapgate.WithCriticality(leapgate.Critical)},
		{leapgate.WithCriticality(leapgate.Critical), leapgate.WithCriticality(leapgate.Sheddable)},
		{leapgate.WithCriticality(leapgate.Background), leapgate.WithOrigin("a")},
		{leapgate.WithCriticality(leapgate.Critical), leapgate.WithCriticality(77)},
	} {
		e, err := g.EntryContext(t.Context(), "orders", opts...)
		require.NoError(t, err)
		e.Exit()
	}
	require.Equal(t, []string{"default", "critical", "sheddable", "background", "default"}, got)
}
