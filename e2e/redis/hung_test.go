//go:build e2e

package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/e2e/internal/lateness"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// Three limits that share a client are asked one after the other. The server hangs: that is
// found out once.
func TestHung_LimitsThatShareAClientWaitOnce(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			inTime(t, func(timeout time.Duration) trial { return waitOnce(t, w, timeout) })
		})
	}
}

func waitOnce(t *testing.T, w way, timeout time.Duration) trial {
	t.Helper()
	server := versions[0].start(t)
	client := w.prompt(t, server.Addr())
	var all []limit.Limiter
	for _, prefix := range []string{"a:", "b:", "c:"} {
		c := newCounter(t, client, leapredis.Config{
			Prefix: prefix, Limit: 1 << 40, Window: time.Hour, Timeout: timeout, Instances: 4,
		})
		warmUp(t, c)
		all = append(all, c)
	}
	group := limit.All(all...)
	require.NoError(t, server.Pause())
	ctx, stop := context.WithCancel(t.Context())
	late := lateness.Measure(ctx, 1, timeout/4)
	var longest time.Duration
	for range 10 {
		began := time.Now()
		d, err := group.AllowN(t.Context(), hot, 1)
		require.NoError(t, err)
		require.True(t, d.Degraded)
		longest = max(longest, time.Since(began))
	}
	stop()
	require.NoError(t, server.Resume())
	t.Logf("a call of three limits took up to %v, with %v for the server", longest.Round(100*time.Microsecond), timeout)
	if longest < 2*timeout {
		return trial{late: late.Wait()}
	}
	return trial{late.Wait(), []string{fmt.Sprintf("a call of three limits took %v, with %v for the server", longest, timeout)}}
}
