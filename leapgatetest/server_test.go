package leapgatetest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leapgatetest"
)

// get asks a server, until ctx ends.
func get(ctx context.Context, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func TestServer_AnswersWithItsStatuses(t *testing.T) {
	t.Parallel()
	server := leapgatetest.Server(t, 200, 503, 204)
	for _, want := range []int{200, 503, 204, 204} {
		got, err := get(t.Context(), server.URL)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestServer_HangsUntilTheClientLeaves(t *testing.T) {
	t.Parallel()
	server := leapgatetest.Server(t, leapgatetest.Hang)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := get(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { cancel() },
	}), server.URL)
	require.ErrorIs(t, err, context.Canceled)
}

func TestServer_SeesThatAClientWithABodyLeaves(t *testing.T) {
	t.Parallel()
	hang := leapgatetest.Server(t, leapgatetest.Hang).Config.Handler
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		hang.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { cancel() },
	}), http.MethodPost, server.URL, strings.NewReader("body"))
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err = client.Do(r) //nolint:bodyclose // there is no answer
	require.ErrorIs(t, err, context.Canceled)
	<-left
}

func TestServer_HangsUntilTheTestEnds(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{})
	require.Empty(t, try(t, func(one *test) {
		server := leapgatetest.Server(one, leapgatetest.Hang)
		asked := make(chan struct{})
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { close(asked) },
		})
		go func() {
			_, _ = get(ctx, server.URL)
			close(answered)
		}()
		<-asked
	}))
	<-answered
}

func TestServer_BadStatuses(t *testing.T) {
	t.Parallel()
	require.Equal(t, "leapgatetest: the server has no statuses; want some", try(t, func(t *test) { leapgatetest.Server(t) }))
	for _, status := range []int{-1, 100, 600} {
		want := fmt.Sprintf("leapgatetest: a status of the server is %d; want 200 to 599, or Hang", status)
		require.Equal(t, want, try(t, func(t *test) { leapgatetest.Server(t, 200, status) }))
	}
}
