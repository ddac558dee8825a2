package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/simulate"
)

func service(rate float64, servers int, shape simulate.Shape) simulate.Phase {
	return simulate.Phase{
		For: 100 * time.Second, Rate: rate, Servers: servers,
		Times: simulate.Times{Mean: 10 * time.Millisecond, Shape: shape},
	}
}

// all lets all calls in, and fails the test if the clock goes back or an exit is missing.
func all(t *testing.T, s simulate.Simulation, phases ...simulate.Phase) []simulate.Result {
	t.Helper()
	s.Start = 1000
	now, back, inside := s.Start, 0, 0
	s.Set = func(to int64) {
		if to < now {
			back++
		}
		now = to
	}
	s.Enter = func(int) (func(), bool) {
		inside++
		return func() { inside-- }, true
	}
	var results []simulate.Result
	for _, p := range phases {
		results = append(results, s.Run(p)...)
	}
	require.Zero(t, back)
	left := 0
	for i := range results {
		left += results[i].Admitted - results[i].Ended
	}
	require.Equal(t, left, inside)
	return results
}

// What queueing theory says of one server under Poisson arrivals at load 0.7: the mean number
// in it is 0.7 / 0.3 with exponential times, and the time is exponential as well.
func TestRun_IsTheQueueOfTheBooks(t *testing.T) {
	t.Parallel()
	r := all(t, simulate.Simulation{}, service(70, 1, simulate.Exponential), service(70, 1, simulate.Exponential))[1]
	require.InDelta(t, 7000, r.Offered, 300)
	require.Equal(t, r.Offered, r.Admitted)
	require.InDelta(t, 0.7, r.Goodput(), 0.04)
	require.InDelta(t, float64(23*time.Millisecond), float64(r.Quantile(0.5)), float64(6*time.Millisecond))
	require.InDelta(t, float64(153*time.Millisecond), float64(r.Quantile(0.99)), float64(50*time.Millisecond))
}

func TestRun_TimesAreAsTheyAreSaidToBe(t *testing.T) {
	t.Parallel()
	for _, shape := range []simulate.Shape{simulate.Deterministic, simulate.Exponential, simulate.Bimodal} {
		p := service(100, 1_000_000, shape)
		p.Delay = simulate.Times{Mean: 40 * time.Millisecond}
		r := all(t, simulate.Simulation{}, p)[0]
		require.InEpsilon(t, float64(40*time.Millisecond+p.Times.P99()), float64(r.Quantile(0.99)), 0.05, shape.String())
	}
}

// At three times what it can do, the queue grows by two seconds in each.
func TestRun_WithoutALimitEverybodyWaitsInVain(t *testing.T) {
	t.Parallel()
	r := all(t, simulate.Simulation{Patience: time.Second}, service(3000, 10, simulate.Deterministic))[0]
	require.InDelta(t, 100_000, r.Ended, 10)
	require.InDelta(t, 1500, r.Good, 100)
	require.Greater(t, r.Quantile(0.99), time.Minute)
}

func TestRun_TellsHowBusyTheServersAre(t *testing.T) {
	t.Parallel()
	var busy []float64
	s := simulate.Simulation{Every: 50 * time.Second, Tick: func(_ int64, b float64) { busy = append(busy, b) }}
	all(t, s, service(500, 10, simulate.Deterministic), service(3000, 20, simulate.Deterministic))
	require.Len(t, busy, 4)
	require.InDelta(t, 0.5, busy[1], 0.03)
	require.InDelta(t, 1, busy[3], 0.001)
}
