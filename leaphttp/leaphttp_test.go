package leaphttp_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

func TestNew_TellsAllFaults(t *testing.T) {
	t.Parallel()
	clock := gatetest.NewClock()
	a := newLog(t, clock, "same", 1, time.Second)
	unnamed := newLog(t, clock, "", 1, time.Second)
	route := func(*http.Request) string { return "" }
	_, err := leaphttp.New(leaphttp.Config{
		Mux: http.NewServeMux(), Route: route, Origin: route, Status: func(*leapgate.BlockError) int { return 429 },
		Limits: []leaphttp.Limit{
			{},
			{Limiter: a},
			{Limiter: a},
			{Limiter: unnamed, Name: "grün"},
			{Limiter: limit.All(unnamed, unnamed), Name: "g"},
		},
		Include: []string{"api/"}, Exclude: []string{""}, Headers: leaphttp.NoHeaders | leaphttp.Legacy,
	})
	require.ErrorIs(t, err, leaphttp.ErrConfig)
	for _, want := range []string{
		"Mux is set without a Gate", "Route is set without", "Origin is set without", "Status is set without",
		"Mux and Route are both set", "Limits[0].Limiter is nil", `Limits[2]: the name "same" is there twice`,
		`Limits[3]: the name "grün" is no header text`, `Limits[4]: the name "g" is there twice`,
		`Include[0] is "api/"`, `Exclude[0] is ""`, "Headers is 6",
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.Len(t, strings.Split(err.Error(), "\n"), 12, "%v", err)

	var none *limit.RateLimiter
	var func0 limiterFunc
	_, err = leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: a}, {Limiter: none}, {Limiter: func0}}})
	require.EqualError(t, err, "leaphttp: bad configuration: Limits[1].Limiter is a nil *limit.RateLimiter; want a limiter\n"+
		"leaphttp: bad configuration: Limits[2].Limiter is a nil leaphttp_test.limiterFunc; want a limiter")

	_, err = leaphttp.New(leaphttp.Config{})
	require.ErrorContains(t, err, "Gate is nil and Limits is empty")
	require.Panics(t, func() { leaphttp.Must(leaphttp.Config{}) })
	require.Panics(t, func() { leaphttp.Handler(nil, leaphttp.Config{Gate: gates.New(t, clock)}) })
}

func TestNewAddress_TellsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := leaphttp.NewAddress(leaphttp.AddressConfig{
		Trusted: []netip.Prefix{
			{}, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::ffff:0.0.0.0/96"),
		},
		IPv4Bits: 33, IPv6Bits: -1,
	})
	require.ErrorIs(t, err, leaphttp.ErrConfig)
	for _, want := range []string{
		"Trusted[0] is invalid Prefix", "Trusted[1] is 0.0.0.0/0, which trusts everyone", "Trusted[2] is",
		"IPv4Bits is 33", "IPv6Bits is -1",
	} {
		assert.ErrorContains(t, err, want)
	}
	_, err = leaphttp.NewAddress(leaphttp.AddressConfig{Header: "CF-Connecting-IP"})
	require.ErrorContains(t, err, "nobody is trusted")
	require.Panics(t, func() { leaphttp.MustAddress(leaphttp.AddressConfig{IPv4Bits: 40}) })
}

func TestNewTransport_TellsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := leaphttp.NewTransport(leaphttp.TransportConfig{
		Resource: func(*http.Request) string { return "" }, Outcome: func(*http.Response, error) leapgate.Outcome { return 0 }, MaxPause: 1, MaxTargets: -1, Limits: []leaphttp.Limit{{}},
		PauseStatuses: []int{403, 200, 600}, Base: (*http.Transport)(nil),
	})
	require.ErrorIs(t, err, leaphttp.ErrConfig)
	for _, want := range []string{
		"Resource is set without a Gate", "Outcome is set without a Gate", "MaxPause is 1ns", "MaxTargets is -1", "Limits[0].Limiter is nil",
		"PauseStatuses[1] is 200; want 400 to 599", "PauseStatuses[2] is 600", "Base is a nil *http.Transport",
	} {
		assert.ErrorContains(t, err, want)
	}
	_, err = leaphttp.NewTransport(leaphttp.TransportConfig{MaxPause: -1, PauseStatuses: []int{403}, PauseWhenUsedUp: true})
	require.ErrorContains(t, err, "PauseStatuses is set and MaxPause is below 0")
	require.ErrorContains(t, err, "PauseWhenUsedUp is set and MaxPause is below 0")
	require.Panics(t, func() { leaphttp.MustTransport(leaphttp.TransportConfig{MaxPause: 1}) })
}

func TestKeys_PanicOnNonsense(t *testing.T) {
	t.Parallel()
	for _, f := range []func(){
		func() { leaphttp.Header("") },
		func() { leaphttp.APIKey("") },
		func() { leaphttp.FromContext(nil) },
		func() { leaphttp.PathValue("") },
		func() { leaphttp.Query("") },
		func() { leaphttp.Cookie("") },
		func() { leaphttp.Composite() },
		func() { leaphttp.FirstOf() },
		func() { leaphttp.Composite(by("a"), nil) },
		func() { leaphttp.FirstOf(nil) },
	} {
		require.Panics(t, f)
	}
}

// limiterFunc is a limiter of another type than a pointer that can be nil.
type limiterFunc func() limit.Decision

func (f limiterFunc) AllowN(context.Context, string, int64) (limit.Decision, error) { return f(), nil }
func (limiterFunc) Refund(context.Context, string, limit.Decision, int64) error     { return nil }
