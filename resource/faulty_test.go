package resource_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// faulty is a guard of which the first check panics in a method.
type faulty struct {
	scripted
	method string
}

func (f *faulty) Bind(name string, old []resource.Check) ([]resource.Check, bool) {
	checks, named := f.scripted.Bind(name, old)
	checks[0] = &faultyCheck{checks[0].(*scriptedCheck), f}
	return checks, named
}

type faultyCheck struct {
	*scriptedCheck
	f *faulty
}

func (c *faultyCheck) in(method string) {
	if method == c.f.method {
		panic("fault")
	}
}
func (c *faultyCheck) Mode() rule.Mode         { c.in("Mode"); return c.scriptedCheck.Mode() }
func (c *faultyCheck) Stage() resource.Stage   { c.in("Stage"); return resource.Counting }
func (c *faultyCheck) Interval() time.Duration { c.in("Interval"); return 0 }
func (c *faultyCheck) Reserve(now, n int64, by resource.Caller) resource.Verdict {
	c.in("Reserve")
	return c.scriptedCheck.Reserve(now, n, by)
}

func (c *faultyCheck) Refund(t resource.Ticket, n int64) {
	c.in("Refund")
	c.scriptedCheck.Refund(t, n)
}

func (c *faultyCheck) Wait(now, n int64, by resource.Caller) time.Duration {
	c.in("Wait")
	return c.scriptedCheck.Wait(now, n, by)
}

func (c *faultyCheck) Snapshot(int64) stat.RuleSnapshot {
	c.in("Snapshot")
	return stat.RuleSnapshot{ID: "own", Kind: "own", Admitted: 3}
}

func (c *faultyCheck) Finish(now, n int64, rt time.Duration, outcome resource.Outcome) {
	c.in("Finish")
	c.scriptedCheck.Finish(now, n, rt, outcome)
}

// Each fault is as if the method had said what changes least.
func TestGuard_WhatEachFaultLeadsTo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method string
		notes  string // of a call that passes, and of one that the last check refuses
	}{
		{"none", "+f0 +z0 =f =z +f0 !z -f0"},
		{"Mode", "+z0 =z !z"},                    // is not asked
		{"Stage", "+f0 +z0 =f =z +f0 !z -f0"},    // is asked in its turn
		{"Interval", "+f0 +z0 =f =z +f0 !z -f0"}, // remembers nothing
		{"Reserve", "+z0 =f =z !z"},              // took nothing, but is told of the end
		{"Refund", "+f0 +z0 =f =z +f0 !z"},
		{"Wait", "+f0 +z0 =f =z +f0 !z -f0"}, // holds nobody back
		{"Snapshot", "+f0 +z0 =f =z +f0 !z -f0"},
		{"Finish", "+f0 +z0 =z +f0 !z -f0"},
	} {
		t.Run(tt.method, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c := gatetest.NewClock()
			start, refuses := c.Now(), false
			last := &scriptedCheck{id: "z", wait: func(now int64) time.Duration {
				return 5*time.Second - time.Duration(now-start)
			}}
			last.reserve = func(int64, resource.Caller) resource.Verdict {
				if refuses {
					return refusal(5 * time.Second)
				}
				return resource.Verdict{}
			}
			f := &faulty{scripted: scripted{checks: []*scriptedCheck{{id: "f"}, last}}, method: tt.method}
			g := leapgate.Must(leapgate.Config{Now: c.Now, Guards: []resource.Guard{f}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.True(t, gates.Enter(t, g, "orders"))
			refuses = true
			_, err := g.Entry("orders")
			var blocked *leapgate.BlockError
			require.ErrorAs(t, err, &blocked)
			require.Equal(t, 5*time.Second, blocked.RetryAfter)
			require.Equal(t, tt.notes, f.noted())
			s := gates.Snapshot(t, g, "orders")
			require.Equal(t, []int64{1, 1, 1, 0}, []int64{s.Pass, s.Success, s.Block, s.Concurrency})
			want := stat.RuleSnapshot{ID: "own", Kind: "own", Admitted: 3}
			if tt.method == "Snapshot" {
				want = stat.RuleSnapshot{ID: "f", Kind: "scripted", Threshold: 7}
			}
			require.Equal(t, want, s.Rules[0])
			require.Equal(t, tt.method != "none", g.GuardFaults() > 0)
			require.Equal(t, min(1, int(g.GuardFaults())), strings.Count(log.String(), "\n"))
		})
	}
}

// A check of the program may forget what its refusal is about.
func TestGuard_RefusalWithoutACauseHasThatOfItsCheck(t *testing.T) {
	t.Parallel()
	for _, mode := range []rule.Mode{rule.Enforce, rule.Shadow} {
		shared := &resource.BlockError{Observed: 9}
		check := &scriptedCheck{id: "a", mode: mode, reserve: func(int64, resource.Caller) resource.Verdict {
			if mode == rule.Shadow {
				return resource.Verdict{Refused: shared}
			}
			return resource.Verdict{Refused: &resource.BlockError{Observed: 9}}
		}}
		g, _ := scriptedGate(t, leapgate.Config{Now: gatetest.NewClock().Now}, &scriptedCheck{id: "first"}, check)
		e, err := g.Entry("orders")
		s := gates.Snapshot(t, g, "orders")
		if mode == rule.Shadow {
			require.NoError(t, err)
			require.Equal(t, []int64{1, 0, 1}, []int64{s.Pass, s.Block, s.WouldBlock})
			require.Nil(t, shared.Cause)
		} else {
			require.EqualError(t, err, `scripted rule "a" on "orders": 9 of 7`)
			require.Equal(t, []int64{0, 1, 0}, []int64{s.Pass, s.Block, s.WouldBlock})
			require.Equal(t, 9.0, s.Rules[1].LastRefusal.Observed)
		}
		e.Exit()
		require.Zero(t, g.GuardFaults())
	}
}
