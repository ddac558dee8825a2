//go:build e2e

package e2e

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// TestDashboard_HostAsItIsSent sends names in all the ways that HTTP has for them.
func TestDashboard_HostAsItIsSent(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	page := dashboard.Handler(gate, dashboard.Config{Logger: slog.New(slog.DiscardHandler)})
	plain := start(t, page)
	address := plain.Listener.Addr().String()
	for head, want := range map[string]int{
		"GET /api/v1/about HTTP/1.1\r\nHost: " + address:                                                               http.StatusOK,
		"GET /api/v1/about HTTP/1.1\r\nHost: localhost":                                                                http.StatusOK,
		"GET /api/v1/about HTTP/1.1\r\nHost: [::1]:9090":                                                               http.StatusOK,
		"GET /api/v1/about HTTP/1.1\r\nHost: attacker.example":                                                         http.StatusMisdirectedRequest,
		"GET /api/v1/about HTTP/1.1\r\nHost: attacker.example\r\nX-Forwarded-Host: localhost":                          http.StatusMisdirectedRequest,
		"GET http://attacker.example/api/v1/about HTTP/1.1\r\nHost: localhost":                                         http.StatusMisdirectedRequest, // the address counts, and not the header
		"GET http://localhost/api/v1/about HTTP/1.1\r\nHost: attacker.example":                                         http.StatusOK,
		"GET /api/v1/about HTTP/1.1\r\nHost:":                                                                          http.StatusMisdirectedRequest,
		"GET /api/v1/about HTTP/1.0":                                                                                   http.StatusMisdirectedRequest,
		"GET /api/v1/about HTTP/1.1":                                                                                   http.StatusBadRequest, // by the server
		"GET /api/v1/about HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example":                                      http.StatusBadRequest,
		"GET /api/v1/about HTTP/1.1\r\nHost: localhost\r\nOrigin: http://attacker.example":                             http.StatusForbidden,
		"GET /api/v1/about HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://attacker.example": http.StatusForbidden,
		"GET /api/v1/about HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost":                                    http.StatusOK,
	} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = io.WriteString(conn, head+"\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, head)
		require.Equal(t, want, answer.StatusCode, head)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, conn.Close())
	}

	// In HTTP/2 it is :authority.
	server := httptest.NewUnstartedServer(page)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	for host, want := range map[string]int{"": 200, "localhost": 200, "gate.internal:8443": 200, "attacker.example": 421, "127.0.0.1.attacker.example": 421} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/about", http.NoBody)
		require.NoError(t, err)
		r.Host = host
		answer, err := server.Client().Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 2, answer.ProtoMajor)
		require.Equal(t, want, answer.StatusCode, host)
		require.Equal(t, want == 421, strings.Contains(string(body), "Config.Hosts"))
	}
}
