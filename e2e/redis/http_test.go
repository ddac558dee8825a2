//go:build e2e

package redis

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// What the shared limit refuses costs the local one nothing, and what the local one
// refuses is given back to the shared one; the order in which they are named does not
// matter.
func TestAll_WithALocalLimit(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			server := v.start(t)
			client := ways[0].client(t, server.Addr())
			for name, remote := range kinds(t, client, leapredis.Config{Name: "shared", Limit: 3, Window: time.Hour}) {
				local, err := limit.NewLog(limit.Config{Name: "local", Limit: 5, Window: time.Hour})
				require.NoError(t, err)
				all := limit.All(local, remote)
				require.True(t, all.Remote())
				require.Equal(t, "shared", all.Describe()[0].Name, "the shared one is asked first")
				for i := range 10 {
					d, err := all.Allow(t.Context(), "a")
					require.NoError(t, err)
					require.Equal(t, i < 3, d.Allowed, name)
					require.Equal(t, "shared", d.Name, name)
				}
				require.EqualValues(t, 2, local.Peek("a").Remaining, "%s: seven refusals cost nothing here", name)

				local, err = limit.NewLog(limit.Config{Name: "local", Limit: 1, Window: time.Hour})
				require.NoError(t, err)
				all = limit.All(local, remote)
				for i := range 10 {
					d, err := all.Allow(t.Context(), "b")
					require.NoError(t, err)
					require.Equal(t, i < 1, d.Allowed, name)
				}
				d, err := remote.Peek(t.Context(), "b")
				require.NoError(t, err)
				require.EqualValues(t, 2, d.Remaining, "%s: nine refusals were given back", name)

				d, err = all.Allow(t.Context(), "c")
				require.NoError(t, err)
				require.NoError(t, all.Refund(t.Context(), "c", d, 1))
				d, err = remote.Peek(t.Context(), "c")
				require.NoError(t, err)
				require.EqualValues(t, 3, d.Remaining, name)
			}
		})
	}
}

// Two processes, here two servers, share a limit behind leaphttp; the second refuses what
// the first has admitted, and says so in the headers.
func TestHTTP_TwoServersShareALimit(t *testing.T) {
	t.Parallel()
	server := versions[0].start(t)
	handler := func() *httptest.Server {
		shared := newCounter(t, ways[0].client(t, server.Addr()), leapredis.Config{Name: "shared", Limit: 4, Window: time.Hour})
		local, err := limit.NewLog(limit.Config{Name: "local", Limit: 3, Window: time.Hour})
		require.NoError(t, err)
		s := httptest.NewServer(leaphttp.Handler(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
			leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: local}, {Limiter: shared}}},
		))
		t.Cleanup(s.Close)
		return s
	}
	get := func(s *httptest.Server) (int, http.Header) {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL, http.NoBody)
		require.NoError(t, err)
		response, err := s.Client().Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode, response.Header
	}
	one, other := handler(), handler()
	for i, want := range []int{204, 204, 204, 429, 429, 429} { // the local one refuses, and the shared one gets it back
		status, _ := get(one)
		require.Equal(t, want, status, "call %d", i)
	}
	for i, want := range []int{204, 429, 429} {
		status, header := get(other)
		require.Equal(t, want, status, "call %d", i)
		require.Contains(t, header.Get("RateLimit-Policy"), `"shared"`)
		if want == 429 {
			require.NotEmpty(t, header.Get("Retry-After"))
		}
	}
	require.EqualValues(t, 4, heldIn(t, server, "test:"))
}
