package leapprom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/limit"
)

func Example() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadFlowRules([]flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 3, Interval: time.Hour}})
	if err != nil {
		fmt.Println(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(leapprom.Must(gate, leapprom.Config{}))

	for range 5 {
		_ = gate.Do(context.Background(), "GET /orders", func(context.Context) error { return nil })
	}
	text, err := testutil.GatherAndFormat(registry, expfmt.TypeTextPlain,
		"leapgate_entries_total", "leapgate_blocks_total", "leapgate_rule_threshold")
	fmt.Printf("%s%v", text, err)
	// Output:
	// # HELP leapgate_blocks_total Calls that a rule has blocked.
	// # TYPE leapgate_blocks_total counter
	// leapgate_blocks_total{gate="default",guard="flow",resource="GET /orders",rule="orders-qps"} 2
	// # HELP leapgate_entries_total Calls into a resource, by what became of them: pass or block. A call with a count of n counts n times.
	// # TYPE leapgate_entries_total counter
	// leapgate_entries_total{gate="default",resource="GET /orders",result="block"} 2
	// leapgate_entries_total{gate="default",resource="GET /orders",result="pass"} 3
	// leapgate_entries_total{gate="default",resource="other",result="block"} 0
	// leapgate_entries_total{gate="default",resource="other",result="pass"} 0
	// # HELP leapgate_rule_threshold Threshold of a rule, as it was loaded.
	// # TYPE leapgate_rule_threshold gauge
	// leapgate_rule_threshold{gate="default",guard="flow",resource="GET /orders",rule="orders-qps"} 3
	// <nil>
}

// Two gates and a limiter in one registry, served to Prometheus.
func ExampleNew() {
	perClient, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 1, Window: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	for _, name := range []string{"api", "jobs"} {
		cfg := leapprom.Config{Gate: name}
		if name == "api" {
			cfg.Limiters = []leapprom.Limiter{perClient}
		}
		collector, err := leapprom.New(leapgate.Must(leapgate.Config{}), cfg)
		if err != nil {
			fmt.Println(err)
			return
		}
		registry.MustRegister(collector)
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	for range 3 {
		_, _ = perClient.Allow(context.Background(), "198.51.100.7")
	}
	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "leapgate_resources{") || strings.HasPrefix(line, "leapgate_limiter_decisions") {
			fmt.Print(line)
		}
	}
	// Output:
	// leapgate_limiter_decisions_total{answer="allowed",gate="api",limiter="per-client"} 1
	// leapgate_limiter_decisions_total{answer="refused",gate="api",limiter="per-client"} 2
	// leapgate_resources{gate="api"} 1
	// leapgate_resources{gate="jobs"} 1
}

func ExampleNew_faults() {
	_, err := leapprom.New(leapgate.Must(leapgate.Config{}), leapprom.Config{
		Gate:         "\xff",
		MaxResources: -1,
		Limiters:     []leapprom.Limiter{nil},
	})
	fmt.Println(err)
	// Output:
	// leapprom: bad configuration: Gate is "\xff" (1 bytes); want up to 255 bytes of UTF-8
	// leapprom: bad configuration: MaxResources is -1; want 1 to 1000000, or 0 for 1000
	// leapprom: bad configuration: Limiters[0] is nil; want a limiter
}
