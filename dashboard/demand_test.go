package dashboard_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

type demandView struct {
	Resource, Rule string
	Threshold      float64
	Untold         string
	Seconds        int
	Blocked        *struct {
		Now, Then, Low, High, Others int64
		Wide                         string
	}
}

func askDemand(d http.Handler, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/demand?"+query, nil))
	return w
}

func demandOf(t *testing.T, d http.Handler, query string) (v demandView) {
	t.Helper()
	w := askDemand(d, query)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}

// drive makes calls at random, so many a second on average.
func drive(g *leapgate.Gate, rng *rand.Rand, rate float64, length time.Duration) {
	for end := time.Now().Add(length); ; {
		time.Sleep(time.Duration(rng.ExpFloat64() / rate * float64(time.Second)))
		if !time.Now().Before(end) {
			return
		}
		if e, err := g.Entry("a"); err == nil {
			e.Exit()
		}
	}
}

// What is told for another threshold is what a gate with that threshold refuses of the same calls.
func TestDemand_IsWhatAnotherThresholdRefuses(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, threshold float64, look func(t *testing.T, d *dashboard.Dashboard)) (blocked int64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			g := leapgate.Must(leapgate.Config{})
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a-qps", Resource: "a", Threshold: threshold}}))
			d := keeping(t, g, 0)
			drive(g, rand.New(rand.NewPCG(1, 1)), 10, time.Hour)
			blocked = gates.Snapshot(t, g, "a").Block
			time.Sleep(10 * time.Second) // the last step is done
			look(t, d)
		})
		return blocked
	}
	want := refused(t, 14, func(*testing.T, *dashboard.Dashboard) {})
	var v demandView
	now := refused(t, 12, func(t *testing.T, d *dashboard.Dashboard) {
		t.Helper()
		v = demandOf(t, d, "resource=a&rule=a-qps&threshold=14")
	})
	require.Equal(t, "a", v.Resource)
	require.Equal(t, "a-qps", v.Rule)
	require.InDelta(t, 14, v.Threshold, 0)
	require.InDelta(t, 3600, v.Seconds, 15)
	require.InEpsilon(t, now, v.Blocked.Now, 0.01)
	require.Greater(t, now, want)
	require.LessOrEqual(t, v.Blocked.Low, want)
	require.GreaterOrEqual(t, v.Blocked.High, want)
}

// What other rules refuse takes no room in the window of this one.
func TestDemand_BesideAnotherRule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{
			{ID: "one", Resource: "a", Threshold: 100, Interval: 10 * time.Second},
			{ID: "two", Resource: "a", Threshold: 100, Interval: 10 * time.Second},
		}))
		d := keeping(t, g, 0)
		drive(g, rand.New(rand.NewPCG(1, 1)), 15, time.Hour)
		time.Sleep(10 * time.Second)
		one := demandOf(t, d, "resource=a&rule=one&threshold=100").Blocked
		require.Greater(t, one.Now, int64(10_000))
		require.InEpsilon(t, one.Now, one.Then, 0.03)
		require.Zero(t, one.Others)
		two := demandOf(t, d, "resource=a&rule=two&threshold=100").Blocked
		require.Zero(t, two.Now)
		require.Equal(t, one.Now, two.Others)
		require.Less(t, two.Then, one.Then/10)
	})
}

func TestDemand_OfWhatItCannotTell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		rule := func(id string, change func(*flow.Rule)) flow.Rule {
			r := flow.Rule{ID: id, Resource: "a", Threshold: 100}
			change(&r)
			return r
		}
		require.NoError(t, g.LoadFlowRules([]flow.Rule{
			rule("pace", func(r *flow.Rule) { r.Behavior = flow.Pace }),
			rule("warm", func(r *flow.Rule) { r.Strategy, r.WarmUpPeriod = flow.WarmUp, time.Minute }),
			rule("memory", func(r *flow.Rule) { r.Strategy, r.LowMemory, r.HighMemory = flow.MemoryAdaptive, 1, 2 }),
			rule("associated", func(r *flow.Rule) { r.Associated = "b" }),
			rule("origin", func(r *flow.Rule) { r.Origin = "app" }),
			rule("short", func(r *flow.Rule) { r.Interval = 100 * time.Millisecond }),
			rule("long", func(r *flow.Rule) { r.Interval = 24 * time.Hour }),
			rule("minute", func(r *flow.Rule) { r.Interval = time.Minute }),
			rule("plain", func(*flow.Rule) {}),
		}))
		d := keeping(t, g, 0)
		drive(g, rand.New(rand.NewPCG(1, 1)), 10, time.Minute)
		for rule, why := range map[string]string{
			"pace":       "calls wait for their turns",
			"warm":       "warms up",
			"memory":     "memory in use",
			"associated": "another resource",
			"origin":     "one origin",
			"short":      "shorter than 1 s",
			"long":       "half of the hour",
			"minute":     "not been watched for longer than its interval, which is 1m0s",
		} {
			v := demandOf(t, d, "resource=a&threshold=1&rule="+rule)
			require.Contains(t, v.Untold, why, rule)
			require.Nil(t, v.Blocked)
		}
		require.Empty(t, demandOf(t, d, "resource=a&rule=plain&threshold=1").Untold)
	})
}

func TestDemand_WithPriority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a-qps", Resource: "a", Threshold: 5, MaxWait: time.Second}}))
		d := keeping(t, g, 0)
		for range 6 {
			e, err := g.EntryContext(t.Context(), "a", leapgate.WithPriority())
			require.NoError(t, err)
			e.Exit()
		}
		time.Sleep(10 * time.Second)
		require.Contains(t, demandOf(t, d, "resource=a&rule=a-qps&threshold=1").Untold, "priority")
	})
}

func TestDemand_OfNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a-qps", Resource: "a", Threshold: 5}}))
		d := keeping(t, g, 0)
		gates.Enter(t, g, "b")
		for query, want := range map[string]string{
			"resource=a&rule=a-qps&threshold=1": "no history of a resource",
			"resource=b&rule=a-qps&threshold=1": `flow rule \"a-qps\" does not bind \"b\"`,
			"resource=a&rule=none&threshold=1":  `there is no flow rule \"none\"`,
		} {
			w := askDemand(d, query)
			require.Equal(t, http.StatusNotFound, w.Code)
			require.Contains(t, w.Body.String(), want)
		}
		for _, threshold := range []string{"", "-1", "NaN", "Inf", "1e999", "x", "1_0", "0x10", "0X1p4"} {
			w := askDemand(d, "resource=a&rule=a-qps&threshold="+threshold)
			require.Equal(t, http.StatusBadRequest, w.Code, threshold)
			require.Contains(t, w.Body.String(), "want a finite number of at least 0")
		}
		w := askDemand(d, "")
		require.Contains(t, w.Body.String(), "resource is missing")
		require.Contains(t, w.Body.String(), "rule is missing")
		require.Contains(t, w.Body.String(), "threshold is missing")
	})
	w := askDemand(dashboard.Handler(leapgate.Must(leapgate.Config{}), dashboard.Config{}), "resource=a&rule=b&threshold=1")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "KeepHistory")
}

// What is told holds, whatever other rules refuse of the same resource, and whichever is asked first.
func TestDemand_HoldsBesideARuleThatIsAskedBefore(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Second, 1500 * time.Millisecond, 7 * time.Second, 10 * time.Second} {
		for _, share := range []float64{0.6, 1, 1.3} {
			t.Run(fmt.Sprint(interval, share), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					per := 8 * interval.Seconds()
					rules := func(threshold float64) []flow.Rule {
						return []flow.Rule{
							{ID: "first", Resource: "a", Threshold: 6},
							{ID: "a", Resource: "a", Threshold: threshold, Interval: interval},
						}
					}
					g, truth := leapgate.Must(leapgate.Config{}), leapgate.Must(leapgate.Config{})
					require.NoError(t, g.LoadFlowRules(rules(per)))
					require.NoError(t, truth.LoadFlowRules(rules(per*share)))
					d := keeping(t, g, 0)
					rng := rand.New(rand.NewPCG(1, 9))
					for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); {
						time.Sleep(time.Duration(rng.ExpFloat64() / 8 * float64(time.Second)))
						callTimes(g, "a", 1)
						callTimes(truth, "a", 1)
					}
					time.Sleep(10 * time.Second)
					v := demandOf(t, d, fmt.Sprintf("resource=a&rule=a&threshold=%v", per*share)).Blocked
					want := gates.Snapshot(t, truth, "a").Rules[1].Blocked
					require.LessOrEqual(t, v.Low, want)
					require.GreaterOrEqual(t, v.High, want)
					if v.High-v.Low > v.Then/5 && v.Then > 100 {
						require.Contains(t, v.Wide, "other rules")
					}
				})
			})
		}
	}
}

// With the threshold that it has, the rule would have refused what it has refused.
func TestDemand_OfTheThresholdThatItHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		load := func(threshold float64) {
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a", Resource: "a", Threshold: threshold}}))
		}
		load(12)
		d := keeping(t, g, 0)
		rng := rand.New(rand.NewPCG(1, 1))
		drive(g, rng, 10, 10*time.Minute)
		time.Sleep(10 * time.Second)
		same := demandOf(t, d, "resource=a&rule=a&threshold=12").Blocked
		require.NotZero(t, same.Now)
		require.Equal(t, []int64{same.Now, same.Now, same.Now}, []int64{same.Low, same.Then, same.High})
		higher := demandOf(t, d, "resource=a&rule=a&threshold=12.5").Blocked
		require.LessOrEqual(t, higher.High, same.Now)
		lower := demandOf(t, d, "resource=a&rule=a&threshold=11").Blocked
		require.GreaterOrEqual(t, lower.Low, same.Now)

		load(100)
		drive(g, rng, 10, 10*time.Minute)
		time.Sleep(10 * time.Second)
		changed := demandOf(t, d, "resource=a&rule=a&threshold=100").Blocked
		require.NotZero(t, changed.Now)
		require.Zero(t, changed.Then, "the threshold was another one before")
	})
}

// Those that ask for estimates take one processor, and not many wait.
func TestDemand_AskedForByMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a", Resource: "a", Threshold: 5}}))
		d := keeping(t, g, 0)
		drive(g, rand.New(rand.NewPCG(1, 1)), 10, time.Minute)
		release := dashboard.HoldEstimates(d)
		codes := make(chan int, 20)
		for range 20 {
			go func() { codes <- askDemand(d, "resource=a&rule=a&threshold=7").Code }()
		}
		synctest.Wait()
		require.Len(t, codes, 12)
		release()
		synctest.Wait()
		counts := map[int]int{}
		for range 20 {
			counts[<-codes]++
		}
		require.Equal(t, map[int]int{http.StatusOK: 8, http.StatusServiceUnavailable: 12}, counts)
	})
}
