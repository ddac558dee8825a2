package dashboard_test

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rulefile"
)

// The page is at http://127.0.0.1:9090/leapgate/, on a port that only operators reach.
func ExampleHandler() {
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return 1_700_000_000_000_000_000 }})
	if err := gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 2}}); err != nil {
		panic(err)
	}
	board := dashboard.Handler(gate, dashboard.Config{Title: "shop"})
	mux := http.NewServeMux()
	mux.Handle("/leapgate/", board)
	server := &http.Server{Addr: "127.0.0.1:9090", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	server.RegisterOnShutdown(func() { board.Close() }) // or Shutdown waits for viewers

	for range 3 {
		if e, err := gate.Entry("GET /orders"); err == nil {
			e.Exit()
		}
	}
	// What the page asks for, anybody may.
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/leapgate/api/v1/rule?kind=flow&id=GET+/orders/1", http.NoBody))
	fmt.Println(w.Code, w.Body.String()[:40])
	w = httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/leapgate/api/v1/resources?filter=orders", http.NoBody))
	fmt.Println(w.Code, w.Body.String()[:112])
	// Output:
	// 200 {"kind":"flow","id":"GET /orders/1","ver
	// 200 {"at":"2023-11-14T22:13:20.000Z","total":1,"matched":1,"resources":[{"name":"GET /orders","passQPS":2,"blockQPS"
}

// Operators with a password may change rules. The browser asks for it.
func ExampleConfig_authorize() {
	gate := leapgate.Must(leapgate.Config{})
	board, err := dashboard.New(gate, dashboard.Config{
		Authorize: func(r *http.Request) (string, error) {
			name, password, _ := r.BasicAuth()
			if subtle.ConstantTimeCompare([]byte(password), []byte("from the environment")) != 1 {
				return "", dashboard.Challenge(`Basic realm="rules", charset="UTF-8"`)
			}
			return name, nil
		},
		Logger: slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // for the example
			}
			return a
		}})),
	})
	if err != nil {
		panic(err)
	}
	send := func(password string) {
		r := httptest.NewRequest("POST", "http://localhost/leapgate/api/v1/rules?kind=flow", strings.NewReader(`{"resource": "GET /orders", "threshold": 100}`))
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("ann", password)
		w := httptest.NewRecorder()
		board.ServeHTTP(w, r)
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("WWW-Authenticate"))
	}
	send("a guess")
	send("from the environment")
	fmt.Println(gate.FlowRules()[0].ID)
	// Output:
	// level=WARN msg="leapgate: failed authorisation on the dashboard" address=192.0.2.1 method=POST error="say who you are"
	// 401 "Basic realm=\"rules\", charset=\"UTF-8\""
	// level=INFO msg="leapgate: rule changed on the dashboard" who=ann action=add kind=flow id="GET /orders/1" to="{\"id\": \"GET /orders/1\", \"resource\": \"GET /orders\", \"threshold\": 100, \"interval\": \"1s\", \"buckets\": 10}"
	// 201 ""
	// GET /orders/1
}

// What is changed on the page is written into the rule file.
func ExampleRuleKeeper() {
	folder, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "rules.json")
	if err := os.WriteFile(path, []byte(`{"flow": [{"id": "orders-qps", "resource": "GET /orders", "threshold": 100}]}`), 0o600); err != nil {
		panic(err)
	}
	gate := leapgate.Must(leapgate.Config{})
	silent := slog.New(slog.DiscardHandler)
	watcher, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Logger: silent})
	if err != nil {
		panic(err)
	}
	defer watcher.Close()
	board := dashboard.Handler(gate, dashboard.Config{
		// The server listens on 127.0.0.1 alone, and pages that are led there are refused.
		Authorize:   func(*http.Request) (string, error) { return "whoever is at the machine", nil },
		RuleKeepers: []dashboard.RuleKeeper{watcher},
		Logger:      silent,
	})

	ask := func(method, body, version string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://127.0.0.1:9090/leapgate/api/v1/rule?kind=flow&id=orders-qps", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("If-Match", version)
		w := httptest.NewRecorder()
		board.ServeHTTP(w, r)
		return w
	}
	seen := ask("GET", "", "").Header().Get("ETag")
	fmt.Println(ask("PUT", `{"resource": "GET /orders", "threshold": 150, "mode": "shadow"}`, seen).Code)
	w := ask("PUT", `{"resource": "GET /orders", "threshold": 90}`, seen) // somebody else, who saw the old one
	fmt.Println(w.Body.String()[:86])
	data, err := os.ReadFile(path)
	fmt.Print(string(data), err, "\n")
	// Output:
	// 200
	// {"title":"Precondition Failed","status":412,"detail":"the rule has changed since you r
	// {
	//   "flow": [
	//     {"id": "orders-qps", "resource": "GET /orders", "threshold": 150, "interval": "1s", "buckets": 10, "mode": "shadow"}
	//   ]
	// }
	// <nil>
}
