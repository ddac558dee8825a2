package leapredis

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// manyDue gives a server that takes its time many leases to give back.
func manyDue(count int) (*returns, *atomic.Int64) {
	begun := time.Now()
	var back atomic.Int64
	r := &returns{now: func() int64 { return int64(time.Since(begun)) }, gap: time.Millisecond, patience: 50 * time.Millisecond}
	r.back = func(due) {
		time.Sleep(10 * time.Millisecond)
		back.Add(1)
	}
	for range count {
		r.add(due{lease: &lease{end: int64(time.Second)}})
	}
	return r, &back
}

func (r *returns) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

func TestReturns_CloseDoesNotWaitForAll(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"before": 0, "meanwhile": 1100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, back := manyDue(100_000)
				time.Sleep(after)
				was, begun := back.Load(), time.Now()
				r.close()
				require.LessOrEqual(t, time.Since(begun), 70*time.Millisecond)
				require.GreaterOrEqual(t, back.Load()-was, int64(4*atOnce))
			})
		})
	}
}

func TestReturns_TheQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, back := manyDue(maxDue + 1000)
		require.Equal(t, maxDue, r.size())
		time.Sleep(time.Minute)
		require.EqualValues(t, maxDue, back.Load())
		r.close()
		r.add(due{lease: &lease{}})
		require.Zero(t, r.size())
	})
}

// Each is given back when it ends, and not with the first.
func TestReturns_EachInItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, back := manyDue(1)
		r.add(due{lease: &lease{end: int64(1500 * time.Millisecond)}})
		time.Sleep(1400 * time.Millisecond)
		require.EqualValues(t, 1, back.Load())
		time.Sleep(120 * time.Millisecond)
		require.EqualValues(t, 2, back.Load())
		r.close()
	})
}
