package leaphttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
)

// frozen is a clock that stands still, so that the examples print the same every day.
func frozen() int64 { return int64(1_700_000_040 * time.Second) }

// show sends a request and prints what came back.
func show(h http.Handler, method, url string, headers ...string) {
	r := httptest.NewRequest(method, url, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Print(w.Code)
	for _, name := range []string{"RateLimit", "X-RateLimit-Remaining", "Retry-After"} {
		if value := w.Header().Get(name); value != "" {
			fmt.Printf("  %s: %s", name, value)
		}
	}
	fmt.Println()
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

// Around a ServeMux: rules on routes, and a limit for each address.
func Example() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	_ = gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders/{id}", Threshold: 2, Interval: 10 * time.Second}})
	perClient, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 100, Window: time.Minute, Now: frozen})
	if err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", hello)
	mux.HandleFunc("GET /healthz", hello)
	protect, err := leaphttp.New(leaphttp.Config{
		Gate:    gate,
		Mux:     mux,
		Limits:  []leaphttp.Limit{{Limiter: perClient}},
		Exclude: []string{"/healthz"},
	})
	if err != nil {
		panic(err)
	}
	handler := protect(mux)

	show(handler, "GET", "/orders/1")
	show(handler, "GET", "/orders/2")
	show(handler, "GET", "/orders/3") // refused by the rule: the limit gets back what it took
	show(handler, "GET", "/healthz")
	for _, s := range gate.Snapshot() {
		fmt.Println(s.Resource, "passed", s.Pass, "blocked", s.Block)
	}
	// Output:
	// 200  RateLimit: "per-client";r=99;t=61
	// 200  RateLimit: "per-client";r=98;t=61
	// 429  RateLimit: "per-client";r=98  Retry-After: 10
	// 200
	// GET /orders/{id} passed 2 blocked 1
}

// One handler of a mux with a limit of its own.
func ExampleHandler() {
	exports, _ := limit.NewLog(limit.Config{Name: "exports", Limit: 1, Window: time.Hour, Now: frozen})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", hello)
	mux.Handle("POST /export", leaphttp.Handler(http.HandlerFunc(hello), leaphttp.Config{
		Limits: []leaphttp.Limit{{Limiter: exports}},
	}))

	show(mux, "GET", "/orders")
	show(mux, "POST", "/export")
	show(mux, "POST", "/export")
	// Output:
	// 200
	// 200  RateLimit: "exports";r=0;t=3600
	// 429  RateLimit: "exports";r=0;t=3600  Retry-After: 3600
}

// Only failed logins count, by user name, which stands in the body.
func ExampleChecker() {
	logins, _ := limit.NewLog(limit.Config{Name: "logins", Limit: 2, Window: time.Minute, Now: frozen})
	check := leaphttp.MustChecker(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: logins}}})
	login := check.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !check.Check(w, r, r.FormValue("user"), 1) {
			return
		}
		if r.FormValue("password") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = leaphttp.Refund(w)
		hello(w, r)
	}))
	for range 3 {
		show(login, "POST", "/login?user=alice&password=secret")
	}
	for range 3 {
		show(login, "POST", "/login?user=bob&password=guess")
	}
	// Output:
	// 200  RateLimit: "logins";r=1;t=60
	// 200  RateLimit: "logins";r=1;t=60
	// 200  RateLimit: "logins";r=1;t=60
	// 401  RateLimit: "logins";r=1;t=60
	// 401  RateLimit: "logins";r=0;t=60
	// 429  RateLimit: "logins";r=0;t=60  Retry-After: 60
}

// The tokens that a language model takes are known when it has answered.
func ExampleSettle() {
	tokens, _ := limit.NewLog(limit.Config{Name: "tokens", Limit: 10_000, Window: time.Minute, Now: frozen})
	complete := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "an answer of 1,500 tokens")
		_, _ = leaphttp.Settle(w, 1500)
	}), leaphttp.Config{Limits: []leaphttp.Limit{{
		Limiter: tokens,
		Cost:    func(*http.Request) int64 { return 4000 }, // an estimate
	}}})
	for range 3 {
		show(complete, "POST", "/complete")
	}
	// Output:
	// 200  RateLimit: "tokens";r=6000;t=60
	// 200  RateLimit: "tokens";r=4500;t=60
	// 200  RateLimit: "tokens";r=3000;t=60
}

// Ten exports at a time for each tenant.
func ExampleLimit_inFlight() {
	exports, _ := limit.NewInFlight(limit.Config{Name: "exports", Limit: 10})
	export := leaphttp.Handler(http.HandlerFunc(hello), leaphttp.Config{
		Limits: []leaphttp.Limit{{InFlight: exports, Key: leaphttp.Header("Tenant")}},
	})
	show(export, "GET", "/export", "Tenant", "acme")
	for range 10 {
		place, _, _ := exports.Acquire(context.Background(), "acme") // as long exports have
		defer place.Release()
	}
	show(export, "GET", "/export", "Tenant", "acme")
	show(export, "GET", "/export", "Tenant", "globex")
	// Output:
	// 200  RateLimit: "exports";r=9
	// 503  RateLimit: "exports";r=0
	// 200  RateLimit: "exports";r=9
}

// router is what chi and others have: middlewares, in the form that they all take.
type router struct {
	middlewares []func(http.Handler) http.Handler
	handler     http.Handler
}

func (r *router) Use(middlewares ...func(http.Handler) http.Handler) {
	r.middlewares = append(r.middlewares, middlewares...)
}

func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := r.handler
	for i := len(r.middlewares) - 1; i >= 0; i-- {
		h = r.middlewares[i](h)
	}
	h.ServeHTTP(w, req)
}

// Inside a route of chi, chi.RouteContext knows its pattern:
//
//	Route: func(r *http.Request) string { return chi.RouteContext(r.Context()).RoutePattern() },
//	…
//	r.With(protect).Get("/orders/{id}", orders)
//
// Rules of kind param count by what a request is about: here each item by itself.
func ExampleConfig_args() {
	gate := leapgate.Must(leapgate.Config{})
	_ = gate.LoadRules(leapgate.Rules{Param: []param.Rule{
		{ID: "hot-items", Resource: "GET /item/{id}", Arg: "item", Threshold: 2, Interval: time.Hour, Items: "bestseller=3"},
	}})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /item/{id}", func(http.ResponseWriter, *http.Request) {})
	h := leaphttp.Handler(mux, leaphttp.Config{
		Gate: gate, Mux: mux,
		Args: map[string]leaphttp.Arg{
			"item":    leaphttp.PathValue("id"),
			"tenant":  leaphttp.Header("X-Tenant"), // that the authentication in front has set
			"variant": leaphttp.Query("variant"),
			"network": leaphttp.MustAddress(leaphttp.AddressConfig{IPv4Bits: 24}).Key,
		},
	})
	for _, item := range []string{"book", "bestseller"} {
		for range 4 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/item/"+item, http.NoBody))
			fmt.Println(item, w.Code)
		}
	}
	// Output:
	// book 200
	// book 200
	// book 429
	// book 429
	// bestseller 200
	// bestseller 200
	// bestseller 200
	// bestseller 429
}

func ExampleNew_router() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	protect := leaphttp.Must(leaphttp.Config{
		Gate:  gate,
		Route: func(*http.Request) string { return "/orders/{id}" },
	})

	r := &router{handler: http.HandlerFunc(hello)}
	r.Use(protect)
	show(r, "GET", "/orders/7")
	fmt.Println(gate.Snapshot()[0].Resource)
	// Output:
	// 200
	// GET /orders/{id}
}

func ExampleNew() {
	_, err := leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{}}, Include: []string{"api"}})
	fmt.Println(err)
	// Output:
	// leaphttp: bad configuration: Limits[0].Limiter is nil; want a limiter
	// leaphttp: bad configuration: Include[0] is "api"; want a path that begins with /
}

func ExampleMust() {
	perKey, _ := limit.NewCounter(limit.Config{Name: "per-key", Limit: 1, Window: time.Minute, Now: frozen})
	protect := leaphttp.Must(leaphttp.Config{
		Limits:  []leaphttp.Limit{{Limiter: perKey, Key: leaphttp.APIKey("Authorization")}},
		Headers: leaphttp.Legacy,
	})
	handler := protect(http.HandlerFunc(hello))
	show(handler, "GET", "/", "Authorization", "Bearer one")
	show(handler, "GET", "/", "Authorization", "Bearer one")
	show(handler, "GET", "/", "Authorization", "Bearer two")
	show(handler, "GET", "/") // all without a key count together
	show(handler, "GET", "/")
	// Output:
	// 200  X-RateLimit-Remaining: 0
	// 429  X-RateLimit-Remaining: 0  Retry-After: 120
	// 200  X-RateLimit-Remaining: 0
	// 200  X-RateLimit-Remaining: 0
	// 429  X-RateLimit-Remaining: 0  Retry-After: 120
}

func ExampleNewAddress() {
	address, err := leaphttp.NewAddress(leaphttp.AddressConfig{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest("GET", "/", http.NoBody)
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.7, 10.0.0.2") // the first one is forged
	r.RemoteAddr = "10.0.0.1:4711"
	fmt.Println(address.Of(r))
	r.RemoteAddr = "198.51.100.9:4711" // not a proxy of ours
	fmt.Println(address.Of(r))
	r.RemoteAddr = "[2001:db8:1:2:3::4]:4711"
	fmt.Println(address.Key(r))
	// Output:
	// 203.0.113.7
	// 198.51.100.9
	// 2001:db8:1:2::/64
}

func ExampleMustAddress() {
	address := leaphttp.MustAddress(leaphttp.AddressConfig{
		Trusted: leaphttp.PrivateNetworks(),
		Header:  "Forwarded",
	})
	r := httptest.NewRequest("GET", "/", http.NoBody)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("Forwarded", `for=unknown, for="[2001:db8::1]:1234";proto=https`)
	fmt.Println(address.Of(r))
	// Output:
	// 2001:db8::1
}

type userKey struct{}

func ExampleFirstOf() {
	user := leaphttp.FromContext(func(ctx context.Context) string {
		name, _ := ctx.Value(userKey{}).(string)
		return name
	})
	key := leaphttp.FirstOf(user, leaphttp.MustAddress(leaphttp.AddressConfig{}).Key)

	r := httptest.NewRequest("GET", "/", http.NoBody)
	fmt.Println(key(r))
	fmt.Println(key(r.WithContext(context.WithValue(r.Context(), userKey{}, "ann"))))
	// Output:
	// 1:192.0.2.1
	// 0:ann
}

func ExampleComposite() {
	key := leaphttp.Composite(leaphttp.Header("X-Tenant"), leaphttp.PathValue("project"))
	r := httptest.NewRequest("GET", "/", http.NoBody)
	r.Header.Set("X-Tenant", "acme")
	r.SetPathValue("project", "7")
	fmt.Println(key(r))
	// Output:
	// 4:acme1:7
}

func ExampleRefusal() {
	none, _ := limit.NewCounter(limit.Config{Name: "none"})
	handler := leaphttp.Handler(http.HandlerFunc(hello), leaphttp.Config{
		Limits: []leaphttp.Limit{{Limiter: none}},
		Refuse: func(w http.ResponseWriter, r *http.Request, refusal *leaphttp.Refusal) {
			if !strings.Contains(r.Header.Get("Accept"), "text/html") {
				refusal.WriteProblem(w)
				return
			}
			w.WriteHeader(refusal.Status)
			fmt.Fprintln(w, "<p>Too many requests. Please come again later.")
		},
	})
	r := httptest.NewRequest("GET", "/", http.NoBody)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Print(w.Body)
	r.Header.Set("Accept", "text/html")
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Print(w.Body)
	// Output:
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"The quota \"none\" is used up.","violated-policies":["none"]}
	// <p>Too many requests. Please come again later.
}

func ExampleSetError() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	handler := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		leaphttp.SetError(w, errors.New("the database is down"))
		fmt.Fprintln(w, "something from the cache")
	}), leaphttp.Config{Gate: gate})
	show(handler, "GET", "/")
	fmt.Println("exceptions:", gate.Snapshot()[0].Exception)
	// Output:
	// 200
	// exceptions: 1
}

// busy is a server that asks to wait.
type busy struct{}

func (busy) RoundTrip(*http.Request) (*http.Response, error) {
	fmt.Println("sent")
	return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"7"}}, Body: http.NoBody}, nil
}

func ExampleTransport() {
	client := &http.Client{Transport: leaphttp.MustTransport(leaphttp.TransportConfig{Base: busy{}})}
	response, err := client.Get("https://api.example.com/orders")
	if err != nil {
		panic(err)
	}
	_ = response.Body.Close()
	fmt.Println(response.StatusCode)

	_, err = client.Get("https://api.example.com/orders") //nolint:bodyclose // it is not sent
	var refused *leaphttp.RefusedError
	if errors.As(err, &refused) {
		fmt.Println(refused.Target, "asked to wait, with", refused.Status)
	}
	fmt.Println("blocked:", errors.Is(err, leapgate.ErrBlocked))
	// Output:
	// sent
	// 429
	// api.example.com asked to wait, with 429
	// blocked: true
}

func ExampleNewTransport() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	perHost, _ := limit.NewCounter(limit.Config{Name: "per-host", Limit: 1, Window: time.Second, Now: frozen})
	transport, err := leaphttp.NewTransport(leaphttp.TransportConfig{
		Base:   busy{},
		Gate:   gate, // resources such as "GET api.example.com"
		Limits: []leaphttp.Limit{{Limiter: perHost}},
		Target: func(r *http.Request) string { return r.URL.Host + r.URL.Path },
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport}
	if response, err := client.Get("https://api.example.com/a"); err == nil {
		_ = response.Body.Close()
	}
	_, err = client.Get("https://api.example.com/b") //nolint:bodyclose // it is not sent
	fmt.Println(err)
	// Output:
	// sent
	// Get "https://api.example.com/b": leaphttp: not sent: limit "per-host" is used up; retry in 2s
}

// shop is a server whose parts do well and badly.
type shop struct{}

func (shop) RoundTrip(r *http.Request) (*http.Response, error) {
	status := map[string]int{"/orders": 200, "/stock": 503, "/search": 429, "/users/7": 404}[r.URL.Path]
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("…"))}, nil
}

// Resources by the part of the server that is called, and a server that must know all users.
func ExampleTransportConfig() {
	gate := leapgate.Must(leapgate.Config{Now: frozen})
	client := &http.Client{Transport: leaphttp.MustTransport(leaphttp.TransportConfig{
		Base: shop{},
		Gate: gate,
		Resource: func(r *http.Request) string {
			part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			return "shop " + part // a few names, as the program chooses the paths
		},
		Outcome: func(r *http.Response, err error) leapgate.Outcome {
			switch {
			case err != nil || r.StatusCode >= 500 || r.StatusCode == 404:
				return leapgate.Failure
			case r.StatusCode == 429:
				return leapgate.Ignored
			default:
				return leapgate.Success
			}
		},
	})}
	for _, path := range []string{"/orders", "/stock", "/search", "/users/7"} {
		response, err := client.Get("http://shop.example.com" + path)
		if err != nil {
			panic(err)
		}
		_ = response.Body.Close() // which ends the call
	}
	for _, s := range gate.Snapshot() {
		fmt.Printf("%-11s %d success, %d failure, %d ignored\n", s.Resource, s.Success-s.Exception-s.Ignored, s.Exception, s.Ignored)
	}
	// Output:
	// shop orders 1 success, 0 failure, 0 ignored
	// shop search 0 success, 0 failure, 1 ignored
	// shop stock  0 success, 1 failure, 0 ignored
	// shop users  0 success, 1 failure, 0 ignored
}
