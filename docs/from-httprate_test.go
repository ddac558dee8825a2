package docs_test

import (
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// limited admits 100 requests a minute from each client address.
func limited() (func(http.Handler) http.Handler, error) {
	perAddress, err := limit.NewCounter(limit.Config{
		Name:   "per-address",
		Limit:  100,
		Window: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	behindProxy, err := leaphttp.NewAddress(leaphttp.AddressConfig{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, // your own proxies
	})
	if err != nil {
		return nil, err
	}
	return leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{
		Limiter: perAddress,
		Key:     behindProxy.Key,
	}}})
}

func TestFromHTTPRate_EachAddressHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		protect, err := limited()
		require.NoError(t, err)
		inner := protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = "10.0.0.1:999" // of the proxy
			inner.ServeHTTP(w, r)
		}))
		from := func(address string) answer {
			return send(t, server, http.MethodGet, http.Header{"X-Forwarded-For": {address}}, "")
		}
		for range 100 {
			require.Equal(t, 200, from("203.0.113.7").StatusCode)
		}
		refused := from("203.0.113.7")
		require.Equal(t, 429, refused.StatusCode)
		require.NotEmpty(t, refused.Header.Get("Retry-After"))
		require.Equal(t, 200, from("203.0.113.8").StatusCode)
	})
}
