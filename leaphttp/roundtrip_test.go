package leaphttp_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// The time-out of an http.Client is a failure of the server, before the header and after.
func TestTransport_TimeoutOfTheClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer roundTripper
		use    func(t *testing.T, response *http.Response)
	}{
		"before the header": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, nil},
		"in the body": {func(r *http.Request) (*http.Response, error) { return answering(200, stallingFor(r))(r) }, func(t *testing.T, response *http.Response) {
			t.Helper()
			_, err := io.Copy(io.Discard, response.Body)
			var timeout interface{ Timeout() bool }
			require.ErrorAs(t, err, &timeout)
			require.True(t, timeout.Timeout())
		}},
		"in a body that is forgotten": {func(r *http.Request) (*http.Response, error) { return answering(200, stallingFor(r))(r) }, func(*testing.T, *http.Response) {
			time.Sleep(time.Hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := leapgate.Must(leapgate.Config{})
				client := &http.Client{Timeout: 3 * time.Second, Transport: leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: c.answer})}
				response, err := client.Do(outgoing(t, "http://a/")) //nolint:bodyclose // it is forgotten
				if c.use == nil {
					var timeout *url.Error
					require.ErrorAs(t, err, &timeout)
					require.True(t, timeout.Timeout())
				} else {
					require.NoError(t, err)
					c.use(t, response)
				}
				synctest.Wait()
				require.Equal(t, failure, ends(gate, "GET a"))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // which is not reached
		gate := leapgate.Must(leapgate.Config{})
		client := &http.Client{Timeout: 3 * time.Second, Transport: leaphttp.MustTransport(leaphttp.TransportConfig{
			Gate: gate, Base: answering(200, &body{Reader: strings.NewReader("hello")}),
		})}
		response, err := client.Do(outgoing(t, "http://a/"))
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, "hello", string(text))
		require.NoError(t, response.Body.Close())
		time.Sleep(time.Hour)
		require.Equal(t, success, ends(gate, "GET a"))
	})
}

func TestTransport_RefusalThroughAClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{
			{ID: "none", Resource: "POST a"},
			{ID: "slowly", Resource: "POST b", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour},
		}))
		s := &server{status: 200}
		client := &http.Client{Transport: leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: s})}
		post := func(host string) (*body, error) {
			b := &body{Reader: strings.NewReader("x")}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			ctx = gatetest.Unannounced(ctx)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/", b)
			require.NoError(t, err)
			_, err = client.Do(r) //nolint:bodyclose // there is none
			return b, err
		}
		b, err := post("a")
		blocked := leapgatetest.RequireBlocked(t, err, "none")
		require.Equal(t, []any{429, 1}, []any{blocked.Status, b.closed})

		_, err = post("b")
		require.NoError(t, err, "its turn comes at once")
		began := time.Now()
		b, err = post("b")
		require.ErrorAs(t, err, &blocked, "it waits as long as its context lasts")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []any{"slowly", 3 * time.Second, 1}, []any{blocked.RuleID, time.Since(began), b.closed})

		client.Timeout = 2 * time.Second // of which the client may make an error of its own
		began = time.Now()
		b, err = post("b")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []any{time.Duration(0), 1}, []any{time.Since(began), b.closed}, "its turn would come later than that")
		require.Equal(t, 1, s.calls)
		require.Equal(t, success, ends(gate, "POST b"))
	})
}

func TestTransport_RequestIsNotChanged(t *testing.T) {
	t.Parallel()
	var sent *http.Request
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gates.New(t, gatetest.NewClock()), Base: roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r
		return answering(200, &body{Reader: strings.NewReader("x")})(r)
	})})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://user:pw@EXAMPLE.com.:443/a?b=c", strings.NewReader("x"))
	require.NoError(t, err)
	r.Header.Set("X-A", "b")
	r.GetBody = nil // functions do not compare
	before := *r
	address, header := *r.URL, r.Header.Clone()
	response, err := rt.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, &before, r)
	sent.Body = r.Body // is watched
	require.Equal(t, r, sent)
	require.Equal(t, []any{address, header}, []any{*r.URL, r.Header})
}

// Names are bounded, also if a client chooses the method and the host.
func TestTransport_NameOfTheResource(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1021)
	for _, c := range []struct{ method, url, want string }{
		{"GET", "http://api.example.com/orders/7?user=9", "GET api.example.com"},
		{"", "http://api.example.com/", "GET api.example.com"},
		{"POST", "https://API.Example.Com:443/", "POST api.example.com"},
		{"POST", "https://api.example.com:80/", "POST api.example.com:80"},
		{"POST", "http://api.example.com.:80/", "POST api.example.com"},
		{"POST", "http://api.example.com.:8080/", "POST api.example.com:8080"},
		{"POST", "http://api.example.com:/", "POST api.example.com"},
		{"GET", "http://user:pw@a/", "GET a"},
		{"GET", "http://[2001:DB8::1]:80/", "GET [2001:db8::1]"},
		{"GET", "http://[2001:db8::1]:8080/", "GET [2001:db8::1]:8080"},
		{"PROPFIND", "http://a/", "OTHER a"},
		{"get", "http://a/", "OTHER a"},
		{"GET", "http://" + long[1:] + "/", "GET " + long[1:]},
		{"GET", "http://" + long + "/", "GET (unmatched)"},
		{"GET", "/", "GET (unmatched)"},
	} {
		gate := gates.New(t, gatetest.NewClock())
		rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: &server{status: 200}})
		address, err := url.Parse(c.url)
		require.NoError(t, err)
		response, err := rt.RoundTrip(&http.Request{Method: c.method, URL: address})
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, success, ends(gate, c.want), c)
	}
	gate := gates.New(t, gatetest.NewClock())
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{
		Gate: gate, Base: &server{status: 200}, Resource: func(r *http.Request) string { return r.URL.Host },
	})
	_, err := send(t, rt, "http://"+strings.Repeat("x", 5000)+"/")
	require.NoError(t, err)
	require.Len(t, gate.Snapshot(), 1)
	require.Less(t, len(gate.Snapshot()[0].Resource), 64, "its hash")
}
