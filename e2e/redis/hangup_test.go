//go:build e2e

package redis

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/leapredis"
)

// distant is a client of a server that is 20 ms away.
type distant struct{ leapredis.Client }

func (d distant) EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error) {
	time.Sleep(20 * time.Millisecond)
	return d.Client.EvalSHA(ctx, sha, key, args...)
}

// A client that hangs up before the server has answered is charged all the same, is refused
// when its limit is used up, and that is remembered: it does not reach the server any more.
func TestHTTP_HangingUpIsNotFree(t *testing.T) {
	t.Parallel()
	server := versions[0].start(t)
	const limit, requests = 30, 300
	shared := newCounter(t, distant{ways[0].client(t, server.Addr())}, leapredis.Config{
		Name: "shared", Limit: limit, Window: time.Hour, Timeout: 10 * time.Second, LeaseTime: time.Minute,
	})
	done := make(chan int, requests)
	guarded := leaphttp.Handler(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: shared}}},
	)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		guarded.ServeHTTP(recorded, r)
		done <- recorded.Code
	}))
	t.Cleanup(web.Close)
	for range requests {
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, err)
		time.Sleep(time.Millisecond)
		require.NoError(t, conn.Close())
	}
	statuses := make(map[int]int)
	for range requests {
		statuses[<-done]++
	}
	asked := shared.Link().RoundTrips
	t.Logf("%v, %d round trips", statuses, asked)
	require.Equal(t, requests-limit, statuses[429])
	require.EqualValues(t, limit, heldIn(t, server, "test:"))
	require.Less(t, asked, int64(requests/2), "beyond the limit only those ask that were under way when it was reached")
}
