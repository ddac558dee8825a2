package dashboard_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

// served asks for everything that can be read, and returns whether it is answered.
func served(t *testing.T, h http.Handler, host string, change ...func(*http.Request)) bool {
	t.Helper()
	answered := 0
	paths := []string{"", "app.js", "api/v1/about", "api/v1/resources", "api/v1/rules", "api/v1/limiters", "api/v1/events", "api/v1/nothing"}
	for _, path := range paths {
		r := httptest.NewRequest(http.MethodHead, "/leapgate/"+path, http.NoBody)
		r.Host = host
		for _, f := range change {
			f(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK, http.StatusNotFound:
			answered++
		case http.StatusMisdirectedRequest, http.StatusForbidden:
		default:
			t.Fatalf("%s of %q: %d", path, host, w.Code)
		}
	}
	require.Contains(t, []int{0, len(paths)}, answered, "all of it or nothing: %q", host)
	return answered > 0
}

// A page whose name an attacker owns is led to this server: its Host is that name.
func TestHost_NamesThatAnybodyCanOwnAreRefused(t *testing.T) {
	t.Parallel()
	own, err := os.Hostname()
	require.NoError(t, err)
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet()})
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1:9090", "192.0.2.7", "192.0.2.7.", "[::1]", "[::1]:9090", "[2001:DB8::7]", "[::ffff:192.0.2.7]", "[fe80::1%eth0]:9090", "[fe80::1%25eth0]",
		"localhost", "localhost:9090", "LocalHost", "localhost.", "localhost.:9090", "localhost:",
		own, own + ":9090", strings.ToUpper(own) + ".",
		"gate", "GATE:80", "gate.", "my_gate-2", "gate.local", "Gate.Local.:1", "gate.internal", "a.b.internal", "gate.shop.svc", "gate.shop.svc.cluster.local",
	} {
		require.True(t, served(t, d, host), "%q", host)
	}
	for _, host := range []string{
		"", ".", ":9090", "attacker.example", "attacker.example:9090", "ATTACKER.EXAMPLE.", "127.0.0.1.attacker.example", "localhost.attacker.example", "local.attacker.example",
		"attackerlocal.example", "attacker.localhost.example", "attacker.xlocal", "attacker.notinternal", "svc.attacker.com", "gate..local..", "gate..", "..", ".local", ".internal", "local..",
		"127.0.0.1.5", "127.1.example", "[::1", "::1", "[::1]x", "[::1]:80:80", "[127.0.0.1]", "[attacker.example]", "[localhost]", "[]", "localhost:80:80", "localhost:8o", "a@localhost",
		"attacker.example@localhost", "localhost/attacker.example", "localhost attacker", "gate\x00", "gate\n.local", "lo\u212aalhost", "gäte", "gate.loca\u017f", "localhost%2eattacker.example", "%",
		own + ".attacker.example", strings.Repeat("a", 300) + ".attacker.example", strings.Repeat("a", 300),
	} {
		require.False(t, served(t, d, host), "%q", host)
	}
	// What a proxy or a client says besides does not count.
	forwarded := func(r *http.Request) {
		r.Header.Set("X-Forwarded-Host", "localhost")
		r.Header.Set("Forwarded", "host=localhost")
		r.Header.Set("X-Original-Host", "localhost")
		r.Header.Set("Host", "localhost")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	require.False(t, served(t, d, "attacker.example", forwarded))
}

func TestHost_ThatIsConfigured(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet(), Hosts: []string{"Gate.Example.com.", ".ops.example.com", "192.0.2.7"}})
	for _, host := range []string{
		"gate.example.com", "GATE.example.COM:443", "gate.example.com.", "a.ops.example.com", "a.b.ops.example.com",
		"127.0.0.1", "[::1]:80", "localhost:9090",
	} {
		require.True(t, served(t, d, host), "%q", host)
	}
	for _, host := range []string{"example.com", "xgate.example.com", "a.gate.example.com", "ops.example.com", "xops.example.com", "gate", "gate.local", "gate.internal", "gate.svc", ""} {
		require.False(t, served(t, d, host), "%q", host)
	}
	d = dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Hosts: []string{"*"}})
	for _, host := range []string{"attacker.example", "", "::1", "gate\x00"} {
		require.True(t, served(t, d, host), "%q", host)
	}
}

func TestHost_RefusalSaysWhatToDoAndIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i, host := range []string{"attacker.example\x1b[31m", "other.example", strings.Repeat("x", 5000)} {
		r := httptest.NewRequest(http.MethodGet, "/leapgate/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		require.Equal(t, http.StatusMisdirectedRequest, w.Code)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Contains(t, w.Body.String(), "Config.Hosts")
		require.Less(t, w.Body.Len(), 500)
		if i == 0 {
			require.Contains(t, w.Body.String(), `this dashboard is not served under \"attacker.example\\x1b[31m\"; if it shall be, name it in Config.Hosts`)
		}
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "Config.Hosts")
	require.Contains(t, log.String(), "attacker.example")
	require.NotContains(t, log.String(), "\x1b")
}

func TestOrigin_MustMatchTheHost(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: quiet(), Hosts: []string{"*"}, Authorize: ann})
	from := func(origins ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Origin"] = origins }
	}
	for _, ok := range [][2]string{
		{"localhost:9090", "http://localhost:9090"},
		{"localhost:9090", "https://localhost:9090"},
		{"gate.example", "https://gate.example"},
		{"Gate.Example", "https://gate.example"},
		{"gate.example:443", "https://gate.example"},
		{"gate.example:80", "http://gate.example"},
		{"gate.example", "https://gate.example:443"},
		{"[::1]:9090", "http://[::1]:9090"},
		{"localhost.:80", "http://localhost."},
	} {
		require.True(t, served(t, d, ok[0], from(ok[1])), "%q", ok)
	}
	for _, bad := range [][2]string{
		{"localhost:9090", "http://attacker.example"},
		{"localhost:9090", "http://localhost"},
		{"localhost:9090", "http://localhost:9091"},
		{"localhost:9090", "null"},
		{"localhost:9090", ""},
		{"localhost:9090", "localhost:9090"},
		{"localhost:9090", "://localhost:9090"},
		{"localhost:9090", "file://localhost:9090"},
		{"localhost:9090", "http://localhost:9090/"},
		{"localhost:9090", "http://localhost:9090.attacker.example"},
		{"gate.example", "https://a.gate.example"},
		{"gate.example", "https://gate.example:80"},
		{"gate.example:80", "https://gate.example"},
		{"", "http://"},
		{"", "null"},
		{"localhost.", "http://localhost"},
		{"gate.example", "https://a@gate.example"},
	} {
		require.False(t, served(t, d, bad[0], from(bad[1])), "%q", bad)
	}
	require.False(t, served(t, d, "localhost", from("http://localhost", "http://attacker.example")))
	require.False(t, served(t, d, "localhost", from("http://attacker.example"), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }))
	require.True(t, served(t, d, "localhost", from("https://localhost"), func(r *http.Request) { r.TLS = &tls.ConnectionState{} }))

	r := httptest.NewRequest(http.MethodGet, "/api/v1/limiters", http.NoBody)
	r.Header.Set("Origin", "http://attacker.example")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "the request comes from another origin")
	require.Contains(t, w.Body.String(), "a proxy in between must keep the Host")
}
