package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// exports lets each tenant have ten exports at a time.
func exports(places limit.Acquirer, tenant leaphttp.Key, export http.Handler) http.Handler {
	return leaphttp.Handler(export, leaphttp.Config{Limits: []leaphttp.Limit{{InFlight: places, Key: tenant}}})
}

// exportLater answers at once, and the export goes on: the place is its own, and not that of
// the request.
func exportLater(places limit.Acquirer, tenant leaphttp.Key, export func(tenant string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tenant := tenant(r)
		place, d, err := places.Acquire(r.Context(), leaphttp.LimiterKey(tenant))
		if err != nil || !d.Allowed {
			http.Error(w, "too many exports at a time", http.StatusServiceUnavailable)
			return
		}
		go func() {
			defer place.Release()
			export(tenant)
		}()
		w.WriteHeader(http.StatusAccepted)
	}
}

func newPlaces(t *testing.T) *limit.InFlight {
	t.Helper()
	places, err := limit.NewInFlight(limit.Config{Name: "exports", Limit: 10})
	require.NoError(t, err)
	return places
}

// requireFree waits until no place is taken: one is released a moment after its export.
func requireFree(t *testing.T, places *limit.InFlight) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); places.Stats().InFlight > 0; runtime.Gosched() {
		require.True(t, time.Now().Before(deadline))
	}
}

func TestExports_TenAtATimeForEachTenant(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	begun, end := make(chan struct{}, 20), make(chan struct{})
	server := start(t, exports(places, leaphttp.Header("Tenant"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	})))
	answers := make(chan int, 20)
	for i := range 20 {
		go func() { answers <- as(t, server, []string{"acme", "globex"}[i%2]).StatusCode }()
	}
	for range 20 {
		<-begun
	}
	for _, tenant := range []string{"acme", "globex"} {
		refused := as(t, server, tenant)
		require.Equal(t, 503, refused.StatusCode)
		require.Contains(t, refused.Header.Get("RateLimit-Policy"), "concurrent-requests")
	}
	close(end)
	for range 20 {
		require.Equal(t, 200, <-answers)
	}
	requireFree(t, places)
	require.Equal(t, 200, as(t, server, "acme").StatusCode)
}

func TestExports_PanicsAndClientsThatHangUpGiveTheirPlacesBack(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	var inside, most, calls atomic.Int64
	h := exports(places, leaphttp.Header("Tenant"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		switch calls.Add(1) % 3 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // until the client hangs up
		}
	}))
	server := httptest.NewServer(h)
	gatetest.AtOnce(15, func(int) {
		for range 20 {
			ctx, hangUp := context.WithCancel(context.Background())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
			if err != nil {
				panic(err)
			}
			r.Header.Set("Tenant", "acme")
			got, err := server.Client().Do(r)
			hangUp()
			if err == nil {
				got.Body.Close()
			}
		}
	})
	server.Close() // waits for the handlers
	require.LessOrEqual(t, most.Load(), int64(10))
	require.Zero(t, places.Stats().InFlight)
}

func TestExports_ThoseThatGoOnAfterTheAnswerKeepTheirPlace(t *testing.T) {
	t.Parallel()
	places := newPlaces(t)
	end, ended := make(chan struct{}), make(chan struct{}, 10)
	server := start(t, exportLater(places, leaphttp.Header("Tenant"), func(string) { <-end; ended <- struct{}{} }))
	for i := range 11 {
		want := http.StatusAccepted
		if i == 10 {
			want = http.StatusServiceUnavailable
		}
		require.Equal(t, want, as(t, server, "acme").StatusCode, fmt.Sprint(i))
	}
	close(end)
	for range 10 {
		<-ended
	}
	requireFree(t, places)
	require.Equal(t, http.StatusAccepted, as(t, server, "acme").StatusCode)
}
