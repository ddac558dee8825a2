package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules are per minute, and nothing waits here.
func TestRun_ServesUntilItIsToldToEnd(t *testing.T) {
	t.Parallel()
	var listeners []net.Listener
	for range 2 {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners = append(listeners, listener)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(server int, path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listeners[server].Addr().String()+path, nil)
		require.NoError(t, err)
		answer, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, string(body)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "rules.yaml", listeners[0], listeners[1]) }()

	for range 10 {
		status, body := get(0, "/orders/7")
		require.Equal(t, 200, status)
		require.Equal(t, "order \"7\": two lamps\n", body)
	}
	for range 10 { // ten of twenty have failed with the last: the breaker opens
		status, body := get(0, "/orders/0")
		require.Equal(t, 200, status)
		require.Equal(t, "order \"0\": no details at the moment\n", body)
	}
	status, body := get(0, "/orders/7")
	require.Equal(t, 429, status, "the 21st of 20 in a minute")
	require.Contains(t, body, `"detail":"Too many requests in this time."`)

	status, body = get(1, "/metrics")
	require.Equal(t, 200, status)
	require.Contains(t, body, `leapgate_entries_total{gate="default",resource="GET /orders/{id}",result="pass"} 20`)
	require.Contains(t, body, `leapgate_exceptions_total{gate="default",resource="GET /orders/{id}"} 10`)
	require.Contains(t, body, `leapgate_exceptions_total{gate="default",resource="db.query"} 10`)
	require.Contains(t, body, `leapgate_rule_state{gate="default",guard="breaker",resource="db.query",rule="database",state="open"} 1`)
	status, body = get(1, "/leapgate/")
	require.Equal(t, 200, status)
	require.Contains(t, body, "<title>Leapgate</title>")

	end()
	require.NoError(t, <-ended)
}

func TestPage_HasTheRuleFileThatIsTested(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../getting-started.md")
	require.NoError(t, err)
	rules, err := os.ReadFile("rules.yaml")
	require.NoError(t, err)
	require.Contains(t, string(page), "\n```yaml\n"+string(rules)+"```\n")
}
