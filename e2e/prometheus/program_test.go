//go:build e2e

package prometheus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
	"github.com/leapgate-go/leapgate/system"
)

// tally is what the load generator has counted itself, by what it was told.
type tally struct {
	passed, blocked, failed, completed float64
	panics                             float64            // as the gate counts them
	byResource                         map[string]float64 // passes and blocks
	byRule                             map[string]float64 // blocks
	answers                            map[string]float64 // of limiters, by name and answer
	changes                            map[string]float64 // of breakers, by rule, as OnChange is told
}

// program is a program that exports its gate and its limiters, and calls itself.
type program struct {
	gate     *leapgate.Gate
	ahead    atomic.Int64   // of the real time
	second   *leapgate.Gate // with breakers, in real time
	limiters map[string]limit.Limiter
	server   *httptest.Server
	page     *httptest.Server // the dashboard of the gate

	mu    sync.Mutex // guards tally
	tally tally
}

func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{tally: tally{
		byResource: map[string]float64{}, byRule: map[string]float64{}, answers: map[string]float64{}, changes: map[string]float64{},
	}}
	begin := time.Now()
	var signals load.Given
	signals.Set(load.Signals{
		CPU: load.Known(0.97), Throttled: load.Known(0.5), Pressure: load.Known(0.25), SchedLatency: load.Known(0.004),
		Processors: 0.5,
	})
	p.gate = leapgate.Must(leapgate.Config{
		Now:          func() int64 { return begin.UnixNano() + int64(time.Since(begin)) + p.ahead.Load() },
		MaxResources: 12,
		Logger:       slog.New(slog.DiscardHandler),
		Guards:       []resource.Guard{panicky{}},
		Load:         &signals,
	})
	require.NoError(t, p.gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 50, Candidate: 20, MaxWait: 200 * time.Millisecond},
		{ID: "orders-day", Resource: "GET /orders", Threshold: 1e6, Interval: 24 * time.Hour},
		{ID: "search-try", Resource: "GET /search", Threshold: 10, Mode: rule.Shadow},
		{ID: "tenants", Resource: "tenant *", Match: rule.Glob, Threshold: 3},
		{ID: `<b>"quoted"</b>` + "\n\xff", Resource: "hostile " + strings.Repeat("\xff\"\n", 300), Threshold: 1},
	}))
	require.NoError(t, p.gate.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{
			{ID: "db", Resource: "db.query", MaxInFlight: 2},
			{ID: "batches", Resource: "batch", Strategy: isolation.Adaptive, MaxInFlight: 50},
		}
		all.System = []system.Rule{{ID: "inbound", Resource: "batch", MaxCPU: 0.9, MaxInFlight: 1}}
		return nil
	}))

	counter, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 5, MaxKeys: 20})
	require.NoError(t, err)
	log, err := limit.NewLog(limit.Config{Name: "per-tenant", Limit: 40, Window: time.Minute, MaxKeys: 5, WhenFull: limit.Deny, MaxBytes: 1})
	require.NoError(t, err)
	p.limiters = map[string]limit.Limiter{"per-client": counter, "per-tenant": log}
	registry := client.NewPedanticRegistry()
	registry.MustRegister(leapprom.Must(p.gate, leapprom.Config{
		MaxResources: 10, Limiters: []leapprom.Limiter{counter, log, &away{}},
		RuleSources: []leapprom.RuleSource{refusedFile{}},
	}))
	p.second = p.newBreakers(t)
	registry.MustRegister(leapprom.Must(p.second, leapprom.Config{Gate: "second"}))
	p.server = httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorHandling: promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: 3, // on a busy machine, scrapes that Prometheus has given up must not pile up
	}))
	t.Cleanup(p.server.Close)
	page, err := dashboard.New(p.gate, dashboard.Config{KeepHistory: true})
	require.NoError(t, err)
	p.page = httptest.NewServer(page)
	t.Cleanup(func() {
		p.page.Close()
		require.NoError(t, page.Close())
	})
	return p
}

// panicky is a guard that panics.
type panicky struct{ resource.Guard }

func (panicky) Kind() string { return "panicky" }
func (panicky) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "plugin" {
		return nil, false
	}
	return []resource.Check{panics{}}, false
}

type panics struct{ resource.Check }

func (panics) Cause() *resource.Cause           { return &resource.Cause{Kind: "panicky", RuleID: "p"} }
func (panics) Mode() rule.Mode                  { return rule.Enforce }
func (panics) Stage() resource.Stage            { return resource.Counting }
func (panics) Interval() time.Duration          { return 0 }
func (panics) Snapshot(int64) stat.RuleSnapshot { return stat.RuleSnapshot{ID: "p", Kind: "panicky"} }

// away is a limiter whose store cannot be reached.
type away struct{ degraded atomic.Int64 }

func (*away) Describe() []limit.Description {
	return []limit.Description{{Name: "shared", Limit: 1, Window: time.Second}}
}

func (a *away) Stats() limit.Stats { return limit.Stats{Degraded: a.degraded.Add(3), Away: true} }

// refusedFile is a rule file that was good once.
type refusedFile struct{}

func (refusedFile) Source() string { return "/etc/\"shop\"\n\xff.yaml" }

func (refusedFile) LastLoad() (time.Time, error) { return time.Unix(1_800_000_000, 0), errPretended }

var errPretended = errors.New("pretended")

// run calls from several goroutines for so long, with every so often a minute in which
// nothing happens, so that resources are evicted.
func (p *program) run(t *testing.T, length time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var workers sync.WaitGroup
	for id := range 4 {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(id)))
			tick := time.NewTicker(3 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					p.call(random)
					p.ask(random)
				}
			}
		})
	}
	for id := range 2 { // so that a system rule knows how many it can take, and blocks some
		workers.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(id)))
			tick := time.NewTicker(3 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					c := leapgate.Critical
					if random.IntN(2) == 0 {
						c = leapgate.Background
					}
					p.enter(random, "batch", 1, leapgate.WithCriticality(c))
				}
			}
		})
	}
	workers.Go(func() { p.breakOften(ctx, t) })
	tick := time.NewTicker(1500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			workers.Wait()
			p.tally.panics = float64(p.gate.GuardFaults())
			return
		case <-tick.C:
			p.ahead.Add(int64(62 * time.Second))
		}
	}
}

// call makes one call of any resource.
func (p *program) call(random *rand.Rand) {
	names := []string{
		"GET /orders", "GET /orders", "GET /search", "db.query", "plugin", "free",
		fmt.Sprintf("tenant %d", random.IntN(40)), fmt.Sprintf("path/%d", random.IntN(1000)),
		"hostile " + strings.Repeat("\xff\"\n", 300),
	}
	name := names[random.IntN(len(names))]
	n := 1 + random.Int64N(2)
	options := []leapgate.EntryOption{leapgate.WithCount(n)}
	if name == "GET /orders" && random.IntN(4) == 0 {
		options = append(options, leapgate.WithPriority())
	}
	p.enter(random, name, n, options...)
}

// enter makes a call that counts n, and counts it.
func (p *program) enter(random *rand.Rand, name string, n int64, options ...leapgate.EntryOption) {
	e, err := p.gate.EntryContext(context.Background(), name, options...)
	var refused *leapgate.BlockError
	if errors.As(err, &refused) {
		p.count(func(t *tally) {
			t.blocked += float64(n)
			t.byResource[name+" block"] += float64(n)
			t.byRule[refused.RuleID] += float64(n)
		})
		return
	}
	<-time.After(time.Duration(random.Int64N(int64(4 * time.Millisecond)))) //nolint:forbidigo // it pretends to work
	fails := random.IntN(10) == 0
	if fails {
		e.SetError(errPretended)
	}
	e.Exit()
	p.count(func(t *tally) {
		t.passed += float64(n)
		t.completed += float64(n)
		t.byResource[name+" pass"] += float64(n)
		if fails {
			t.failed += float64(n)
		}
	})
}

// ask asks the limiters, and counts their answers.
func (p *program) ask(random *rand.Rand) {
	for name, l := range p.limiters {
		d, err := l.AllowN(context.Background(), fmt.Sprintf("key %d", random.IntN(60)), 1)
		if err != nil {
			panic(err)
		}
		answer := "refused"
		if d.Allowed {
			answer = "allowed"
		}
		p.count(func(t *tally) { t.answers[name+" "+answer]++ })
	}
}

func (p *program) count(f func(*tally)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.tally)
}

// text returns what the program exports.
func (p *program) text(t *testing.T, accept string) string {
	t.Helper()
	return get(t, p.server.URL, http.Header{"Accept": {accept}})
}
