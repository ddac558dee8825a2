package dashboard_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

// One who opens many takes the places of one address, and leaves those of others.
func TestEvents_NoMoreViewersOfOneAddressThanThereMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipe, _ := serve(t, dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{
			MaxViewers: 5, Address: func(r *http.Request) string { return r.Header.Get("X-Client") },
		}))
		of := func(client string) *watching { return watch(t, pipe, "X-Client", client) }
		first := of("a")
		require.NotNil(t, first.next())
		require.NotNil(t, of("a").next())
		require.NotNil(t, of("a").next(), "half of 5, rounded up")
		fourth := of("a")
		require.Equal(t, http.StatusServiceUnavailable, fourth.answer.StatusCode)
		require.Equal(t, "5", fourth.answer.Header.Get("Retry-After"))
		body, err := io.ReadAll(fourth.answer.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"no place is left for your address: at most 3 may watch from one"`)
		require.NotNil(t, of("b").next())

		first.cancel()
		synctest.Wait()
		require.NotNil(t, of("a").next())
		require.NotNil(t, of("c").next())

		// A full house makes room for an address with fewer viewers, until all have about the same number.
		for _, client := range []string{"d", "e"} {
			require.NotNil(t, of(client).next(), client)
		}
		synctest.Wait()
		for _, client := range []string{"a", "b", "f"} {
			last := of(client)
			require.Equal(t, http.StatusServiceUnavailable, last.answer.StatusCode, client)
			body, err = io.ReadAll(last.answer.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), "no place is left: at most 5 may watch")
		}
	})
}
