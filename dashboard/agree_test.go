package dashboard_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/rule"
)

// tally is how many calls there were: "orders pass", or "blocked orders-qps" by a rule.
type tally map[string]float64

// generate makes calls for two minutes, and counts them by what it is told.
func generate(t *testing.T, g *leapgate.Gate, seed uint64, count func(what string, n int64)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		time.Sleep(time.Duration(rng.ExpFloat64() * 1e8))
		name, n := []string{"orders", "search", "db"}[rng.IntN(3)], 1+rng.Int64N(2)
		e, err := g.EntryContext(t.Context(), name, leapgate.WithCount(n))
		var refused *leapgate.BlockError
		if errors.As(err, &refused) {
			count(name+" block", n)
			count("blocked "+refused.RuleID, n)
			continue
		}
		time.Sleep(time.Duration(rng.ExpFloat64() * 1e8))
		if rng.IntN(5) == 0 {
			e.SetError(errAway)
			count(name+" exception", n)
		}
		e.Exit()
		count(name+" pass", n)
	}
}

// The page's figures, its history and the metrics are what the generator of the calls has counted.
func TestFigures_AreThoseOfTheMetricsAndTheGenerator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadRules(leapgate.Rules{
			Flow: []flow.Rule{
				{ID: "orders-qps", Resource: "orders", Threshold: 20},
				{ID: "search-try", Resource: "search", Threshold: 5, Mode: rule.Shadow},
			},
			Isolation: []isolation.Rule{{ID: "places", Resource: "db", MaxInFlight: 3}},
		}))
		d := keeping(t, g, 0)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(leapprom.Must(g, leapprom.Config{}))
		client, _ := serve(t, d)
		w := watch(t, client)

		generated := tally{}
		var mu sync.Mutex
		var generators sync.WaitGroup
		for seed := range uint64(8) {
			generators.Go(func() {
				generate(t, g, seed, func(what string, n int64) {
					mu.Lock()
					defer mu.Unlock()
					generated[what] += float64(n)
				})
			})
		}
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for range 140 {
				w.next()
			}
		}()
		generators.Wait()
		<-watched // the last step is done, too
		for _, what := range []string{"orders pass", "orders block", "search pass", "db pass", "db block", "db exception", "blocked orders-qps", "blocked places"} {
			require.NotZero(t, generated[what], what)
		}
		require.Equal(t, generated, framed(w))
		require.Equal(t, generated, listed(t, d))
		require.Equal(t, generated, kept(t, d))
		require.Equal(t, generated, scraped(t, registry))
		w.cancel()
	})
}

// set notes what is not nothing.
func (c tally) set(what string, n float64) {
	if n != 0 {
		c[what] += n
	}
}

// framed is what a viewer knows.
func framed(w *watching) tally {
	c := tally{}
	for name, figures := range w.figures {
		for _, what := range []string{"pass", "block", "exception"} {
			c.set(name+" "+what, figures[what])
		}
	}
	for key, figures := range w.sums {
		_, id, _ := strings.Cut(key, " ")
		c.set("blocked "+id, figures["blocked"])
	}
	return c
}

// listed is what the resources and their rules say when they are asked.
func listed(t *testing.T, d *dashboard.Dashboard) tally {
	t.Helper()
	c := tally{}
	for _, name := range []string{"orders", "search", "db"} {
		var v struct {
			Pass, Block, Exception float64
			Rules                  []struct {
				ID      string
				Figures struct{ Blocked float64 }
			}
		}
		require.NoError(t, json.Unmarshal(fetch(d, http.MethodGet, "/api/v1/resource?name="+name).Body.Bytes(), &v))
		c.set(name+" pass", v.Pass)
		c.set(name+" block", v.Block)
		c.set(name+" exception", v.Exception)
		for _, r := range v.Rules {
			c.set("blocked "+r.ID, r.Figures.Blocked)
		}
	}
	return c
}

// kept is what the history has.
func kept(t *testing.T, d *dashboard.Dashboard) tally {
	t.Helper()
	c := tally{}
	for _, name := range []string{"orders", "search", "db"} {
		v := pastOf(t, d, "name="+name)
		for _, what := range []string{"pass", "block", "exception"} {
			c.set(name+" "+what, v.Resource.sum(t, what))
		}
		for _, r := range v.Rules {
			c.set("blocked "+r.ID, r.sum(t, "blocked"))
		}
		require.InDelta(t, c[name+" pass"]+c[name+" block"], pastOf(t, d, "span=demand&name="+name).Resource.sum(t, "demand"), 0)
	}
	return c
}

// scraped is what Prometheus reads.
func scraped(t *testing.T, registry *prometheus.Registry) tally {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	c := tally{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			switch n := m.GetCounter().GetValue(); f.GetName() {
			case "leapgate_entries_total":
				c.set(labels["resource"]+" "+labels["result"], n)
			case "leapgate_exceptions_total":
				c.set(labels["resource"]+" exception", n)
			case "leapgate_blocks_total":
				c.set("blocked "+labels["rule"], n)
			}
		}
	}
	return c
}
