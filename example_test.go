package leapgate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

func Example() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadFlowRules([]flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 3}})
	if err != nil {
		panic(err)
	}
	for range 5 {
		e, err := gate.Entry("GET /orders")
		if err != nil {
			fmt.Println("blocked:", errors.Is(err, leapgate.ErrBlocked))
			continue
		}
		fmt.Println("passed")
		e.Exit()
	}
	// Output:
	// passed
	// passed
	// passed
	// blocked: true
	// blocked: true
}

// frozen is a clock that stands still, so that the examples print the same every day.
func frozen() int64 { return int64(1_700_000_040 * time.Second) }

func ExampleNew() {
	_, err := leapgate.New(leapgate.Config{MaxResources: -5})
	fmt.Println(err)
	// Output:
	// leapgate: bad configuration: MaxResources is -5; want 1 to 10000000, or 0 for 10000
}

func ExampleMust() {
	gate := leapgate.Must(leapgate.Config{
		MaxResources: 500,
		Logger:       slog.Default(),
		Outcome: func(err error) leapgate.Outcome {
			if errors.Is(err, context.DeadlineExceeded) {
				return leapgate.Ignored
			}
			return leapgate.Failure
		},
	})
	defer gate.Close()
	fmt.Println(len(gate.Snapshot()), "resources")
	// Output:
	// 0 resources
}

func ExampleBlockError() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 100}})
	for range 100 {
		e, _ := gate.Entry("GET /orders")
		e.Exit()
	}
	_, err := gate.Entry("GET /orders")
	fmt.Println(err)

	var blocked *leapgate.BlockError
	if errors.As(err, &blocked) {
		fmt.Println(blocked.RuleID, blocked.Observed, "of", blocked.Threshold, "again in", blocked.RetryAfter)
	}
	// Output:
	// flow rule "orders-qps" on "GET /orders": 101 of 100 in 1s; retry in 1s
	// orders-qps 101 of 100 again in 1s
}

func ExampleGate_Entry() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	query := func() error {
		e, err := gate.Entry("db.query")
		if err != nil {
			return err // a rule refused it
		}
		defer e.Exit()
		err = errors.New("connection reset")
		e.SetError(err)
		return err
	}
	fmt.Println(query())
	fmt.Println(gate.Resource("db.query").Snapshot().Exception, "exception")
	// Output:
	// connection reset
	// 1 exception
}

func ExampleGate_EntryContext() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{Resource: "upload", Threshold: 1000, Interval: time.Minute}})
	e, err := gate.EntryContext(context.Background(), "upload", leapgate.WithCount(600))
	fmt.Println(err)
	defer e.Exit()
	_, err = gate.EntryContext(context.Background(), "upload", leapgate.WithCount(600))
	fmt.Println(err)
	// Output:
	// <nil>
	// flow rule "upload/1" on "upload": 1200 of 1000 in 1m0s; retry in 1m0s
}

func ExampleGate_Do() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	err := gate.Do(context.Background(), "mail.send", func(context.Context) error {
		return errors.New("mailbox full")
	})
	fmt.Println(err)
	fmt.Println(gate.Resource("mail.send").Snapshot().Exception, "exception")
	// Output:
	// mailbox full
	// 1 exception
}

func ExampleCall() {
	gate := leapgate.Must(leapgate.Config{})
	price, err := leapgate.Call(context.Background(), gate, "price.lookup", func(context.Context) (int, error) {
		return 42, nil
	})
	fmt.Println(price, err)
	// Output:
	// 42 <nil>
}

func ExampleCallOr() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{ID: "lookups", Resource: "price.lookup", Threshold: 1}})
	lookup := func(context.Context) (int, error) { return 42, nil }
	fromCache := func(_ context.Context, refused *leapgate.BlockError) (int, error) {
		fmt.Println(refused.RuleID, "refused; again in", refused.RetryAfter)
		return 41, nil
	}
	for range 2 {
		price, err := leapgate.CallOr(context.Background(), gate, "price.lookup", lookup, fromCache)
		fmt.Println(price, err)
	}
	// Output:
	// 42 <nil>
	// lookups refused; again in 1s
	// 41 <nil>
}

func ExampleGate_Resource() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	orders := gate.Resource("GET /orders") // looked up once
	for range 5 {
		e, err := orders.Entry()
		if err != nil {
			return
		}
		e.Exit()
	}
	fmt.Println(orders.QPS(metric.Pass), "per second")
	// Output:
	// 5 per second
}

func ExampleGate_LoadFlowRules() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: -1},
		{Resource: "GET /search", Threshold: 20, Interval: time.Second, Buckets: 7},
	})
	fmt.Println(err)

	err = gate.LoadFlowRules([]flow.Rule{{Resource: "GET /search", Threshold: 20}})
	fmt.Println(err, len(gate.FlowRules()), gate.FlowRules()[0].ID)
	// Output:
	// flow rule 0 ("orders-qps" on "GET /orders"): Threshold is -1; want a finite number of at least 0
	// flow rule 1 (on "GET /search"): Buckets is 7; want a number that divides 1s into buckets of at least 1ms, such as 5
	// <nil> 1 GET /search/1
}

func ExampleGate_LoadFlowRules_shadow() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 3, Mode: rule.Shadow}})
	for range 5 {
		e, _ := gate.Entry("GET /orders")
		e.Exit()
	}
	s := gate.Resource("GET /orders").Snapshot()
	fmt.Println(s.Pass, "passed,", s.Block, "blocked,", s.WouldBlock, "would have been")
	// Output:
	// 5 passed, 0 blocked, 2 would have been
}

func ExampleGate_Snapshot() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 2}})
	for range 3 {
		e, _ := gate.Entry("GET /orders")
		e.Exit()
	}
	for _, s := range gate.Snapshot() {
		fmt.Println(s.Resource, s.Pass, s.Block, s.PassQPS, s.Concurrency)
		for _, r := range s.Rules {
			fmt.Println(" ", r.Kind, r.ID, r.Mode, r.Threshold, r.Admitted, r.Blocked)
		}
	}
	// Output:
	// GET /orders 2 1 2 0
	//   flow GET /orders/1 enforce 2 2 1
}

func ExampleGate_Close() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 0}})
	_, err := gate.Entry("GET /orders")
	fmt.Println(err != nil)
	_ = gate.Close()
	_, err = gate.Entry("GET /orders")
	fmt.Println(err != nil)
	// Output:
	// true
	// false
}

func ExampleEntry() {
	// The functions of the package work on the default gate.
	e, err := leapgate.Entry("GET /hello")
	if err != nil {
		return
	}
	defer e.Exit()
	fmt.Println(leapgate.Resource("GET /hello").Snapshot().Concurrency, "in flight")
	// Output:
	// 1 in flight
}

// What an exporter reads: package leapprom is one for Prometheus.
func ExampleGate_Totals() {
	gate := leapgate.Must(leapgate.Config{})
	err := gate.LoadFlowRules([]flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 1, Interval: time.Hour}})
	if err != nil {
		panic(err)
	}
	for range 3 {
		_ = gate.Do(context.Background(), "GET /orders", func(context.Context) error { return nil })
	}
	for _, t := range gate.Totals() {
		fmt.Println(t.Resource, t.Counts[metric.Pass], t.Counts[metric.Block], t.Latencies.Count())
		for i := range t.Rules {
			fmt.Println("  rule", t.Rules[i].ID, "blocked", t.Rules[i].Blocked)
		}
	}
	// Output:
	// GET /orders 1 2 1
	//   rule orders-qps blocked 2
	// other 0 0 0
}

// maintenance is a guard that a program brings: it refuses everything on the
// resources it knows.
type maintenance struct{ closed map[string]bool }

func (m *maintenance) Kind() string { return "maintenance" }
func (m *maintenance) Bind(name string, _ []resource.Check) (checks []resource.Check, named bool) {
	if !m.closed[name] {
		return nil, false
	}
	return []resource.Check{refuseAll{&resource.Cause{Resource: name, Kind: "maintenance", RuleID: "tonight"}}}, true
}

type refuseAll struct{ cause *resource.Cause }

func (r refuseAll) Cause() *resource.Cause  { return r.cause }
func (r refuseAll) Mode() rule.Mode         { return rule.Enforce }
func (r refuseAll) Stage() resource.Stage   { return resource.Counting }
func (r refuseAll) Interval() time.Duration { return 0 }
func (r refuseAll) Reserve(_, n int64, _ resource.Caller) resource.Verdict {
	return resource.Verdict{Refused: &resource.BlockError{Cause: r.cause, Observed: float64(n), RetryAfter: -1}}
}
func (r refuseAll) Refund(resource.Ticket, int64)                    {}
func (r refuseAll) Wait(int64, int64, resource.Caller) time.Duration { return -1 }
func (r refuseAll) Snapshot(int64) stat.RuleSnapshot {
	return stat.RuleSnapshot{ID: "tonight", Kind: "maintenance"}
}

func ExampleConfig_guards() {
	guard := &maintenance{closed: map[string]bool{"POST /orders": true}}
	gate := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}})
	for _, name := range []string{"GET /orders", "POST /orders"} {
		e, err := gate.Entry(name)
		fmt.Println(name, err)
		e.Exit()
	}
	// Output:
	// GET /orders <nil>
	// POST /orders maintenance rule "tonight" on "POST /orders": 1 of 0
}
