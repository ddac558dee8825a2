//go:build e2e

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate/internal/redistest"
)

// instance is one process of the API, here as a goroutine.
type instance struct {
	t        *testing.T
	api      string
	metrics  string
	end      func() int
	leftOver *strings.Builder // what it printed after it began
}

func start(t *testing.T, args ...string) *instance {
	t.Helper()
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		var errs strings.Builder
		code <- run(ctx, append([]string{"-listen", "127.0.0.1:0", "-metrics", "127.0.0.1:0"}, args...), in, &errs)
		if errs.Len() > 0 {
			t.Errorf("it wrote: %s", &errs)
		}
		_ = in.Close()
	}()
	lines := bufio.NewReader(out)
	address := regexp.MustCompile(`http://127[0-9.:]+`)
	next := func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return address.FindString(line)
	}
	i := &instance{t: t, api: next(), metrics: next(), leftOver: new(strings.Builder)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(i.leftOver, lines)
	}()
	i.end = func() int {
		cancel()
		<-ended
		return <-code
	}
	return i
}

func (i *instance) get(path, address, key string) (status int, header http.Header, body string) {
	i.t.Helper()
	at := i.api
	if path == "/metrics" {
		at = i.metrics
	}
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, at+path, http.NoBody)
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", address)
	r.Header.Set("X-Api-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

func (i *instance) want(status int, path, address, key string) http.Header {
	i.t.Helper()
	got, header, body := i.get(path, address, key)
	if got != status {
		i.t.Fatalf("%s for %s: %d %v %s; want %d", path, address, got, header, body, status)
	}
	return header
}

// metric is a figure that Prometheus gets.
func (i *instance) metric(name string) float64 {
	i.t.Helper()
	_, _, body := i.get("/metrics", "", "")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				i.t.Fatal(err)
			}
			return value
		}
	}
	i.t.Fatalf("there is no %s in\n%s", name, body)
	return 0
}

// await tries until it is so, for half a minute at most.
func await(t *testing.T, what string, try func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1500 {
		if try() {
			return
		}
		<-tick.C
	}
	t.Fatal("not so: ", what)
}

// Two processes share the limits. While there is no Redis, each has its part of the limit for
// addresses, and refuses reports; the metrics say so. When Redis is back, all is as before.
func TestE2E_TwoProcessesShareTheLimitsThroughRedis(t *testing.T) {
	program, err := redistest.Installed("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	server, err := redistest.Start(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	args := []string{"-redis", server.Addr(), "-redis-timeout", "900ms", "-processes", "2", "-per-key", "2", "-window", "8000h"} // which does not turn meanwhile, on a machine that is slow
	one, other := start(t, args...), start(t, args...)

	const address = "203.0.113.7"
	for n := range 5 {
		header := []*instance{one, other}[n%2].want(200, "/time", address, "")
		if got, want := header.Get("RateLimit"), fmt.Sprintf(`"per-address";r=%d`, 4-n); !strings.HasPrefix(got, want) {
			t.Errorf("call %d: RateLimit %s; want %s", n, got, want)
		}
	}
	one.want(429, "/time", address, "")
	other.want(429, "/time", address, "")
	other.want(200, "/healthz", address, "")
	for n, status := range []int{200, 200, 429, 429} { // each from another address
		[]*instance{one, other}[n%2].want(status, "/reports/7", fmt.Sprint("203.0.113.", 10+n), "key-of-ann")
	}
	for n := range 21 { // a client with a plan has ten times as many
		status := 200
		if n == 20 {
			status = 429
		}
		[]*instance{one, other}[n%2].want(status, "/reports/7", fmt.Sprint("203.0.113.", 100+n), "key-of-carol")
	}
	if away := one.metric(`leapgate_limiter_away{gate="default",limiter="per-key"}`); away != 0 {
		t.Errorf("away is %v; want 0", away)
	}

	server.Kill()
	for _, i := range []*instance{one, other} {
		for n, status := range []int{200, 200, 429} { // 5 for two processes
			i.want(status, "/time", "203.0.113.50", "")
			if header := i.want(503, "/reports/7", fmt.Sprint("203.0.113.", 60+n), "key-of-bob"); header.Get("Retry-After") == "" {
				t.Error("a report without Redis has no Retry-After")
			}
		}
		i.want(200, "/healthz", "", "")
	}
	await(t, "it knows that Redis is away", func() bool {
		one.get("/time", "203.0.113.51", "")
		return one.metric(`leapgate_limiter_away{gate="default",limiter="per-address"}`) == 1
	})
	if degraded := one.metric(`leapgate_limiter_degraded_decisions_total{gate="default",limiter="per-key"}`); degraded < 3 {
		t.Errorf("%v decisions without Redis; want 3 or more", degraded)
	}

	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	calls := 0
	await(t, "it decides through Redis again", func() bool {
		calls++
		status, _, _ := one.get("/reports/7", fmt.Sprint("198.51.100.", calls%250), "key-of-bob")
		return status == 200
	})
	for _, i := range []*instance{one, other} {
		if code := i.end(); code != 0 || !strings.Contains(i.leftOver.String(), "GET /reports/{id}") {
			t.Errorf("it ended with %d: %s", code, i.leftOver)
		}
	}
}

// It starts without a Redis, and finds it when there is one.
func TestE2E_StartsWithoutRedis(t *testing.T) {
	i := start(t, "-redis", "127.0.0.1:1", "-processes", "5")
	i.want(200, "/time", "203.0.113.7", "")
	i.want(429, "/time", "203.0.113.7", "")
	i.want(503, "/reports/7", "203.0.113.8", "key-of-ann")
	i.want(401, "/reports/7", "203.0.113.9", "none")
	if code := i.end(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}
