package leaphttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
	"github.com/leapgate-go/leapgate/system"
)

// Everything is refused, and the figures tell as what.
func TestCriticality_OfTheRouteAndOfPeersThatAreTrusted(t *testing.T) {
	t.Parallel()
	one := func(c stat.ByCriticality) stat.ByCriticality { return c }
	critical, ordinary := one(stat.ByCriticality{Critical: 1}), one(stat.ByCriticality{Default: 1})
	sheddable, background := one(stat.ByCriticality{Sheddable: 1}), one(stat.ByCriticality{Background: 1})
	for name, c := range map[string]struct {
		most   leapgate.Criticality
		route  string
		peer   string
		header []string
		want   stat.ByCriticality
	}{
		"nothing said":                      {0, "/a", "10.0.0.1:1", nil, ordinary},
		"by the route":                      {0, "/pay", "192.0.2.1:1", nil, critical},
		"by a peer":                         {0, "/a", "10.0.0.1:1", []string{"sheddable"}, sheddable},
		"by a peer, of a route":             {0, "/pay", "10.0.0.1:1", []string{" background "}, background},
		"by a stranger":                     {leapgate.Critical, "/a", "192.0.2.1:1", []string{"critical"}, ordinary},
		"by a stranger, of a route":         {leapgate.Critical, "/pay", "192.0.2.1:1", []string{"background"}, critical},
		"more than a peer may":              {0, "/a", "10.0.0.1:1", []string{"critical"}, ordinary},
		"more than a peer may by far":       {leapgate.Sheddable, "/a", "10.0.0.1:1", []string{"critical"}, sheddable},
		"a peer that may":                   {leapgate.Critical, "/a", "10.0.0.1:1", []string{"critical"}, critical},
		"twice":                             {leapgate.Critical, "/a", "10.0.0.1:1", []string{"critical", "critical"}, ordinary},
		"something that there is not":       {leapgate.Critical, "/a", "10.0.0.1:1", []string{"Critical"}, ordinary},
		"a peer without an address we know": {leapgate.Critical, "/a", "@", []string{"critical"}, ordinary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now})
			defer gate.Close()
			require.NoError(t, gate.LoadRules(leapgate.Rules{System: []system.Rule{{Match: rule.All, MaxInFlight: 1}}}))
			e, err := gate.Entry("busy")
			require.NoError(t, err)
			defer e.Exit()
			mux := http.NewServeMux()
			mux.HandleFunc("GET /a", func(http.ResponseWriter, *http.Request) {})
			mux.HandleFunc("GET /pay", func(http.ResponseWriter, *http.Request) {})
			h := leaphttp.Handler(mux, leaphttp.Config{Gate: gate, Mux: mux, Criticality: leaphttp.CriticalityConfig{
				Routes: map[string]leapgate.Criticality{"GET /pay": leapgate.Critical},
				Header: "criticality", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Most: c.most,
			}})
			r := httptest.NewRequest(http.MethodGet, c.route, http.NoBody)
			r.RemoteAddr = c.peer
			for _, v := range c.header {
				r.Header.Add("Criticality", v)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Empty(t, w.Header().Get("Retry-After"), "nobody knows when the call in flight will end")
			require.Equal(t, c.want, gate.Resource("GET " + c.route).Snapshot().Rules[0].Shed)
		})
	}
}

func TestCriticality_Faults(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	for _, c := range []struct {
		cfg  leaphttp.CriticalityConfig
		want string
	}{
		{leaphttp.CriticalityConfig{Header: "Criticality"}, "want both it and Criticality.Trusted, or none of them"},
		{leaphttp.CriticalityConfig{TrustSocket: true}, "want both it and Criticality.Trusted, or none of them"},
		{leaphttp.CriticalityConfig{Header: "a b", TrustSocket: true}, `Criticality.Header is "a b"; want the name of a header field`},
		{leaphttp.CriticalityConfig{Header: "C", Trusted: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, "which trusts everyone"},
		{leaphttp.CriticalityConfig{Most: 9}, "Criticality.Most is 9"},
		{leaphttp.CriticalityConfig{Routes: map[string]leapgate.Criticality{"GET /a": 9}}, `Criticality.Routes["GET /a"] is 9`},
		{leaphttp.CriticalityConfig{Header: "host", TrustSocket: true}, `Criticality.Header is "host"; want the name of a header field, other than Host, Trailer, Transfer-Encoding`},
	} {
		_, err := leaphttp.New(leaphttp.Config{Gate: gate, Criticality: c.cfg})
		require.ErrorIs(t, err, leaphttp.ErrConfig)
		require.ErrorContains(t, err, c.want)
	}
}

// No request is for these routes.
func TestCriticality_FaultsOfAllRoutesAtOnce(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	long := "GET /" + strings.Repeat("a", rule.MaxNameLength)
	cfg := leaphttp.CriticalityConfig{Routes: map[string]leapgate.Criticality{
		"/orders": leapgate.Critical, "": leapgate.Critical, "example.com/a": leapgate.Critical, "/b": 9, long: leapgate.Critical,
		"GET /orders/{id}": leapgate.Critical, "POST example.com/a": leapgate.Critical, "GET (unmatched)": leapgate.Background, "lookup item": 0,
	}, Most: 7}
	const want = "; want the name of a resource: a method, a blank and the route, such as \"GET /orders/{id}\", up to 1024 bytes"
	_, err := leaphttp.New(leaphttp.Config{Gate: gate, Criticality: cfg})
	require.ErrorIs(t, err, leaphttp.ErrConfig)
	prefix := leaphttp.ErrConfig.Error() + ": Criticality."
	require.Equal(t, []string{
		prefix + "Most is 7; want one of the criticalities",
		prefix + `Routes has ""` + want,
		prefix + `Routes["/b"] is 9; want one of the criticalities`,
		prefix + `Routes has "/b"` + want,
		prefix + `Routes has "/orders"` + want,
		prefix + `Routes has "` + long[:64] + `"` + want,
		prefix + `Routes has "example.com/a"` + want,
	}, strings.Split(err.Error(), "\n"))
}

func TestHealthCheck_IsExemptByThePattern(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now})
	defer gate.Close()
	require.NoError(t, gate.LoadRules(leapgate.Rules{System: []system.Rule{
		{ID: "exempt", Resource: "GET /healthz", MaxInFlight: 1_000_000},
		{ID: "rest", Match: rule.Default, MaxInFlight: 1},
	}}))
	e, err := gate.Entry("GET /a")
	require.NoError(t, err)
	defer e.Exit()
	_, err = gate.Entry("GET /b")
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	healthy, err := gate.Entry("GET /healthz")
	require.NoError(t, err)
	healthy.Exit()
}
