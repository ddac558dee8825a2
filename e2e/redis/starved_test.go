//go:build e2e

package redis

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/e2e/internal/lateness"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/limit"
)

// Many goroutines spin, so that this process comes to its answers late. That is not taken for
// the server's fault. A machine that takes the processor from the server makes the server late,
// and not in all of three trials.
func TestStarved_AHealthyServerIsNotTakenForAway(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			var openings int64
			for range 3 {
				if openings = openingsWhileStarved(t, w); openings == 0 {
					break
				}
			}
			require.Zero(t, openings)
		})
	}
}

func openingsWhileStarved(t *testing.T, w way) int64 {
	t.Helper()
	server := versions[0].start(t)
	c := newCounter(t, w.prompt(t, server.Addr()), leapredis.Config{
		Limit: 1 << 40, Window: time.Hour, Timeout: leapredis.DefaultTimeout, Instances: 4,
	})
	warmUp(t, c)
	ctx, stop := context.WithCancel(context.Background())
	var spinning sync.WaitGroup
	for range 32 * runtime.GOMAXPROCS(0) {
		spinning.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = n
			}
		})
	}
	began := time.Now()
	var mu sync.Mutex
	calls, degraded := 0, 0
	gatetest.AtOnce(askers, func(int) {
		for time.Since(began) < 10*time.Second {
			d, err := c.AllowN(context.Background(), hot, 1)
			mu.Lock()
			calls++
			if err != nil {
				t.Error(err)
			}
			if d.Degraded {
				degraded++
			}
			mu.Unlock()
			time.Sleep(2 * time.Millisecond)
		}
	})
	stop()
	spinning.Wait()
	link := c.Link()
	t.Logf("%d of %d decisions (%.1f %%) were made without the server; it was taken for away %d times; %+v", degraded, calls,
		100*float64(degraded)/float64(calls), link.Openings, link)
	return link.Openings
}

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
