package isolation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/internal/simulate"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

const ms = time.Millisecond

// shapes are all that there are, or one, which is enough for races.
func shapes() []simulate.Shape {
	all := []simulate.Shape{simulate.Exponential, simulate.Deterministic, simulate.Bimodal}
	return all[:max(1, gatetest.Rounds(len(all)))]
}

// world is a gate with one rule in front of a simulated service.
type world struct {
	*leapgate.Gate
	simulate.Simulation
	clock   *gatetest.Clock
	changes []leapgate.Change
}

func newWorld(t testing.TB, rule isolation.Rule) *world {
	t.Helper()
	w := &world{clock: gatetest.NewClock()}
	w.Gate = gates.With(t, leapgate.Config{Now: w.clock.Now, OnChange: func(c leapgate.Change) { w.changes = append(w.changes, c) }})
	w.load(t, rule)
	api := w.Resource("api")
	w.Simulation = simulate.Simulation{Start: w.clock.Now(), Set: w.clock.Set, Enter: func(int) (func(), bool) {
		e, err := api.Entry()
		if err != nil {
			return nil, false
		}
		return func() { e.Exit() }, true
	}}
	return w
}

func (w *world) load(t testing.TB, rule isolation.Rule) {
	t.Helper()
	rule.ID, rule.Resource = "r", "api"
	require.NoError(t, gates.LoadIsolation(w.Gate, []isolation.Rule{rule}))
}

func (w *world) rule(t testing.TB) stat.RuleSnapshot {
	t.Helper()
	return gates.Snapshot(t, w.Gate, "api").Rules[0]
}

func (w *world) limit(t testing.TB) int { return int(w.rule(t).Effective) }

// under returns so much of a phase, at so many times what it can do.
func under(p simulate.Phase, load float64, length time.Duration) simulate.Phase {
	p.For, p.Rate = length, load*p.Capacity()
	return p
}

// held is what a good limit does at three times the capacity: the calls that it lets in end
// nearly as soon as in an empty service, and the servers are busy.
func held(t *testing.T, r *simulate.Result, name string) {
	t.Helper()
	slower := float64(r.Quantile(0.99)) / float64(r.Times.P99()+r.Delay.P99())
	t.Logf("%s: %.2f of the capacity, p99 %.1f × unloaded", name, r.Goodput(), slower)
	require.GreaterOrEqual(t, r.Goodput(), 0.9, name)
	require.LessOrEqual(t, slower, 3.0, name)
}

// The whole table: from two servers to a hundred, with times of each shape. Two servers do not
// wait for each other less than they must: with four in flight, as the smallest limit would be
// without MinInFlight 2, a call takes twice as long.
func TestAdaptive_HoldsWhatTheServersCanDo(t *testing.T) {
	t.Parallel()
	sizes := []int{10, 2, 4, 30, 100}
	for _, servers := range sizes[:max(1, gatetest.Rounds(len(sizes)))] {
		for _, shape := range shapes() {
			t.Run(fmt.Sprint(servers, " servers, ", shape), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, isolation.Rule{Strategy: isolation.Adaptive, MinInFlight: int64(min(4, servers)), MaxInFlight: 200})
				p := simulate.Phase{Servers: servers, Times: simulate.Times{Mean: time.Duration(servers) * 2 * ms, Shape: shape}}
				r := w.Run(
					under(p, 0.7, 20*time.Second), under(p, 0.7, 20*time.Second),
					under(p, 3, 10*time.Second), under(p, 3, 40*time.Second))
				require.GreaterOrEqual(t, r[1].Passed(), 0.98, "in peace nobody is refused")
				t.Logf("the first ten seconds: %.2f of the capacity, p99 %.1f × unloaded", r[2].Goodput(), float64(r[2].Quantile(0.99))/float64(p.Times.P99()))
				held(t, &r[3], "then")
			})
		}
	}
}

// A step in capacity: three of four servers are lost, and come again.
func TestAdaptive_FollowsTheServersThatThereAre(t *testing.T) {
	t.Parallel()
	for _, shape := range shapes() {
		w := newWorld(t, isolation.Rule{Strategy: isolation.Adaptive, MaxInFlight: 200})
		all := simulate.Phase{Servers: 20, Times: simulate.Times{Mean: 20 * ms, Shape: shape}}
		few := all
		few.Servers = 5
		r := w.Run(
			under(all, 0.7, 30*time.Second),
			under(few, 2.8, 10*time.Second), under(few, 2.8, 40*time.Second),
			under(all, 0.7, 10*time.Second), under(all, 0.7, 30*time.Second),
			under(all, 3, 10*time.Second), under(all, 3, 30*time.Second))
		held(t, &r[2], shape.String()+", a quarter of the servers")
		require.GreaterOrEqual(t, r[4].Passed(), 0.98, shape)
		held(t, &r[6], shape.String()+", all again, and three times the load")
	}
}

// What calls wait for elsewhere takes five times as long. To refuse them would not help: they take as
// long alone. So the limit makes room for them.
func TestAdaptive_LetsCallsWaitForWhatIsSlowItself(t *testing.T) {
	t.Parallel()
	for _, shape := range shapes() {
		for _, load := range []float64{3, 0.7}[:max(1, gatetest.Rounds(2))] {
			w := newWorld(t, isolation.Rule{Strategy: isolation.Adaptive, MaxInFlight: 200})
			quick := simulate.Phase{
				Servers: 4, Times: simulate.Times{Mean: 8 * ms, Shape: shape}, Delay: simulate.Times{Mean: 24 * ms, Shape: shape},
			}
			slow := quick
			slow.Delay.Mean *= 5
			r := w.Run(
				under(quick, load, 30*time.Second),
				under(slow, load, 10*time.Second), under(slow, load, 60*time.Second),
				under(quick, load, 60*time.Second), under(quick, load, 30*time.Second))
			name := fmt.Sprintf("%s, %v of the load", shape, load)
			for i, when := range map[int]string{2: "slow", 4: "quick again"} {
				can := min(1, load)
				t.Logf("%s, %s: %.2f of what can be done, p99 %.1f × unloaded", name, when, r[i].Goodput()/can,
					float64(r[i].Quantile(0.99))/float64(r[i].Times.P99()+r[i].Delay.P99()))
				require.GreaterOrEqual(t, r[i].Goodput(), 0.9*can, name)
				if load > 1 {
					held(t, &r[i], name)
				}
			}
		}
	}
}

// The limit does not drift: the last minute of an hour is as the first.
func TestAdaptive_DoesNotDriftInAnHour(t *testing.T) {
	t.Parallel()
	hour := time.Duration(gatetest.Rounds(60)) * time.Minute
	for _, shape := range shapes() {
		w := newWorld(t, isolation.Rule{Strategy: isolation.Adaptive, MaxInFlight: 200})
		p := simulate.Phase{Servers: 10, Times: simulate.Times{Mean: 200 * ms, Shape: shape}}
		r := w.Run(under(p, 3, time.Minute), under(p, 3, hour), under(p, 3, 2*time.Minute))
		held(t, &r[1], shape.String()+", the hour")
		held(t, &r[2], shape.String()+", after it")
	}
}

// An incident: what takes 10 ms takes 500 ms for an hour. With MaxRT that is never taken for
// normal.
func TestAdaptive_MaxRTIsNotGotUsedTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, isolation.Rule{Strategy: isolation.Adaptive, InitialInFlight: 200, MaxInFlight: 200, MaxRT: 100 * ms})
	p := simulate.Phase{Servers: 1000, Rate: 500, Times: simulate.Times{Mean: 10 * ms}, For: 10 * time.Second}
	w.Run(p)
	require.Equal(t, 200, w.limit(t))
	p.Times.Mean, p.Rate = 500*ms, 100
	p.For = 4 * time.Minute // at the floor it takes 12 s until a hundred calls have ended
	w.Run(p)
	p.For, p.Rate = time.Duration(gatetest.Rounds(56))*time.Minute, 20
	for range 2 {
		require.Equal(t, 4, w.limit(t))
		require.Equal(t, "slow", w.rule(t).State)
		w.Run(p)
		p.For = time.Minute
	}
	p.Times.Mean, p.Rate = 10*ms, 2000
	p.For = 10 * time.Second
	w.Run(p)
	require.Greater(t, w.limit(t), 20)
}

// Three calls in flight say nothing about what twenty would do.
func TestAdaptive_DoesNotMoveWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, isolation.Rule{Strategy: isolation.Adaptive, MaxInFlight: 200})
	p := simulate.Phase{For: 10 * time.Minute, Rate: 10, Servers: 3, Times: simulate.Times{Mean: 10 * ms}}
	r := w.Run(p)
	require.Equal(t, r[0].Offered, r[0].Admitted)
	require.Equal(t, 20, w.limit(t))
	require.Empty(t, w.changes)
}

// The program's clock moves every 200 ms, so that calls seem to take no time.
func TestAdaptive_ClockThatMovesInJumps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, isolation.Rule{Strategy: isolation.Adaptive, MaxInFlight: 200})
	for range 20 {
		w.clock.Set(w.clock.Now() + int64(200*time.Millisecond))
		for range 10 {
			var inside []resource.Entry
			for range 40 {
				if e, err := w.Entry("api"); err == nil {
					inside = append(inside, e)
				}
			}
			require.NotEmpty(t, inside)
			for i := range inside {
				inside[i].Exit()
			}
		}
		require.GreaterOrEqual(t, w.limit(t), 4)
		require.LessOrEqual(t, w.limit(t), 200)
	}
}
