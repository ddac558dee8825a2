package flow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rule"
)

// The race: look, then count. All 50 may look at once; one is admitted.
func TestRule_HammerForTheOnlyPlace(t *testing.T) {
	t.Parallel()
	g := newGate(t, flow.Rule{Resource: "a", Threshold: 1})
	handle := g.Resource("a")
	for round := range 300 {
		g.at(time.Duration(round) * time.Second)
		var won atomic.Int64
		gatetest.AtOnce(50, func(int) {
			if e, err := handle.Entry(); err == nil {
				won.Add(1)
				e.Exit()
			}
		})
		require.EqualValues(t, 1, won.Load())
	}
	require.Equal(t, figuresOf{"a/1", 300, 300 * 49, 0}, g.rule(t, "a", "a/1"))
}

// The race: 64 goroutines on one word, the clock standing at each
// step. The numbers are those of one goroutine, exactly.
func TestRule_HammerStepByStep(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, n := range []int64{1, 7} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("n=%d/strict=%v", n, strict), func(t *testing.T) {
				t.Parallel()
				g := newGate(t, flow.Rule{Resource: "a", Threshold: 1000, Strict: strict})
				model := &naiveGate{}
				model.load(g.FlowRules())
				handle := g.Resource("a")
				for step, at := range []time.Duration{0, 99, 100, 250, 600, 999, 1000, 1001, 1099, 1100, 1250, 1600, 1999, 2000, 2100, 9000, 9500, 9950, 10_000, 10_050, 10_100} {
					g.at(at * ms)
					tries := 1 + step%6 // by each goroutine
					var admitted atomic.Int64
					gatetest.AtOnce(64, func(int) {
						for range tries {
							if e, err := handle.EntryContext(ctx, leapgate.WithCount(n)); err == nil {
								admitted.Add(n)
								e.Exit()
							}
						}
					})
					want := int64(0)
					for range 64 * tries {
						if blocked, _ := model.call(g.clock.Load(), n); blocked == nil {
							want += n
						}
					}
					require.Equal(t, want, admitted.Load(), "@%d", at)
				}
			})
		}
	}
}

// span is the calls that were admitted between two readings of the clock. The time
// of each, by which it is judged, is one of those readings or lies between.
type span struct{ before, after, n int64 }

type spans []span

// surely sums up what was admitted within [from, to] without doubt, possibly what may
// have been.
func (all spans) surely(from, to int64) (sum int64) {
	for _, s := range all {
		if s.before >= from && s.after <= to {
			sum += s.n
		}
	}
	return sum
}

func (all spans) possibly(from, to int64) (sum int64) {
	for _, s := range all {
		if s.after >= from && s.before <= to {
			sum += s.n
		}
	}
	return sum
}

// The race: entries against the roll-overs of a clock that others
// move on meanwhile. A call that is blocked moves it, and in every other second so
// do some that are not.
func TestRule_HammerOnAClockThatMovesOn(t *testing.T) {
	t.Parallel()
	const limit, seconds = 1000, 40
	ctx := context.Background()
	for _, n := range []int64{1, 7} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("n=%d/strict=%v", n, strict), func(t *testing.T) {
				t.Parallel()
				g := newGate(t, flow.Rule{Resource: "a", Threshold: limit, Strict: strict})
				handle := g.Resource("a")
				var mu sync.Mutex // guards counts and full
				counts := make(map[span]int64)
				full := make(map[int64]bool) // times at which somebody was blocked while the clock stood
				gatetest.AtOnce(64, func(id int) {
					mine, blocked := make(map[span]int64), []int64(nil)
					for turn := id; ; turn++ {
						before := g.clock.Load()
						second := (before - minute) / int64(time.Second)
						if second >= seconds {
							break
						}
						e, err := handle.EntryContext(ctx, leapgate.WithCount(n))
						after := g.clock.Load()
						if err == nil {
							e.Exit()
							mine[span{before: before, after: after}] += n
							if second%2 == 0 || turn%16 != 0 {
								continue
							}
						}
						if g.clock.CompareAndSwap(before, before+int64(turn%60+1)*int64(ms)) && err != nil {
							blocked = append(blocked, before)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					for s, n := range mine {
						counts[s] += n
					}
					for _, at := range blocked {
						full[at] = true
					}
				})

				var all spans
				total := int64(0)
				for s, n := range counts {
					all = append(all, span{s.before, s.after, n})
					total += n
				}
				slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.before, b.before) })
				figures := g.rule(t, "a", "a/1")
				require.Equal(t, total, figures.admitted)
				require.Equal(t, total, handle.Snapshot().Pass)
				require.Zero(t, handle.Snapshot().Concurrency)

				const most = int64(limit)
				bucket, window := int64(100*ms), int64(time.Second)
				for end := minute + bucket; end < minute+(seconds+2)*window; end += bucket {
					require.LessOrEqual(t, all.surely(end-window, end-1), most, "the window that ends %v", time.Duration(end-minute))
				}
				if strict {
					for _, s := range all {
						require.LessOrEqual(t, all.surely(s.before, s.before+window), most, "the second from %v on", time.Duration(s.before-minute))
					}
					window += bucket // what is remembered
				}
				require.NotEmpty(t, full)
				for at := range full {
					end := at - at%bucket + bucket
					require.Greater(t, all.possibly(end-window, end-1)+n, most, "somebody was blocked at %v", time.Duration(at-minute))
				}
			})
		}
	}
}

// The race: a refusal by the second rule, given back to the first, against those
// that take from the first meanwhile. A call may be refused for a place that is
// given back a moment later, but when all is over both have admitted the same.
func TestRule_HammerRefundsOfTheFirstRule(t *testing.T) {
	t.Parallel()
	g := newGate(t,
		flow.Rule{ID: "wide", Resource: "a", Threshold: 500},
		flow.Rule{ID: "middle", Resource: "a", Threshold: 300},
		flow.Rule{ID: "narrow", Resource: "a", Threshold: 30, Interval: 100 * ms, Buckets: 1})
	handle := g.Resource("a")
	var total int64
	for step := range 40 {
		g.at(time.Duration(step) * 100 * ms)
		var admitted atomic.Int64
		gatetest.AtOnce(32, func(int) {
			for range 40 {
				if e, err := handle.Entry(); err == nil {
					admitted.Add(1)
					e.Exit()
				}
			}
		})
		// The clock stands, so nothing that is given back is dropped.
		require.EqualValues(t, 30, admitted.Load(), "step %d", step)
		total += admitted.Load()
		for _, id := range []string{"wide", "middle", "narrow"} {
			require.Equal(t, total, g.rule(t, "a", id).admitted, id)
		}
	}
}

// The race: loads that change other rules, of this resource and of others,
// against entries. The rule is never lost, nor its window, nor an exit.
func TestReload_HammerLoadsAgainstEntries(t *testing.T) {
	t.Parallel()
	const rounds, limit = 60, 50
	watched := flow.Rule{ID: "watched", Resource: "a", Threshold: limit}
	lists := [][]flow.Rule{
		{watched, {ID: "b", Resource: "b", Threshold: 5}},
		{watched, {ID: "b", Resource: "b", Threshold: 6}}, // the same shape
		{watched},
		{{ID: "first", Resource: "a", Threshold: 1e9}, watched, {ID: "c", Resource: "c", Mode: rule.Shadow}},
		{watched, {ID: "last", Resource: "a", Threshold: 1e9}, {ID: "last two", Resource: "a", Threshold: 0, Mode: rule.Shadow}},
	}
	g := newGate(t, lists[0]...)
	for round := range rounds {
		g.at(time.Duration(round) * time.Second)
		var admitted, loads, finished atomic.Int64
		gatetest.AtOnce(9, func(id int) {
			if id == 8 {
				for finished.Load() < 8 || loads.Load() < 10 {
					list := lists[loads.Add(1)%int64(len(lists))]
					if err := g.LoadFlowRules(list); err != nil {
						t.Error(err)
					}
					if got := g.FlowRules(); len(got) != len(list) || got[0].ID != list[0].ID {
						t.Errorf("%+v is loaded, want %+v", got, list)
					}
				}
				return
			}
			for range 40 {
				if e, err := g.Entry("a"); err == nil {
					admitted.Add(1)
					e.Exit()
				}
				if e, err := g.Entry("b"); err == nil {
					e.Exit()
				}
			}
			finished.Add(1)
		})
		require.EqualValues(t, limit, admitted.Load(), "round %d", round)
	}
	require.NoError(t, g.LoadFlowRules(lists[4]))
	require.EqualValues(t, limit*rounds, g.rule(t, "a", "watched").admitted)
	for _, s := range g.Snapshot() {
		require.Zero(t, s.Concurrency, s.Resource)
		require.Equal(t, s.Pass, s.Success, s.Resource)
		require.EqualValues(t, rounds*8*40, map[string]int64{"a": s.Pass + s.Block, "b": s.Pass + s.Block, "c": rounds * 8 * 40}[s.Resource], s.Resource)
	}
}

// The race: loads that change the threshold alone, against entries that the rule decides at
// that moment. Never is more admitted than the larger threshold, and a refusal tells the very
// threshold that refused.
func TestReload_HammerThresholdsAgainstRefusals(t *testing.T) {
	t.Parallel()
	const rounds, low, high = 60, 20, 50
	g := newGate(t, two("a", high))
	for round := range rounds {
		g.at(time.Duration(round) * time.Second)
		var admitted, loads, finished atomic.Int64
		gatetest.AtOnce(9, func(id int) {
			if id == 8 {
				for finished.Load() < 8 || loads.Load() < 10 {
					threshold := [...]float64{low, high}[loads.Add(1)%2]
					if err := g.LoadFlowRules([]flow.Rule{two("a", threshold)}); err != nil {
						t.Error(err)
					}
				}
				return
			}
			for range 40 {
				e, err := g.Entry("a")
				var b *leapgate.BlockError
				switch {
				case err == nil:
					admitted.Add(1)
					e.Exit()
				case !errors.As(err, &b), b.Threshold != low && b.Threshold != high, b.Observed <= b.Threshold:
					t.Error(err)
				}
			}
			finished.Add(1)
		})
		require.GreaterOrEqual(t, admitted.Load(), int64(low), "round %d", round)
		require.LessOrEqual(t, admitted.Load(), int64(high), "round %d", round)
	}
	for _, threshold := range []float64{low, high} {
		require.NoError(t, g.LoadFlowRules([]flow.Rule{two("a", threshold)}))
		require.Equal(t, int(threshold), g.at(2*rounds*time.Second+time.Duration(threshold)*time.Second).try(t, "a", high+1))
	}
}

// The race: loads against loads. When all are over, every resource is bound by the
// rules of the last one.
func TestReload_HammerLoadsAgainstLoads(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	g := newGate(t)
	for range 30 {
		gatetest.AtOnce(4, func(id int) {
			for turn := range 8 {
				var list []flow.Rule
				for i, name := range names {
					if (turn+i)%4 != id {
						list = append(list, flow.Rule{Resource: name, Threshold: float64(id*10 + turn)})
					}
				}
				if err := g.LoadFlowRules(list); err != nil {
					t.Error(err)
				}
			}
		})
		want := make(map[string][]float64)
		for _, r := range g.FlowRules() {
			want[r.Resource] = append(want[r.Resource], r.Threshold)
		}
		require.Len(t, want, 3)
		for _, name := range names {
			var got []float64
			for _, r := range g.Resource(name).Snapshot().Rules {
				got = append(got, r.Threshold)
			}
			require.Equal(t, want[name], got, name)
		}
	}
}
