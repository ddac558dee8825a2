package leapprom_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

func TestCollect_ExactValues(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 10,
		flow.Rule{ID: "qps", Resource: "a", Threshold: 2, Candidate: 1, Interval: time.Minute},
		flow.Rule{ID: "try", Resource: "a", Threshold: 1.5, Interval: time.Minute, Mode: rule.Shadow},
		flow.Rule{ID: "off", Resource: "b", Threshold: 1, Mode: rule.Off})
	require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{ID: "qps", Resource: "b", MaxInFlight: 2}}
		return nil
	}))
	registry := registryOf(t, g, leapprom.Config{})

	for range 5 {
		_ = g.Do(t.Context(), "a", func(context.Context) error {
			c.Advance(time.Second)
			return errors.New("it broke")
		})
	}
	open, err := g.EntryContext(t.Context(), "b", leapgate.WithCount(2))
	require.NoError(t, err)
	require.False(t, call(g, "b"))
	r := scrape(t, registry)
	require.Equal(t, reading{
		`entries_total{resource="a",result="pass"}`:      2,
		`entries_total{resource="a",result="block"}`:     3,
		`entries_total{resource="b",result="pass"}`:      2,
		`entries_total{resource="b",result="block"}`:     1,
		`entries_total{resource="other",result="pass"}`:  0,
		`entries_total{resource="other",result="block"}`: 0,
		`exceptions_total{resource="a"}`:                 2,
		`exceptions_total{resource="b"}`:                 0,
		`exceptions_total{resource="other"}`:             0,
		`ignored_total{resource="a"}`:                    0,
		`ignored_total{resource="b"}`:                    0,
		`ignored_total{resource="other"}`:                0,
		`occupied_passes_total{resource="a"}`:            0,
		`occupied_passes_total{resource="b"}`:            0,
		`occupied_passes_total{resource="other"}`:        0,
		`entries_in_flight{resource="a"}`:                0,
		`entries_in_flight{resource="b"}`:                2,
		`entries_in_flight{resource="other"}`:            0,
	}, r.only("entries", "exceptions", "ignored", "occupied"))
	require.Equal(t, reading{
		`blocks_total{guard="flow",resource="a",rule="qps"}`:                 3,
		`blocks_total{guard="isolation",resource="b",rule="qps"}`:            1,
		`would_blocks_total{guard="flow",resource="a",rule="try"}`:           1,
		`candidate_would_blocks_total{guard="flow",resource="a",rule="qps"}`: 4,
	}, r.only("blocks", "would", "candidate"))
	require.Equal(t, reading{
		`rule_info{guard="flow",mode="enforce",resource="a",rule="qps"}`:      1,
		`rule_info{guard="flow",mode="shadow",resource="a",rule="try"}`:       1,
		`rule_info{guard="flow",mode="off",resource="b",rule="off"}`:          1,
		`rule_info{guard="isolation",mode="enforce",resource="b",rule="qps"}`: 1,
		`rule_threshold{guard="flow",resource="a",rule="qps"}`:                2,
		`rule_threshold{guard="flow",resource="a",rule="try"}`:                1.5,
		`rule_threshold{guard="flow",resource="b",rule="off"}`:                1,
		`rule_threshold{guard="isolation",resource="b",rule="qps"}`:           2,
		`rule_effective_threshold{guard="flow",resource="a",rule="qps"}`:      2,
		`rule_effective_threshold{guard="flow",resource="a",rule="try"}`:      1.5,
		`rule_effective_threshold{guard="flow",resource="b",rule="off"}`:      1,
		`rule_effective_threshold{guard="isolation",resource="b",rule="qps"}`: 2,
		`rule_interval_seconds{guard="flow",resource="a",rule="qps"}`:         60,
		`rule_interval_seconds{guard="flow",resource="a",rule="try"}`:         60,
		`rule_interval_seconds{guard="flow",resource="b",rule="off"}`:         1,
		`rule_interval_seconds{guard="isolation",resource="b",rule="qps"}`:    0,
		`rule_candidate_threshold{guard="flow",resource="a",rule="qps"}`:      1,
		`rule_used{guard="flow",resource="a",rule="qps"}`:                     2,
		`rule_used{guard="flow",resource="a",rule="try"}`:                     1,
		`rule_used{guard="isolation",resource="b",rule="qps"}`:                2,
		`resources_without_series{}`:                                          0,
		`resources{}`:                                                         3,
		`guard_faults_total{}`:                                                0,
	}, r.only("rule", "resources", "guard"))
	open.SetOutcome(leapgate.Ignored)
	open.Exit()
	require.EqualValues(t, 2, scrape(t, registry).only("ignored")[`ignored_total{resource="b"}`])
	require.Zero(t, scrape(t, registry).sum("entries_in_flight"))
}

// Both forms of the histogram tell the calls that took as long as each edge and a
// nanosecond longer.
func TestCollect_HistogramsAreExact(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 10)
	var doublings []float64
	for k := -11; k <= 4; k++ {
		doublings = append(doublings, math.Exp2(float64(k)))
	}
	registry := registryOf(t, g, leapprom.Config{Buckets: doublings})
	var calls []int64
	for i := -168; i <= 64; i++ {
		edge := int64(math.Exp2(float64(i)/8) * 1e9)
		calls = append(calls, edge, edge+1)
	}
	sum := 0.0
	for _, rt := range calls {
		e, err := g.Entry("a")
		require.NoError(t, err)
		c.Advance(time.Duration(rt))
		e.Exit()
		sum += float64(rt)
	}
	r := scrape(t, registry)
	require.EqualValues(t, len(calls), r[`leapgate_response_time_seconds_count{resource="a"}`])
	require.InEpsilon(t, sum/1e9, r[`leapgate_response_time_seconds_sum{resource="a"}`], 1e-12)
	below := func(edge float64) (n float64) {
		for _, rt := range calls {
			if rt <= int64(edge*1e9) {
				n++
			}
		}
		return n
	}
	for _, edge := range doublings {
		require.Equal(t, below(edge), r[`leapgate_response_time_seconds_bucket{resource="a",le=`+strconv.FormatFloat(edge, 'g', -1, 64)+`}`], "%v", edge)
	}
	require.Len(t, r.only(`response_time_seconds_bucket{resource="a"`), len(doublings))
	native := r.only(`response_time_seconds_native{resource="a"`)
	require.Equal(t, below(math.Exp2(-20)), native[`response_time_seconds_native{resource="a",i=zero}`])
	for i := -159; i <= 54; i++ {
		want := below(math.Exp2(float64(i)/8)) - below(math.Exp2(float64(i-1)/8))
		require.Equal(t, want, native[`response_time_seconds_native{resource="a",i=`+strconv.Itoa(i)+`}`], "%d", i)
	}
	require.Equal(t, float64(len(calls))-below(math.Exp2(54./8)), native[`response_time_seconds_native{resource="a",i=55}`])
	require.Len(t, native, 1+159+54+1+1)
}

// The classic buckets are those of which objectives are made. Each tells the calls up to an edge that
// is at most 4.4 % off.
func TestCollect_ClassicBuckets(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 10)
	const step = 1.01
	for took := 1e-5; took < 50; took *= step {
		e, err := g.Entry("a")
		require.NoError(t, err)
		c.Advance(time.Duration(took * 1e9))
		e.Exit()
	}
	r := scrape(t, registryOf(t, g, leapprom.Config{}))
	edges := []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.3, 0.5, 1, 2.5, 5, 10}
	for _, edge := range edges {
		got := r[`leapgate_response_time_seconds_bucket{resource="a",le=`+strconv.FormatFloat(edge, 'g', -1, 64)+`}`]
		below := math.Log(edge/1e-5) / math.Log(step)
		require.InDelta(t, below, got, 6, "%v", edge) // 4.4 % are so many steps
	}
	require.Len(t, r.only(`response_time_seconds_bucket{resource="a"`), len(edges))
}

func TestNew_BucketsThatCannotBe(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{})
	for _, test := range []struct {
		buckets []float64
		want    string
	}{
		{[]float64{}, "there are 0 Buckets; want 1 to 64, or nil"},
		{make([]float64, 65), "there are 65 Buckets"},
		{[]float64{math.NaN()}, "Buckets[0] is NaN; want 1e-06 to 100, in seconds"},
		{[]float64{0.1, 250}, "Buckets[1] is 250"},
		{[]float64{0.5, 0.1}, "Buckets[1] is 0.1; want at least 1.1 times the one before, which is 0.5"},
		{[]float64{0.1, 0.101}, "Buckets[1] is 0.101"},
	} {
		_, err := leapprom.New(g, leapprom.Config{Buckets: test.buckets})
		require.ErrorContains(t, err, test.want)
	}
	_, err := leapprom.New(g, leapprom.Config{NativeOnly: true, Buckets: []float64{1}})
	require.ErrorContains(t, err, "NativeOnly is set and there are 1 Buckets")
	for _, good := range [][]float64{{1e-6}, {100}, {0.1, 0.11}} {
		_, err := leapprom.New(g, leapprom.Config{Buckets: good})
		require.NoError(t, err)
	}
}

// Few cells far from each other: the spans must say where they are.
func TestCollect_SparseHistograms(t *testing.T) {
	t.Parallel()
	for _, cells := range [][]int{{}, {-160}, {-159}, {0}, {54}, {55}, {-160, 55}, {-3, -2, 0}, {-9, -5, -1, 0, 40}, {-9, -4, 1}} {
		c := gatetest.NewClock()
		g := gates.Small(t, c, 10)
		want := make(reading)
		for k, i := range cells {
			for range k + 1 {
				e, err := g.Entry("a")
				require.NoError(t, err)
				c.Advance(time.Duration(math.Exp2(float64(i)/8) * 1e9))
				e.Exit()
			}
			name := strconv.Itoa(i)
			if i == -160 {
				name = "zero"
			}
			want[`response_time_seconds_native{resource="a",i=`+name+`}`] = float64(k + 1)
		}
		want[`response_time_seconds_native{resource="a",i=zero}`] += 0
		if len(cells) > 0 {
			r := scrape(t, registryOf(t, g, leapprom.Config{NativeOnly: true}))
			require.Equal(t, want, r.only(`response_time_seconds_native{resource="a"`), "%v", cells)
			require.Empty(t, r.only("response_time_seconds_bucket"))
		}
	}
}

// A sum of response times has room for 584 years: a thousand calls that stay in flight make
// 292 of them, of which an int64 has room for, in a hundred days.
func TestCollect_LargeSums(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	g := gates.Small(t, c, 10)
	registry := registryOf(t, g, leapprom.Config{})
	const year = 365 * 24 * time.Hour
	for i := range 5 {
		e, err := g.EntryContext(t.Context(), "a", leapgate.WithCount(100))
		require.NoError(t, err)
		c.Advance(year)
		e.Exit()
		want := float64(i+1) * 100 * year.Seconds()
		require.InEpsilon(t, want, scrape(t, registry)[`leapgate_response_time_seconds_sum{resource="a"}`], 1e-12)
	}
}

// When a series began does not change, although it is told by the wall clock.
func TestCollect_CreatedStaysTheSame(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{})
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	created := func() (all []string) {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "leapgate_entries_total" {
				for _, m := range f.GetMetric() {
					all = append(all, m.GetCounter().GetCreatedTimestamp().AsTime().String())
				}
			}
		}
		require.Len(t, all, 4)
		return all
	}
	before := created()
	for range 20 {
		require.Equal(t, before, created())
	}
}

type sharing struct{ limit.RateLimiter }

func (*sharing) Describe() []limit.Description {
	return []limit.Description{{Name: "shared", Limit: 3, Window: time.Minute}}
}
func (*sharing) Stats() limit.Stats { return limit.Stats{Degraded: 5, Away: true} }

func TestCollect_Limiters(t *testing.T) {
	t.Parallel()
	log, err := limit.NewLog(limit.Config{Name: "per-tenant", Limit: 9, Window: time.Hour, MaxKeys: 2, WhenFull: limit.Evict})
	require.NoError(t, err)
	registry := registryOf(t, gates.Small(t, gatetest.NewClock(), 10), leapprom.Config{Limiters: []leapprom.Limiter{log, &sharing{}}})
	for i, key := range []string{"a", "a", "b", "c"} {
		_, err := log.AllowN(t.Context(), key, int64(5+i%2*5))
		require.NoError(t, err)
	}
	require.Equal(t, reading{
		`limiter_decisions_total{answer="allowed",limiter="per-tenant"}`: 2,
		`limiter_decisions_total{answer="refused",limiter="per-tenant"}`: 2,
		`limiter_would_refuse_total{limiter="per-tenant"}`:               0,
		`limiter_degraded_decisions_total{limiter="per-tenant"}`:         0,
		`limiter_away{limiter="per-tenant"}`:                             0,
		`limiter_keys{limiter="per-tenant"}`:                             2,
		`limiter_max_keys{limiter="per-tenant"}`:                         2,
		`limiter_expired_keys_total{limiter="per-tenant"}`:               0,
		`limiter_evicted_keys_total{limiter="per-tenant"}`:               0,
		`limiter_crowded_calls_total{limiter="per-tenant"}`:              0,
		`limiter_coarse_admissions_total{limiter="per-tenant"}`:          0,
		`limiter_in_flight{limiter="per-tenant"}`:                        0,
		`limiter_log_bytes{limiter="per-tenant"}`:                        float64(log.Stats().Bytes),
		`limiter_limit{limiter="per-tenant"}`:                            9,
		`limiter_window_seconds{limiter="per-tenant"}`:                   3600,
		`limiter_decisions_total{answer="allowed",limiter="shared"}`:     0,
		`limiter_decisions_total{answer="refused",limiter="shared"}`:     0,
		`limiter_would_refuse_total{limiter="shared"}`:                   0,
		`limiter_degraded_decisions_total{limiter="shared"}`:             5,
		`limiter_away{limiter="shared"}`:                                 1,
		`limiter_keys{limiter="shared"}`:                                 0,
		`limiter_max_keys{limiter="shared"}`:                             0,
		`limiter_expired_keys_total{limiter="shared"}`:                   0,
		`limiter_evicted_keys_total{limiter="shared"}`:                   0,
		`limiter_crowded_calls_total{limiter="shared"}`:                  0,
		`limiter_coarse_admissions_total{limiter="shared"}`:              0,
		`limiter_in_flight{limiter="shared"}`:                            0,
		`limiter_log_bytes{limiter="shared"}`:                            0,
		`limiter_limit{limiter="shared"}`:                                3,
		`limiter_window_seconds{limiter="shared"}`:                       60,
	}, scrape(t, registry).only("limiter"))
	_, err = log.Allow(t.Context(), "d")
	require.NoError(t, err)
	require.EqualValues(t, 1, scrape(t, registry).sum("limiter_evicted_keys_total"))
}

// Limits that change, shadow mode and calls in flight are scraped as they are.
func TestCollect_LimitersAsTheyAreNow(t *testing.T) {
	t.Parallel()
	counter, err := limit.NewCounter(limit.Config{Name: "c", Limit: 2, MaxLimit: 9, Window: time.Hour, Mode: rule.Shadow})
	require.NoError(t, err)
	places, err := limit.NewInFlight(limit.Config{Name: "p", Limit: 3})
	require.NoError(t, err)
	registry := registryOf(t, gates.Small(t, gatetest.NewClock(), 10), leapprom.Config{Limiters: []leapprom.Limiter{counter, places}})
	for range 5 {
		_, err := counter.Allow(t.Context(), "a")
		require.NoError(t, err)
		_, _, err = places.Acquire(t.Context(), "a")
		require.NoError(t, err)
	}
	require.NoError(t, counter.SetLimit(7))
	got := scrape(t, registry).only("limiter")
	for series, want := range map[string]float64{
		`limiter_decisions_total{answer="allowed",limiter="c"}`: 5,
		`limiter_would_refuse_total{limiter="c"}`:               3,
		`limiter_limit{limiter="c"}`:                            7,
		`limiter_decisions_total{answer="refused",limiter="p"}`: 2,
		`limiter_in_flight{limiter="p"}`:                        3,
		`limiter_window_seconds{limiter="p"}`:                   0,
	} {
		require.Equal(t, want, got[series], series)
	}
}

func TestCollect_Lint(t *testing.T) {
	t.Parallel()
	l, err := limit.NewCounter(limit.Config{Name: "l", Limit: 9})
	require.NoError(t, err)
	g := gates.Small(t, gatetest.NewClock(), 10, flow.Rule{Resource: "a", Threshold: 0, Candidate: 1}, flow.Rule{Resource: "a", Threshold: 1, Mode: rule.Shadow})
	call(g, "a")
	problems, err := testutil.CollectAndLint(leapprom.Must(g, leapprom.Config{Limiters: []leapprom.Limiter{l}}))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestNew_TellsEveryFault(t *testing.T) {
	t.Parallel()
	named, err := limit.NewCounter(limit.Config{Name: "x", Limit: 9})
	require.NoError(t, err)
	unnamed, err := limit.NewCounter(limit.Config{Limit: 9})
	require.NoError(t, err)
	_, err = leapprom.New(nil, leapprom.Config{
		Gate: string(make([]byte, 300)), MaxResources: 1_000_001,
		Limiters: []leapprom.Limiter{named, unnamed, nil, named, statsOf{limit.All(named, unnamed)}},
	})
	require.ErrorIs(t, err, leapprom.ErrConfig)
	for _, want := range []string{
		"the gate is nil", "Gate is", "(300 bytes)", "MaxResources is 1000001", "Limiters[1] has no name",
		"Limiters[2] is nil", `Limiters[3] has the name "x", as Limiters[0]`, "Limiters[4] describes 2 limits",
	} {
		require.ErrorContains(t, err, want)
	}
	require.Panics(t, func() { leapprom.Must(nil, leapprom.Config{}) })
}

type statsOf struct{ *limit.Group }

func (statsOf) Stats() limit.Stats { return limit.Stats{} }

func TestRegister_GatesAndRegistries(t *testing.T) {
	t.Parallel()
	g, h := gates.Small(t, gatetest.NewClock(), 10), gates.Small(t, gatetest.NewClock(), 10)
	one := leapprom.Must(g, leapprom.Config{})
	registry, second := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(one))
	var already prometheus.AlreadyRegisteredError
	require.ErrorAs(t, registry.Register(leapprom.Must(h, leapprom.Config{})), &already, "two gates of one name")
	require.NoError(t, registry.Register(leapprom.Must(h, leapprom.Config{Gate: "h"})))
	require.NoError(t, second.Register(one), "a collector in two registries")
	require.NoError(t, second.Register(leapprom.Must(g, leapprom.Config{Gate: "again"})))
	call(g, "a")
	call(h, "b")

	families, err := registry.Gather()
	require.NoError(t, err)
	gates := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "gate" {
					gates[l.GetValue()]++
				}
			}
		}
	}
	require.Equal(t, gates["default"], gates["h"])
	require.Len(t, gates, 2)
	for range 2 {
		n, err := testutil.GatherAndCount(second, "leapgate_entries_total")
		require.NoError(t, err)
		require.Equal(t, 8, n)
	}
	require.True(t, registry.Unregister(one))
	require.False(t, registry.Unregister(one))
	n, err := testutil.GatherAndCount(registry, "leapgate_entries_total")
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.NoError(t, registry.Register(one))
}

func TestCollect_ClosedGate(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	require.NoError(t, g.Close())
	call(g, "a")
	require.EqualValues(t, 1, scrape(t, registry).sum("entries_total"))
}

func TestCollect_FromManyGoroutines(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	var scrapes sync.WaitGroup
	for range 8 {
		scrapes.Go(func() {
			for range 20 {
				_, _ = registry.Gather()
			}
		})
	}
	scrapes.Wait()
	require.EqualValues(t, 1, scrape(t, registry).sum("entries_total"))
}
