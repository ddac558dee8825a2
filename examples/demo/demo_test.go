package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/stat"
)

// pipes is a listener whose connections never leave the process, so that time in
// a synctest bubble goes on while a server waits for them.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes {
	return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return address{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.accept <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type address struct{}

func (address) Network() string { return "pipe" }
func (address) String() string  { return "pipe" }

// TestShow_ToTheEnd runs all of it for some seconds. The bubble fails the test
// if anything is left running.
func TestShow_ToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		listener := newPipes()
		err := show(t.Context(), listener, &http.Transport{DialContext: listener.dial}, 2500*time.Millisecond, newTable(&out))
		if err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, want := range []string{
			"http://pipe", "\n   1s  GET /orders ", "\n   1s  GET /search ", "\n   2s  GET /orders ", "\n 2.5s  GET /search ",
			"In 2.5s\n", `rule "orders-qps" refused `, `rule "search-qps" refused `,
			"429 Too Many Requests, Retry-After: 1\n", "flow rule ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing", want)
			}
		}
		rows := 0
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "s  GET /") {
				continue
			}
			rows++
			fields := strings.Fields(line)
			block, _ := strconv.Atoi(fields[4])
			qps, _ := strconv.Atoi(fields[6])
			limit, _ := strconv.Atoi(fields[7])
			// Below the limit when a bucket has left the window just now.
			if block == 0 || limit == 0 || qps > limit || qps < limit/2 {
				t.Errorf("not at the limit: %s", line)
			}
		}
		if rows != 3*len(endpoints) {
			t.Errorf("%d rows; want %d", rows, 3*len(endpoints))
		}
		if strings.Contains(text, "\x1b") {
			t.Error("escape sequences where there is no terminal")
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

func TestShow_Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		var out strings.Builder
		listener := newPipes()
		err := show(ctx, listener, &http.Transport{DialContext: listener.dial}, time.Hour, newTable(&out))
		if err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, "\nIn 1.2s\n") && !strings.Contains(text, "\nIn 1.3s\n") {
			t.Errorf("no summary at the end of\n%s", text)
		}
	})
}

func TestShow_ServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		_ = listener.Close()
		err := show(t.Context(), listener, &http.Transport{DialContext: listener.dial}, time.Hour, newTable(&strings.Builder{}))
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("got error %v; want %v", err, net.ErrClosed)
		}
	})
}

func TestGuard(t *testing.T) {
	now := int64(0)
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return now }})
	if err := gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 2, Interval: 3 * time.Second}}); err != nil {
		t.Fatal(err)
	}
	var result error
	handler := guard(gate, "GET /orders", func() error { return result })
	get := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/orders", nil))
		return w
	}

	if w := get(); w.Code != http.StatusOK {
		t.Errorf("first call: %d; want 200", w.Code)
	}
	result = errPretended
	if w := get(); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "pretended") {
		t.Errorf("failing call: %d %q; want 500 and the error", w.Code, w.Body)
	}
	now = int64(500 * time.Millisecond)
	w := get()
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "3" { // 2.5 s, rounded up
		t.Errorf("call beyond the rule: %d, Retry-After %q; want 429 and 3", w.Code, w.Header().Get("Retry-After"))
	}
	if !strings.Contains(w.Body.String(), "3 of 2 in 3s") {
		t.Errorf("body of the refusal is %q; want the figures of the rule", w.Body)
	}

	got := gate.Resource("GET /orders").Snapshot()
	if got.Pass != 2 || got.Block != 1 || got.Success != 2 || got.Exception != 1 || got.Concurrency != 0 {
		t.Errorf("pass %d, block %d, success %d, exception %d, in flight %d; want 2, 1, 2, 1, 0",
			got.Pass, got.Block, got.Success, got.Exception, got.Concurrency)
	}
}

func TestRefuse_NotABlock(t *testing.T) {
	w := httptest.NewRecorder()
	refuse(w, leapgate.ErrName)
	if w.Code != http.StatusInternalServerError || w.Header().Get("Retry-After") != "" {
		t.Errorf("got %d, Retry-After %q; want 500 and none", w.Code, w.Header().Get("Retry-After"))
	}
}

var snapshots = []stat.Snapshot{
	{
		Resource: "GET /orders", PassQPS: 50, AvgRT: 5_432 * time.Microsecond, P99: 123_400 * time.Microsecond,
		Concurrency: 2, Pass: 123_456, Block: 98_765, Exception: 6_543,
		Rules: []stat.RuleSnapshot{{ID: "orders-qps", Threshold: 50, Blocked: 98_765}},
	},
	{Resource: "GET /search", Rules: []stat.RuleSnapshot{{ID: "search-qps", Threshold: 20}}},
}

func TestTable_Plain(t *testing.T) {
	var out strings.Builder
	table := newTable(&out)
	table.title("http://127.0.0.1:1")
	table.rows(time.Second, snapshots)
	table.summary(time.Second, snapshots, "429 Too Many Requests\nbecause")
	const want = `Leapgate guards http://127.0.0.1:1, whose clients want twice the limits.
Ctrl-C ends it.

 time  resource      pass  block exception  QPS limit     avg     p99 in flight
   1s  GET /orders 123456  98765      6543   50    50   5.4ms 123.4ms         2
   1s  GET /search      0      0         0    0    20       -       -         0

In 1s
  GET /orders  passed 123456 of 222221 calls, 6543 with an exception
  GET /search  passed 0 of 0 calls, 0 with an exception
  rule "orders-qps" refused 98765, for it admits 50 per second
  rule "search-qps" refused 0, for it admits 20 per second

The first refusal, as its client got it:
  429 Too Many Requests
  because
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTable_Terminal(t *testing.T) {
	var out strings.Builder
	table := &table{out: &out, terminal: true}
	table.rows(time.Second, snapshots)
	if strings.Contains(out.String(), lineUp) {
		t.Error("the first rows go up, where there is nothing of the table")
	}
	out.Reset()
	table.rows(2*time.Second, snapshots)
	if !strings.HasPrefix(out.String(), lineUp+lineUp+clearLine+"   2s  GET /orders") {
		t.Errorf("the second rows are %q; want them to go up two lines and clear each", out.String())
	}
	for line := range strings.Lines(strings.NewReplacer(lineUp, "", clearLine, "").Replace(out.String())) {
		if len(line) > 80 { // its end included
			t.Errorf("%q is longer than a terminal is wide", line)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTable_CannotWrite(t *testing.T) {
	table := newTable(full{})
	table.title("")
	if table.err == nil {
		t.Error("the error of writing is lost")
	}
}

func TestRun_BadFlags(t *testing.T) {
	for _, args := range [][]string{{"-for", "soon"}, {"-for", "-1s"}, {"10s"}, {"-4"}} {
		var out, errs strings.Builder
		if code := run(t.Context(), args, &out, &errs); code != 2 || out.Len() > 0 || errs.Len() == 0 {
			t.Errorf("%q: exit code %d, output %q, errors %q; want 2, none, some", args, code, out.String(), errs.String())
		}
	}
	var errs strings.Builder
	if code := run(t.Context(), []string{"-h"}, &strings.Builder{}, &errs); code != 0 || !strings.Contains(errs.String(), "-for") {
		t.Errorf("-h: exit code %d, %q; want 0 and the flags", code, errs.String())
	}
}
