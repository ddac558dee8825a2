package leaphttp_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/stat"
)

// perDay are rules that no test outlasts.
func perDay(t *testing.T, gate *leapgate.Gate, rules ...param.Rule) {
	t.Helper()
	for i := range rules {
		rules[i].Interval = 24 * time.Hour
	}
	require.NoError(t, gate.LoadRules(leapgate.Rules{Param: rules}))
}

// argServer is a shop on the loopback, whose mux is in the middleware.
func argServer(t *testing.T, gate *leapgate.Gate, given map[string]leaphttp.Arg) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /item/{id}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.PathValue("id")) })
	mux.Handle("GET /search", ok)
	server := httptest.NewUnstartedServer(leaphttp.Handler(mux, leaphttp.Config{Gate: gate, Mux: mux, Args: given}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func sent(t *testing.T, server *httptest.Server, target string, header http.Header) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+target, http.NoBody)
	require.NoError(t, err)
	r.Header = header
	answer, err := server.Client().Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(text)
}

// passes is how many of as many requests are not refused.
func passes(t *testing.T, server *httptest.Server, target string, header http.Header, tries int) (n int) {
	t.Helper()
	for range tries {
		switch status, _ := sent(t, server, target, header); status {
		case http.StatusOK:
			n++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("status %d", status)
		}
	}
	return n
}

func ruleOf(t *testing.T, gate *leapgate.Gate, resource string) stat.RuleSnapshot {
	t.Helper()
	s := snapshot(gate, resource)
	require.Len(t, s.Rules, 1)
	return s.Rules[0]
}

func TestArgs_RulesCountByWhatARequestIsAbout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, target, other string
		of                  leaphttp.Arg
		header, otherHeader http.Header
	}{
		{name: "path value around a mux", target: "/item/7", other: "/item/8", of: leaphttp.PathValue("id")},
		{name: "query", target: "/item/7?v=a", other: "/item/7?v=b", of: leaphttp.Query("v")},
		{
			name: "header", target: "/item/7", of: leaphttp.Header("X-Tenant"),
			header: http.Header{"X-Tenant": {"a"}}, otherHeader: http.Header{"X-Tenant": {"b"}},
		},
		{
			name: "cookie", target: "/item/7", of: leaphttp.Cookie("cart"),
			header: http.Header{"Cookie": {"x=1; cart=a"}}, otherHeader: http.Header{"Cookie": {"x=1; cart=b"}},
		},
		{
			name: "network of the address", target: "/item/7",
			of: leaphttp.MustAddress(leaphttp.AddressConfig{
				Trusted: leaphttp.PrivateNetworks(), IPv4Bits: 24,
			}).Key,
			header: http.Header{"X-Forwarded-For": {"203.0.113.7"}}, otherHeader: http.Header{"X-Forwarded-For": {"203.0.112.7"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate := leapgate.Must(leapgate.Config{})
			perDay(t, gate, param.Rule{Resource: "GET /item/{id}", Arg: "what", Threshold: 3})
			server := argServer(t, gate, map[string]leaphttp.Arg{"what": c.of})
			other := c.other
			if other == "" {
				other = c.target
			}
			require.Equal(t, 3, passes(t, server, c.target, c.header, 5))
			require.Equal(t, 3, passes(t, server, other, c.otherHeader, 5), "another value has its own")
			require.Zero(t, ruleOf(t, gate, "GET /item/{id}").Missing)
		})
	}
}

func TestArgs_SeveralTogetherAndMissingOnes(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	perDay(t, gate,
		param.Rule{Resource: "GET /item/{id}", Arg: "tenant,item", Threshold: 2, Missing: param.Block},
		param.Rule{Resource: "GET /search", Arg: "tenant", Threshold: 2, Items: "vip=4, bot-*=1, ban=0"},
	)
	server := argServer(t, gate, map[string]leaphttp.Arg{
		"tenant": leaphttp.Header("X-Tenant"), "item": leaphttp.PathValue("id"), "q": leaphttp.Query("q"), "unused": leaphttp.Cookie("c"),
	})
	tenant := func(name string) http.Header { return http.Header{"X-Tenant": {name}} }
	require.Equal(t, 2, passes(t, server, "/item/7", tenant("a"), 4))
	require.Equal(t, 2, passes(t, server, "/item/8", tenant("a"), 4))
	require.Equal(t, 2, passes(t, server, "/item/7", tenant("b"), 4))
	require.Equal(t, 0, passes(t, server, "/item/7", nil, 3))
	require.Equal(t, 0, passes(t, server, "/item/7", tenant(""), 2), "what is empty is missing")
	require.EqualValues(t, 5, ruleOf(t, gate, "GET /item/{id}").Missing)

	require.Equal(t, []int{4, 1, 0, 2}, []int{
		passes(t, server, "/search", tenant("vip"), 6), passes(t, server, "/search", tenant("bot-7"), 6),
		passes(t, server, "/search", tenant("ban"), 6), passes(t, server, "/search", tenant("any"), 6),
	})
	require.Equal(t, 5, passes(t, server, "/search?tenant=vip", nil, 5), "the rule skips what is missing")
	require.EqualValues(t, 5, ruleOf(t, gate, "GET /search").Missing)
}

// What a handler gets is what counted, whichever of several a client sends.
func TestArgs_OfAValueThatIsSentSeveralTimesTheFirstCounts(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	perDay(t, gate, param.Rule{Resource: "GET /search", Arg: "a", Threshold: 1}, param.Rule{ID: "h", Resource: "GET /search", Arg: "h", Threshold: 9})
	server := argServer(t, gate, map[string]leaphttp.Arg{"a": leaphttp.Query("a"), "h": leaphttp.Header("X-H")})
	lines := http.Header{"X-H": {"one", "two"}}
	require.Equal(t, 1, passes(t, server, "/search?a=1&a=2", lines, 2))
	require.Equal(t, 0, passes(t, server, "/search?a=1&a=3", lines, 2))
	require.Equal(t, 0, passes(t, server, "/search?%61=1", lines, 1))
	require.Equal(t, 1, passes(t, server, "/search?a=2&a=1", lines, 2))
}

func TestArgs_Hostile(t *testing.T) {
	t.Parallel()
	var log warnings
	gate := leapgate.Must(leapgate.Config{})
	perDay(t, gate, param.Rule{ID: "one", Resource: "GET /search", Arg: "v", Threshold: 1, MaxKeys: 100})
	mux := http.NewServeMux()
	mux.Handle("GET /search", ok)
	h := leaphttp.Handler(mux, leaphttp.Config{Gate: gate, Mux: mux, Args: map[string]leaphttp.Arg{"v": leaphttp.FirstOf(
		leaphttp.Query("v"), leaphttp.Header("X-V"), leaphttp.Cookie("v"),
	), "raw": leaphttp.Query("v")}, Logger: log.logger()})
	ask := func(query string, header http.Header) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/search", http.NoBody)
		r.URL.RawQuery, r.Header = query, header
		return do(h, r)
	}
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		query  string
		header http.Header
	}{
		{query: "v=" + long + "1"},
		{query: "v=" + long + "2"},
		{query: "v=%ff%fe"},
		{query: "v=%00"},
		{query: "v=%0d%0aSet-Cookie:%20a=b"},
		{query: "v=<script>alert(1)</script>"},
		{query: strings.Repeat("a=b&", 200_000) + "v=late"},
		{query: strings.Repeat("v&", 20_000)},
		{query: strings.Repeat("%", 100_000)},
		{header: http.Header{"X-V": {"a, b, c", "d"}}},
		{header: http.Header{"X-V": {"\xff\x00"}}},
		{header: http.Header{"Cookie": {strings.Repeat("v=1;", 2000)}}},
		{header: http.Header{"Cookie": {strings.Repeat(";", 1<<20)}}},
		{header: http.Header{"Cookie": {"v=\"; v=" + long}}},
	} {
		first, second := ask(c.query, c.header), ask(c.query, c.header)
		require.Equal(t, 200, first.Code)
		if second.Code != 200 { // else it had no value
			require.Equal(t, 429, second.Code)
			require.NotContains(t, second.Body.String(), "xxx", "what a client sends is not sent back")
			require.NotContains(t, second.Body.String(), "script")
		}
	}
	for i := range 10_000 {
		ask(fmt.Sprintf("v=%d", i), nil)
	}
	require.LessOrEqual(t, ruleOf(t, gate, "GET /search").Values, 100, "the number of values is bounded")
	require.Empty(t, log.String())
}

func TestArgs_LongOnesAreHashedAndDiffer(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	perDay(t, gate, param.Rule{Resource: "GET /search", Arg: "v", Threshold: 1})
	server := argServer(t, gate, map[string]leaphttp.Arg{"v": leaphttp.Query("v")})
	for _, length := range []int{1023, 1024, 1025, 100_000} {
		beginning := strings.Repeat("x", length-1)
		for _, end := range []string{"a", "b"} {
			require.Equal(t, 1, passes(t, server, "/search?v="+beginning+end, nil, 2), "%d %s", length, end)
		}
	}
}

func TestArgs_Config(t *testing.T) {
	t.Parallel()
	of := leaphttp.Query("q")
	_, err := leaphttp.New(leaphttp.Config{
		Gate: leapgate.Must(leapgate.Config{}),
		Args: map[string]leaphttp.Arg{"a": of, "b": nil, "": of, "tenant,item": of, " c": of, strings.Repeat("x", 1025): of},
	})
	require.ErrorIs(t, err, leaphttp.ErrConfig)
	for _, want := range []string{
		"Args has 6 arguments; want at most 4", `Args["b"] is nil`, `Args has the name ""`, `Args has the name "tenant,item"`,
		`Args has the name " c"`, `Args has the name "xxx`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 6)
	_, err = leaphttp.New(leaphttp.Config{
		Args: map[string]leaphttp.Arg{"a": of}, Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "l", 1, time.Second)}},
	})
	require.ErrorContains(t, err, "Args is set without a Gate")
}

// Four arguments cost no allocation where the route is known.
func TestArgs_AllocateNothing(t *testing.T) {
	if gatetest.Race {
		t.Skip("the race detector allocates")
	}
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadRules(leapgate.Rules{Param: []param.Rule{{Resource: "GET /orders/{id}", Arg: "item,address", Threshold: 1e7}}}))
	r := benchCases[0].request()
	r.SetPathValue("id", "7")
	r.URL.RawQuery = "page=2&q=shoes"
	count := func(given map[string]leaphttp.Arg) float64 {
		h := leaphttp.Handler(answer, leaphttp.Config{Gate: gate, Args: given})
		serve(h, r)
		return testing.AllocsPerRun(1000, func() { serve(h, r) })
	}
	without := count(nil)
	require.LessOrEqual(t, count(map[string]leaphttp.Arg{
		"item": leaphttp.PathValue("id"), "q": leaphttp.Query("q"), "key": leaphttp.Header("X-Api-Key"),
		"address": leaphttp.MustAddress(leaphttp.AddressConfig{}).Key,
	}), without)
}

// A client that is not there is no other: the peer of a server has an address.
func TestArgs_AddressOfThePeer(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	perDay(t, gate, param.Rule{Resource: "GET /search", Arg: "address", Threshold: 9, Items: "127.0.0.0/8=2, ::1=2"})
	server := argServer(t, gate, map[string]leaphttp.Arg{"address": leaphttp.MustAddress(leaphttp.AddressConfig{}).Key})
	host, _, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
	require.Equal(t, 2, passes(t, server, "/search", http.Header{"X-Forwarded-For": {"203.0.113.7"}}, 4))
}
