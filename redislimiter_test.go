package leapgate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
)

// answer is an error that a server of Redis answered, as go-redis has them.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestRedisLimiter_OutcomesOfResults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result error
		want   leapgate.Outcome
	}{
		{nil, leapgate.Success},
		{answer("redis: nil"), leapgate.Success},
		{answer("WRONGTYPE Operation against a key holding the wrong kind of value"), leapgate.Success},
		{answer("MOVED 3999 127.0.0.1:6381"), leapgate.Success},
		{answer("NOAUTH Authentication required."), leapgate.Success},
		{answer("BUSYKEY Target key name already exists."), leapgate.Success},
		{answer("TRYAGAIN Multiple keys request during rehashing of slot"), leapgate.Success},
		{fmt.Errorf("get: %w", answer("ERR unknown command 'x'")), leapgate.Success},
		{answer("LOADING Redis is loading the dataset in memory"), leapgate.Failure},
		{fmt.Errorf("get: %w", answer("CLUSTERDOWN The cluster is down")), leapgate.Failure},
		{answer("MASTERDOWN Link with MASTER is down"), leapgate.Failure},
		{answer("READONLY You can't write against a read only replica."), leapgate.Failure},
		{answer("NOREPLICAS Not enough good replicas to write."), leapgate.Failure},
		{answer("MISCONF Errors writing to the AOF file"), leapgate.Failure},
		{answer("OOM command not allowed when used memory > 'maxmemory'."), leapgate.Failure},
		{answer("BUSY Redis is busy running a script."), leapgate.Failure},
		{answer("ERR max number of clients reached"), leapgate.Failure},
		{answer("ERR LOADING it"), leapgate.Failure}, // as some servers have it
		{io.EOF, leapgate.Failure},
		{context.DeadlineExceeded, leapgate.Failure},
		{errors.New("LOADING, but not by the server"), leapgate.Failure},
		{fmt.Errorf("get: %w", context.Canceled), leapgate.Ignored},
		{fmt.Errorf("dial: %w", leapgatetest.Block("breaker", "dials", 1, 1, 0)), leapgate.Ignored},
	} {
		gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
		r := gate.Resource("redis")
		l := leapgate.RedisLimiter(r)
		require.NoError(t, l.Allow())
		require.EqualValues(t, 1, r.Snapshot().Concurrency)
		l.ReportResult(test.result)
		s := r.Snapshot()
		require.Zero(t, s.Concurrency)
		require.EqualValues(t, 1, s.Success)
		require.Equal(t, test.want == leapgate.Failure, s.Exception == 1, "%v", test.result)
		require.Equal(t, test.want == leapgate.Ignored, s.Ignored == 1, "%v", test.result)
	}
}

func TestRedisLimiter_AReportWithoutACallDoesNothing(t *testing.T) {
	t.Parallel()
	gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	l := leapgate.RedisLimiter(gate.Resource("redis"))
	l.ReportResult(io.EOF)
	require.NoError(t, l.Allow())
	l.ReportResult(nil)
	l.ReportResult(io.EOF)
	s := gate.Lookup("redis").Snapshot()
	require.Equal(t, [2]int64{1, 0}, [2]int64{s.Success, s.Exception})
}

func TestRedisLimiter_ABreakerGuardsTheClient(t *testing.T) {
	t.Parallel()
	clock := leapgatetest.NewClock()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "redis-breaker", Resource: "redis", ErrorRatio: 0.5, OpenFor: time.Second, Probes: 1},
	}}))
	l := leapgate.RedisLimiter(gate.Resource("redis"))
	for range 100 {
		require.NoError(t, l.Allow())
		l.ReportResult(answer("redis: nil"))
	}
	for range 100 {
		require.NoError(t, l.Allow())
		l.ReportResult(io.EOF)
	}
	leapgatetest.RequireBlocked(t, l.Allow(), "redis-breaker")
	clock.Advance(time.Second)
	require.NoError(t, l.Allow())
	require.Error(t, l.Allow())
	l.ReportResult(nil)
	require.NoError(t, l.Allow())
	l.ReportResult(nil)
}

// Calls begin at 0, 1, 2, … and end in the reverse order: each report is taken for the oldest call's.
func TestRedisLimiter_TheOldestCallEndsFirst(t *testing.T) {
	t.Parallel()
	clock := leapgatetest.NewClock()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	l := leapgate.RedisLimiter(gate.Resource("redis"))
	for range 3 {
		require.NoError(t, l.Allow())
		clock.Advance(time.Second)
	}
	for range 3 { // each lasted 3 s by this pairing, and 1, 3 and 5 s in truth
		l.ReportResult(nil)
		clock.Advance(time.Second)
	}
	totals := gate.Totals()
	i := slices.IndexFunc(totals, func(one resource.Totals) bool { return one.Resource == "redis" })
	require.EqualValues(t, 9*time.Second, totals[i].Counts[metric.RT])
}

func TestRedisLimiter_CallsInFlightAreBounded(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	r := gate.Resource("redis")
	l := leapgate.RedisLimiter(r)
	const most = 65_536
	for range most + 3 {
		require.NoError(t, l.Allow())
	}
	require.EqualValues(t, most, r.Snapshot().Concurrency)
	require.EqualValues(t, 3, r.Snapshot().Ignored)
	for range most + 3 {
		l.ReportResult(nil)
	}
	s := r.Snapshot()
	require.Equal(t, [4]int64{most + 3, most + 3, 3, 0}, [4]int64{s.Pass, s.Success, s.Ignored, s.Concurrency})
}

// baseClient has the name of the type of go-redis that sets up connections: with commands, which ask
// the limiter again.
type baseClient struct{ leapgate.Limiter }

func (c *baseClient) initConn() error {
	for range 3 {
		if err := c.Allow(); err != nil {
			return err
		}
		c.ReportResult(nil)
	}
	return nil
}

// A single probe, or place, must be enough for a command that has to connect.
func TestRedisLimiter_WhatSetsUpAConnectionIsPartOfItsCall(t *testing.T) {
	t.Parallel()
	gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{ID: "alone", Resource: "redis", MaxInFlight: 1}}}))
	l := leapgate.RedisLimiter(gate.Resource("redis"))
	c := &baseClient{l}
	for range 3 {
		require.NoError(t, l.Allow())
		require.NoError(t, c.initConn())
		leapgatetest.RequireBlocked(t, l.Allow(), "alone")
		l.ReportResult(nil)
	}
	s := gate.Lookup("redis").Snapshot()
	require.Equal(t, [3]int64{3, 3, 0}, [3]int64{s.Pass, s.Success, s.Concurrency})
	require.NoError(t, c.initConn(), "it is admitted by itself")
}

func TestRedisLimiter_ManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	const goroutines, places = 64, 8
	rounds := gatetest.Rounds(1000)
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{Resource: "redis", MaxInFlight: places}}}))
	l := leapgate.RedisLimiter(gate.Resource("redis"))
	var inside, passed, failed, blocked atomic.Int64
	var all sync.WaitGroup
	for id := range goroutines {
		all.Go(func() {
			for i := range rounds {
				if err := l.Allow(); err != nil {
					blocked.Inc()
					continue
				}
				if inside.Inc() > places {
					t.Error("too many are inside")
				}
				if id%2 == 0 && (&baseClient{l}).initConn() != nil {
					t.Error("a part of a call was refused")
				}
				inside.Dec()
				passed.Inc()
				if i%3 == 0 {
					failed.Inc()
					l.ReportResult(io.EOF)
				} else {
					l.ReportResult(nil)
				}
			}
		})
	}
	all.Wait()
	s := gate.Lookup("redis").Snapshot()
	require.Zero(t, s.Concurrency)
	require.Equal(t, s.Pass, s.Success)
	require.EqualValues(t, goroutines*rounds, passed.Load()+blocked.Load())
	require.Equal(t, failed.Load(), s.Exception)
	require.GreaterOrEqual(t, s.Pass, passed.Load())
	for range places {
		require.NoError(t, l.Allow())
	}
	require.Error(t, l.Allow())
	for range places {
		l.ReportResult(nil)
	}
}
