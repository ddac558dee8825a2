package system_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/simulate"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
	"github.com/leapgate-go/leapgate/system"
)

// mix is who calls in a simulation: one call in ten is critical, four are of the default, three
// sheddable and two in the background; each from one of a thousand origins.
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
			e, err := s.gate.EntryContext(t.Context(), "GET /", leapgate.WithCriticality(c), leapgate.WithOrigin(fmt.Sprint("o", n*7919%1000)))
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


func TestX(t *testing.T) {
	for _, shape := range []simulate.Shape{simulate.Deterministic, simulate.Exponential, simulate.Bimodal} {
		for _, servers := range []int{2, 4, 10, 100} {
			times := simulate.Times{Mean: 20 * time.Millisecond, Shape: shape}
			p := simulate.Phase{For: 60 * sec, Servers: servers, Times: times}
			p.Rate = 0.7 * p.Capacity()
			over := p
			over.For, over.Rate = 10*sec, 3*p.Capacity()
			steady := over
			steady.For = 60 * sec
			s := newService(t, 1, all(system.Rule{MaxCPU: 0.9}))
			s.from = s.clock.Now() + int64(70*sec)
			r := s.simulation.Run(p, over, steady)
			fmt.Printf("%v %d: before passed %.3f p99 %.1f | step good %.2f p99 %v |", shape, servers, r[0].Passed(), float64(r[0].Quantile(.99))/float64(times.P99()), r[1].Goodput(), r[1].Quantile(.99))
			fmt.Printf(" steady good %.3f p99 %.1f x unl\n", r[2].Goodput(), float64(r[2].Quantile(.99))/float64(times.P99()))
			for c := range 4 {
				fmt.Printf("  %v %.3f", resource.Criticality(c), float64(s.passed[c])/float64(s.offered[c]))
			}
			fmt.Println(s.rule("GET /").Effective, s.rule("GET /").Changes)
		}
	}
	require.True(t, true)
}
