package leaphttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

type line struct {
	At                     time.Time
	Resource, Key, Refused string
	Nanos                  time.Duration
	Status, Dropped        int
	Cost                   int64
}

func linesOf(t *testing.T, log string) (lines []line) {
	t.Helper()
	for text := range strings.Lines(log) {
		var l line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines = append(lines, l)
	}
	return lines
}

func TestDecisionLog_HasALineForEachRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		gate := leapgate.Must(leapgate.Config{})
		defer gate.Close()
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "orders", Resource: "GET /orders/{id}", Threshold: 3, Interval: time.Hour}}))
		perClient, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 2, Window: time.Hour})
		require.NoError(t, err)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Millisecond)
			if r.PathValue("id") == "panic" {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusAccepted)
		})
		h := leaphttp.Handler(mux, leaphttp.Config{Gate: gate, Mux: mux, DecisionLog: &log, Limits: []leaphttp.Limit{{
			Limiter: perClient, Key: func(r *http.Request) string { return r.Header.Get("Client") },
		}}})
		begin := time.Now()
		get := func(path, client string) {
			defer func() { _ = recover() }()
			r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
			r.Header.Set("Client", client)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		get("/orders/1", "ann")
		get("/orders/2", "ann")
		get("/orders/3", "ann")
		get("/nothing", "bob")
		get("/orders/panic", "bob\n\"")
		get("/orders/4", "eve")
		synctest.Wait()
		lines := linesOf(t, log.String())
		require.Len(t, lines, 6)
		require.Equal(t, line{begin.UTC(), "GET /orders/{id}", "ann", "", 20 * time.Millisecond, 202, 0, 0}, lines[0])
		require.Equal(t, line{begin.Add(40 * time.Millisecond).UTC(), "GET /orders/{id}", "ann", "per-client", 0, 429, 0, 0}, lines[2])
		require.Equal(t, "GET (unmatched) bob", lines[3].Resource+" "+lines[3].Key)
		require.Equal(t, 404, lines[3].Status)
		require.Equal(t, "bob\n\"", lines[4].Key)
		require.Equal(t, 500, lines[4].Status)
		require.Equal(t, "orders", lines[5].Refused)
	})
}

// stuck is a writer that waits until it is let go.
type stuck struct {
	bytes.Buffer
	free chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.Buffer.Write(p)
}

func TestDecisionLog_NeverMakesARequestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &stuck{free: make(chan struct{})}
		perClient, err := limit.NewCounter(limit.Config{Limit: 1 << 30, Window: time.Hour})
		require.NoError(t, err)
		h := leaphttp.Handler(http.NotFoundHandler(), leaphttp.Config{DecisionLog: log, Limits: []leaphttp.Limit{{Limiter: perClient}}})
		const requests, workers = 20_000, 4
		get := func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
		}
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range requests / workers {
					get()
				}
			})
		}
		wg.Wait()
		close(log.free)
		synctest.Wait()
		get() // says what was dropped
		synctest.Wait()
		written, dropped := 0, 0
		for _, l := range linesOf(t, log.String()) {
			dropped += l.Dropped
			if l.Dropped == 0 {
				written++
			}
		}
		require.Positive(t, dropped)
		require.Equal(t, requests+1, written+dropped)
		require.Less(t, log.Len(), 2<<20+1000)
	})
}

type noDisk struct{}

func (noDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestDecisionLog_SaysOnceAMinuteThatItCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		perClient, err := limit.NewCounter(limit.Config{Limit: 100, Window: time.Hour})
		require.NoError(t, err)
		h := leaphttp.Handler(http.NotFoundHandler(), leaphttp.Config{
			DecisionLog: noDisk{}, Limits: []leaphttp.Limit{{Limiter: perClient}}, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		for range 10 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
		require.Equal(t, 2, strings.Count(logged.String(), "disk full"), logged.String())
	})
}

// torn is a disk that takes some bytes of each of the first writes, and then all.
type torn struct {
	bytes.Buffer
	takes []int
}

func (d *torn) Write(p []byte) (int, error) {
	if len(d.takes) == 0 {
		return d.Buffer.Write(p)
	}
	n := min(d.takes[0], len(p))
	d.takes = d.takes[1:]
	_, _ = d.Buffer.Write(p[:n])
	return n, nil
}

func TestDecisionLog_CountsWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, takes := range [][]int{{0}, {0, 0, 0}, {10}, {10, 0, 1, 2}, {1000, 5, 1000, 3, 0}} {
		synctest.Test(t, func(t *testing.T) {
			log := &torn{takes: takes}
			perClient, err := limit.NewCounter(limit.Config{Limit: 100, Window: time.Hour})
			require.NoError(t, err)
			h := leaphttp.Handler(http.NotFoundHandler(), leaphttp.Config{
				DecisionLog: log, Limits: []leaphttp.Limit{{Limiter: perClient}}, Logger: slog.New(slog.DiscardHandler),
			})
			const requests = 8
			for range requests {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
				synctest.Wait()
			}
			written, dropped, halves := 0, 0, 0
			for text := range strings.Lines(log.String()) {
				var l line
				switch {
				case json.Unmarshal([]byte(text), &l) != nil:
					halves++
				case l.Dropped > 0:
					dropped += l.Dropped
				default:
					written++
				}
			}
			require.Equal(t, requests, written+dropped, log.String())
			require.LessOrEqual(t, halves, len(takes))
			require.Positive(t, dropped)
		})
	}
}

func TestDecisionLog_HasTheCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tokens, err := limit.NewCounter(limit.Config{Name: "tokens", Limit: 1000, Window: time.Hour})
		require.NoError(t, err)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/settled" {
				_, err := leaphttp.Settle(w, 500)
				assert.NoError(t, err)
			}
		})
		h := leaphttp.Handler(handler, leaphttp.Config{DecisionLog: &log, Limits: []leaphttp.Limit{{
			Limiter: tokens, Cost: func(r *http.Request) int64 { return r.ContentLength },
		}}})
		for _, path := range []string{"/", "/settled", "/"} {
			r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(strings.Repeat("x", 400)))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		synctest.Wait()
		var costs []int64
		for _, l := range linesOf(t, log.String()) {
			costs = append(costs, l.Cost)
		}
		require.Equal(t, []int64{400, 500, 400}, costs, "the last is refused")
	})
}

// Without a gate too, what is refused has the name of what is admitted, if the routes are given.
func TestDecisionLog_NamesRoutesWithoutAGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		one, err := limit.NewCounter(limit.Config{Name: "one", Limit: 1, Window: time.Hour})
		require.NoError(t, err)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /orders/{id}", func(http.ResponseWriter, *http.Request) {})
		h := leaphttp.Handler(mux, leaphttp.Config{DecisionLog: &log, Mux: mux, Limits: []leaphttp.Limit{{Limiter: one}}})
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/orders/7", http.NoBody))
		}
		synctest.Wait()
		lines := linesOf(t, log.String())
		require.Len(t, lines, 2)
		require.Equal(t, "GET /orders/{id}", lines[0].Resource)
		require.Equal(t, "GET /orders/{id}", lines[1].Resource, "which is refused by %s", lines[1].Refused)
	})
}
