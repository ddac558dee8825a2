package system_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/simulate"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
	"github.com/leapgate-go/leapgate/system"
)

// mix is what calls in a simulation: one call in ten is critical, four are of the default, three
// sheddable and two in the background.
var mix = [10]resource.Criticality{
	leapgate.Critical, resource.DefaultCriticality, leapgate.Sheddable, leapgate.Background, resource.DefaultCriticality,
	leapgate.Sheddable, resource.DefaultCriticality, leapgate.Background, leapgate.Sheddable, resource.DefaultCriticality,
}

// service is a simulated service behind a gate: its CPU is the share of its servers that is busy,
// sampled every 250 ms and smoothed as package load does.
type service struct {
	*world
	simulation simulate.Simulation
	offered    [4]int
	passed     [4]int
	from       int64 // when they are counted
}

func newService(t *testing.T, seed uint64, r system.Rule) *service {
	t.Helper()
	s := &service{world: newWorld(t, r)}
	const halfLife, every = time.Second, 250 * time.Millisecond
	cpu := 0.0
	s.simulation = simulate.Simulation{
		Start: s.clock.Now(), Set: s.clock.Set, Seed: seed, Every: every,
		Tick: func(_ int64, busy float64) {
			cpu += (busy - cpu) * (1 - 0.840896415) // 2^(−1/4)
			s.load.Set(load.Signals{CPU: stat.Signal{Value: cpu, Raw: busy, Known: true}})
		},
		Enter: func(n int) (func(), bool) {
			c := mix[n%10]
			e, err := s.gate.EntryContext(t.Context(), "GET /", leapgate.WithCriticality(c))
			if s.clock.Now() >= s.from {
				s.offered[c]++
			}
			if err != nil {
				return nil, false
			}
			if s.clock.Now() >= s.from {
				s.passed[c]++
			}
			return e.Exit, true
		},
	}
	return s
}

// A service gets three times what it can do. Judged from 10 s after the step: the limit keeps what it
// does at 0.9 of what it can do or more, and the response times of what passes near those of a
// service with nothing else to do; and it is the critical calls that pass. Before, at 0.7 of what
// it can do, next to nothing is refused. With two servers and bimodal times each is missed by a
// little: half of the servers is one call.
func TestLimit_ThreeTimesWhatTheServiceCanDo(t *testing.T) {
	t.Parallel()
	servers := []int{2, 4, 10, 100}
	if gatetest.Race || testing.Short() {
		servers = servers[1:2]
	}
	t.Logf("%-16s %7s │ %7s %7s │ %7s %7s │ %8s %8s %8s %8s", "times, servers", "at 0.7", "step", "p99", "goodput", "p99", "critical", "default", "shedd.", "backgr.")
	for _, shape := range []simulate.Shape{simulate.Deterministic, simulate.Exponential, simulate.Bimodal} {
		for _, n := range servers {
			times := simulate.Times{Mean: 20 * ms, Shape: shape}
			low := simulate.Phase{For: 30 * sec, Servers: n, Times: times}
			low.Rate = 0.7 * low.Capacity()
			step := low
			step.For, step.Rate = 10*sec, 3*low.Capacity()
			over := step
			over.For = time.Duration(max(20, 800/n)) * sec // chance is less than a hundredth

			s := newService(t, 1, all(system.Rule{MaxCPU: 0.9}))
			s.from = s.clock.Now() + int64(low.For+step.For)
			r := s.simulation.Run(low, step, over)
			p99 := func(i int) float64 { return float64(r[i].Quantile(0.99)) / float64(times.P99()) }
			passed := func(c resource.Criticality) float64 { return float64(s.passed[c]) / float64(s.offered[c]) }
			name := fmt.Sprintf("%v, %d", shape, n)
			t.Logf("%-16s %7.3f │ %7.3f %6.1f× │ %7.3f %6.1f× │ %8.3f %8.3f %8.3f %8.3f", name, r[0].Passed(), r[1].Goodput(), p99(1), r[2].Goodput(), p99(2),
				passed(leapgate.Critical), passed(resource.DefaultCriticality), passed(leapgate.Sheddable), passed(leapgate.Background))

			least := 0.9
			if n == 2 && shape == simulate.Bimodal {
				least = 0.87
			}
			assert.GreaterOrEqual(t, r[2].Goodput(), least, name)
			assert.LessOrEqual(t, p99(2), 3.0, name)
			assert.GreaterOrEqual(t, r[0].Passed(), least+0.07, name)
			assert.Greater(t, passed(leapgate.Critical), least-0.05, name)
			assert.Less(t, passed(leapgate.Background), 0.15, name)
			assert.Greater(t, passed(resource.DefaultCriticality), passed(leapgate.Sheddable)*2, name)
		}
	}
}

// A fixed limit and none, beside it.
func TestOverload_WithoutARuleTheQueueIsAllThereIs(t *testing.T) {
	t.Parallel()
	times := simulate.Times{Mean: 20 * ms, Shape: simulate.Exponential}
	over := simulate.Phase{For: 20 * sec, Servers: 10, Times: times}
	over.Rate = 3 * over.Capacity()
	s := newService(t, 1, all(system.Rule{MaxInFlight: 1_000_000}))
	r := s.simulation.Run(over)
	t.Logf("no limit: p99 %v", r[0].Quantile(0.99))
	require.Greater(t, r[0].Quantile(0.99), 10*sec)
	s = newService(t, 1, all(system.Rule{MaxInFlight: 15}))
	r = s.simulation.Run(over)
	t.Logf("15 in flight: goodput %.3f, p99 %v", r[0].Goodput(), r[0].Quantile(0.99))
	require.Less(t, r[0].Quantile(0.99), 3*times.P99())
}

// What else happens to a service: three of four servers are lost, a dependency gets 5 × slower,
// with no queue of ours, and an incident goes on for an hour. Judged from 10 s after the step.
func TestLimit_WhatElseHappensToAService(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	if gatetest.Race || testing.Short() {
		hour = time.Minute
	}
	times := simulate.Times{Mean: 20 * ms, Shape: simulate.Exponential}
	normal := simulate.Phase{For: 30 * sec, Servers: 20, Times: times}
	normal.Rate = 0.7 * normal.Capacity()
	few, slow, over := normal, normal, normal
	few.Servers = 5
	slow.Delay = simulate.Times{Mean: 100 * ms, Shape: simulate.Exponential}
	over.Servers, over.Times.Mean = 10, 100*ms
	over.Rate = 3 * over.Capacity()
	calm := over
	calm.Rate = 0.7 * over.Capacity()
	for _, c := range []struct {
		name          string
		before, after simulate.Phase
		length        time.Duration
	}{
		{"5 of 20 servers left", normal, few, 40 * sec},
		{"dependency 5 × slower", normal, slow, 40 * sec},
		{"an hour of 3 × the load", calm, over, hour},
	} {
		s := newService(t, 1, all(system.Rule{MaxCPU: 0.9}))
		first, rest := c.after, c.after
		first.For, rest.For = 10*sec, c.length
		r := s.simulation.Run(c.before, first, rest)
		can := min(rest.Rate, rest.Capacity()) / rest.Capacity()
		p99 := func(i int) float64 {
			return float64(r[i].Quantile(0.99)) / float64(rest.Times.P99()+rest.Delay.P99())
		}
		t.Logf("%-24s at first: goodput %.3f, p99 %.1f×; then %.3f, %.1f×", c.name, r[1].Goodput()/can, p99(1), r[2].Goodput()/can, p99(2))
		assert.GreaterOrEqual(t, r[2].Goodput()/can, 0.9, c.name)
		assert.LessOrEqual(t, p99(2), 3.0, c.name)
	}
}

// An incident: what takes 10 ms takes 500 ms for an hour, whatever is refused. The limit falls to a third of
// what it began with, which were 8, and stays there; afterwards everything passes.
func TestMaxRT_AnIncidentOfAnHour(t *testing.T) {
	t.Parallel()
	s := newService(t, 1, all(system.Rule{MaxRT: 100 * ms}))
	p := simulate.Phase{Servers: 1000, Rate: 500, Times: simulate.Times{Mean: 10 * ms}, For: 10 * sec}
	s.simulation.Run(p)
	require.Equal(t, "calm", s.rule("GET /").State)
	slow := p
	slow.Times.Mean = 500 * ms
	s.simulation.Run(slow)
	require.Equal(t, 3.0, s.rule("GET /").Effective)
	slow.For = time.Minute
	for range gatetest.Rounds(60) {
		s.simulation.Run(slow)
		require.Equal(t, 3.0, s.rule("GET /").Effective)
	}
	require.Len(t, s.changes, 1)
	require.Regexp(t, `^response time 500ms of 100ms: at most \d+ in flight, 1.5 × \d+ a second × 10ms$`, s.changes[0].Reason)
	p.For = 30 * sec
	r := s.simulation.Run(p, p)
	require.Equal(t, r[1].Offered, r[1].Admitted)
	require.Equal(t, "calm", s.rule("GET /").State)
}

// Calls hang for so long that for most of the time no response time is known, while the CPU is idle and sampled all the
// time. That is no reason to let more in.
func TestMaxRT_TheLimitDoesNotRiseWhileAllCallsHang(t *testing.T) {
	t.Parallel()
	s := newService(t, 1, all(system.Rule{MaxRT: 100 * ms, MaxCPU: 0.9}))
	p := simulate.Phase{Servers: 1000, Rate: 500, Times: simulate.Times{Mean: 10 * ms}, For: 10 * sec}
	slow := p
	slow.Times.Mean, slow.For = 10*sec, 10*sec
	s.simulation.Run(p, slow)
	for range 12 {
		s.simulation.Run(slow)
		require.Equal(t, 3.0, s.rule("GET /").Effective)
	}
}
