package rulefile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
)

func ExampleParse() {
	rules, err := rulefile.Parse("rules.yaml", []byte(`
flow:
  - id: orders-qps
    resource: GET /orders
    threshold: 100
    mode: shadow
isolation:
  - resource: db.query
    maxInFlight: 20
    maxWait: 500ms
`))
	if err != nil {
		panic(err)
	}
	fmt.Println(rules.Flow[0].ID, rules.Flow[0].Threshold, rules.Flow[0].Mode)
	fmt.Println(rules.Isolation[0].Resource, rules.Isolation[0].MaxInFlight, rules.Isolation[0].MaxWait)
	// Output:
	// orders-qps 100 shadow
	// db.query 20 500ms
}

// All errors are told at once.
func ExampleParse_errors() {
	_, err := rulefile.Parse("rules.yaml", []byte(`
flow:
  - id: orders-qps
    resource: GET /orders
    treshold: 100
    interval: 1
  - resource: GET /search
    threshold: -1
`))
	fmt.Println(err)
	var errs rulefile.Errors
	if errors.As(err, &errs) {
		fmt.Println(len(errs), errs[2].Line, errs[2].Field)
	}
	// Output:
	// rules.yaml:5:5: flow rule "orders-qps": unknown field "treshold"; did you mean threshold?
	// rules.yaml:6:15: flow rule "orders-qps": interval is 1; want a duration such as "250ms", "1s" or "1h30m"; a number has no unit
	// rules.yaml:8:16: flow rule on "GET /search": threshold is -1; want a finite number of at least 0
	// 3 8 threshold
}

func ExampleYAML() {
	text, err := rulefile.YAML(leapgate.Rules{
		Flow:      []flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 100, Mode: rule.Shadow}},
		Isolation: []isolation.Rule{{Resource: "db.query", MaxInFlight: 20}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
	// Output:
	// flow:
	//   - id: orders-qps
	//     resource: GET /orders
	//     threshold: 100
	//     mode: shadow
	// isolation:
	//   - resource: db.query
	//     maxInFlight: 20
}

// A limit for each tenant, and plans, from a file that may change while the program runs.
func ExampleConfig_limits() {
	folder, err := os.MkdirTemp("", "limits")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "limits.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	write("limits: {per-tenant: {limit: 2, plans: {acme: 3, partner: -1, banned: 0}}}")

	// MaxLimit is as far as the file may raise a limit. It costs nothing up to 16,777,214.
	perTenant, err := limit.NewCounter(limit.Config{Name: "per-tenant", Limit: 1, Window: time.Hour, MaxLimit: 10_000})
	if err != nil {
		panic(err)
	}
	watcher, err := rulefile.Watch(rulefile.Config{
		Path:   path,
		Limits: map[string]rulefile.Limiter{"per-tenant": perTenant},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	defer watcher.Close()
	passes := func(tenants ...string) {
		for _, tenant := range tenants {
			n := 0
			for range 5 {
				if d, err := perTenant.Allow(context.Background(), tenant); err == nil && d.Allowed {
					n++
				}
			}
			fmt.Println(tenant, n)
		}
	}
	passes("initech", "acme", "partner", "banned")

	write("limits: {per-tenant: {limit: 2, plans: {acme: 7}}}")
	_ = watcher.Reload() // it would come by itself, after a second
	passes("acme", "banned")

	write("limits: {per-tenant: {limit: 20000}, per-tenent: {limit: 1}}")
	fmt.Println(strings.ReplaceAll(watcher.Reload().Error(), folder+"/", ""))
	// Output:
	// initech 2
	// acme 3
	// partner 5
	// banned 0
	// acme 4
	// banned 2
	// limits.yaml:1:30: limit "per-tenant": limit is 20000; want at most 10000, the MaxLimit with which the program has made the limiter
	// limits.yaml:1:38: the program has no limiter "per-tenent"; did you mean per-tenant?
}

// The window of a limiter is read when the program starts.
func ExampleLimit_Config() {
	file, err := rulefile.ParseFile("limits.yaml", []byte("limits: {per-tenant: {limit: 500, window: 1h}}"))
	if err != nil {
		panic(err)
	}
	cfg := file.Limits["per-tenant"].Config(limit.Config{Name: "per-tenant", Limit: 10, Window: time.Minute, MaxLimit: 10_000})
	fmt.Println(cfg.Limit, cfg.Window)
	// Output: 500 1h0m0s
}

// printer is a gate that prints what it is given.
type printer struct{}

func (printer) ReplaceRules(source string, rules leapgate.Rules) error {
	flow, isolation := rules.Flow, rules.Isolation
	fmt.Println("loaded", len(flow), "flow rules and", len(isolation), "isolation rules from", filepath.Base(source))
	return nil
}

func ExampleWatch() {
	folder, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "rules.yaml")
	if err := os.WriteFile(path, []byte("flow: [{resource: GET /orders, threshold: 100}]"), 0o600); err != nil {
		panic(err)
	}

	watcher, err := rulefile.Watch(rulefile.Config{Path: path, Gate: printer{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer watcher.Close()
	status := watcher.Status()
	fmt.Println(status.Rules["flow"], status.Loads, status.Since.IsZero(), status.Err)
	// Output:
	// loaded 1 flow rules and 0 isolation rules from rules.yaml
	// 1 1 false <nil>
}
