//go:build e2e

package redis

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/leapredis"
)

// sharedPlaces is room for ten exports of each tenant at a time, by all processes together.
var sharedPlaces = leapredis.Config{Name: "exports", Limit: 10, Prefix: "exports:", LeaseTime: time.Minute}

// exportRows has a part of the export written, well within the time of a lease, and then
// another, for as long as the place is its own.
func exportRows(next func(w http.ResponseWriter) (more bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for next(w) {
			if err := leaphttp.Renew(w); err != nil {
				return // the place may be another's
			}
		}
	}
}

// The code of docs/exports.md for several processes: ten exports of a tenant at a time, whichever
// process they run in, and those that go on renew their places.
func TestExports_TenAtATimeByAllProcesses(t *testing.T) {
	t.Parallel()
	server := versions[0].start(t)
	var processes []*httptest.Server
	begun, goOn := make(chan struct{}, 20), make(chan bool)
	for range 2 {
		places, err := leapredis.NewInFlight(ways[0].client(t, server.Addr()), usual(sharedPlaces))
		require.NoError(t, err)
		defer places.Close()
		export := exportRows(func(http.ResponseWriter) bool {
			begun <- struct{}{}
			return <-goOn
		})
		process := httptest.NewServer(leaphttp.Handler(export, leaphttp.Config{
			Limits: []leaphttp.Limit{{InFlight: places, Key: leaphttp.Header("Tenant")}},
		}))
		defer process.Close()
		processes = append(processes, process)
	}
	status := func(i int, tenant string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, processes[i%2].URL, http.NoBody)
		if !assert.NoError(t, err) {
			return 0
		}
		r.Header.Set("Tenant", tenant)
		got, err := processes[i%2].Client().Do(r)
		if !assert.NoError(t, err) {
			return 0
		}
		assert.NoError(t, got.Body.Close())
		return got.StatusCode
	}
	answers := make(chan int, 10)
	for i := range 10 {
		go func() { answers <- status(i, "acme") }()
	}
	for range 10 {
		<-begun
	}
	for i := range 2 {
		require.Equal(t, 503, status(i, "acme"))
	}
	for range 10 {
		goOn <- true
	}
	for range 10 {
		<-begun // renewed
	}
	require.Equal(t, 503, status(0, "acme"))
	close(goOn)
	for range 10 {
		require.Equal(t, 200, <-answers)
	}
	require.Equal(t, 200, status(0, "acme"))
}
