//go:build e2e

package redis

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
)

const silentConns = 300

// All connections of a client go silent, idle ones included, while new ones work: an address has
// moved, or a router has forgotten them. The server decides again within 1.5s.
func TestSilent_ConnectionsOfAHealthyServer(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(timeout time.Duration) trial { return silence(t, w, timeout) })
		})
	}
}

func silence(t *testing.T, w way, timeout time.Duration) trial {
	t.Helper()
	l := newLine(t)
	client := w.prompt(t, l.proxy.Addr())
	if w.name == "go-redis" {
		client = manyIdle(t, l.proxy.Addr())
	}
	c := newCounter(t, client, leapredis.Config{Limit: 1 << 40, Window: time.Hour, Timeout: timeout})
	warmUp(t, c)
	calls := askFor(t, c, timeout)
	sleep(t, 300*time.Millisecond)
	l.proxy.Silence()
	silent := time.Now()
	awaiting(t, "the policy decides", func() bool { return count(calls.since(silent), degraded) > 0 })
	awaiting(t, "the server is asked again", func() bool { return count(calls.since(silent.Add(1500*time.Millisecond)), shared) > 0 })
	sleep(t, time.Second)
	var last time.Duration
	for _, a := range calls.end() {
		if a.Degraded {
			last = max(last, a.began.Sub(silent))
		}
	}
	late := calls.late.Wait()
	t.Logf("the server decides again after %v", last.Round(time.Millisecond))
	if may := 1500*time.Millisecond + 2*late + 4*(timeout-leapredis.DefaultTimeout); last > may {
		return trial{late, []string{fmt.Sprintf("the policy decided for %v, and may for %v", last, may)}}
	}
	return trial{late: late}
}

// manyIdle returns a client of go-redis with that many idle connections.
func manyIdle(t *testing.T, addr string) leapredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: silentConns})
	t.Cleanup(func() { _ = client.Close() })
	var conns [silentConns]*goredis.Conn
	gatetest.AtOnce(silentConns, func(i int) {
		conns[i] = client.Conn()
		if err := conns[i].Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.EqualValues(t, silentConns, client.PoolStats().IdleConns)
	return viagoredis.New(client)
}
