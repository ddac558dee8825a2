package docs_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// webhooks returns a client for calls to hosts that customers choose: each host has 10 calls a
// second, 5 at a time, and a breaker of its own.
func webhooks(gate *leapgate.Gate) (*http.Client, error) {
	err := gate.EditRules(func(rules *leapgate.Rules) error {
		rules.Isolation = append(rules.Isolation, isolation.Rule{
			ID: "webhook-places", Resource: "POST *", Match: rule.Glob, MaxInFlight: 5,
		})
		rules.Breaker = append(rules.Breaker, breaker.Rule{
			ID: "webhook-breaker", Resource: "POST *", Match: rule.Glob,
			MinCalls: 5, Consecutive: 5, OpenFor: 10 * time.Second, MaxOpenFor: 10 * time.Minute, Probes: 1,
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	perHost, err := limit.NewBurst(limit.Config{Name: "per-host", Limit: 10, Window: time.Second})
	if err != nil {
		return nil, err
	}
	transport, err := leaphttp.NewTransport(leaphttp.TransportConfig{
		Gate:   gate,                                 // the resources are "POST host"
		Limits: []leaphttp.Limit{{Limiter: perHost}}, // by host, unless Key says otherwise
	})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}, nil
}

// call sends one webhook and returns its status, or its error.
func call(t *testing.T, client *http.Client, url string) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	require.NoError(t, err)
	got, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	require.NoError(t, got.Body.Close())
	return got.StatusCode, nil
}

func newWebhooks(t *testing.T) *http.Client {
	t.Helper()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	client, err := webhooks(gate)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func TestWebhooks_AHostThatFailsIsLeftAloneAndTakesNoOtherAlong(t *testing.T) {
	t.Parallel()
	client := newWebhooks(t)
	var asked atomic.Int64
	broken := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	well := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 5 {
		status, err := call(t, client, broken.URL)
		require.NoError(t, err)
		require.Equal(t, 500, status)
	}
	_, err := call(t, client, broken.URL)
	require.Positive(t, leapgatetest.RequireBlocked(t, err, "webhook-breaker").RetryAfter)
	require.EqualValues(t, 5, asked.Load())
	status, err := call(t, client, well.URL)
	require.NoError(t, err)
	require.Equal(t, 200, status)
}

func TestWebhooks_AHostThatHangsHoldsFiveCallsAndNoMore(t *testing.T) {
	t.Parallel()
	client := newWebhooks(t)
	begun, end := make(chan struct{}, 5), make(chan struct{})
	slow := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	}))
	well := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ended := make(chan error, 5)
	for range 5 {
		go func() {
			got, err := client.Post(slow.URL, "application/json", strings.NewReader("{}"))
			if err == nil {
				err = got.Body.Close()
			}
			ended <- err
		}()
	}
	for range 5 {
		<-begun
	}
	_, err := call(t, client, slow.URL)
	leapgatetest.RequireBlocked(t, err, "webhook-places")
	_, err = call(t, client, well.URL)
	require.NoError(t, err)
	close(end)
	for range 5 {
		require.NoError(t, <-ended)
	}
}

func TestWebhooks_AServerThatAsksToWaitIsNotAskedMeanwhile(t *testing.T) {
	t.Parallel()
	client := newWebhooks(t)
	var asked atomic.Int64
	busy := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	status, err := call(t, client, busy.URL)
	require.NoError(t, err)
	require.Equal(t, 429, status)
	var refused *leaphttp.RefusedError
	_, err = call(t, client, busy.URL)
	require.ErrorAs(t, err, &refused)
	require.Greater(t, refused.RetryAfter, 50*time.Second)
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	require.EqualValues(t, 1, asked.Load())
}

func TestWebhooks_AHostGetsTenAtOnceAndThenTenASecond(t *testing.T) {
	t.Parallel()
	client := newWebhooks(t)
	var asked atomic.Int64
	host := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	began, refusals := time.Now(), int64(0)
	for range 100 {
		if _, err := call(t, client, host.URL); err != nil {
			var refused *leaphttp.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "per-host", refused.Policy)
			refusals++
		}
	}
	require.EqualValues(t, 100, asked.Load()+refusals)
	require.LessOrEqual(t, asked.Load(), 10+int64(time.Since(began)/(100*time.Millisecond)))
}
