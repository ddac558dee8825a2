//go:build e2e

package redis

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
)

// guarded returns a go-redis client that a gate guards, which counts how often it dials.
func guarded(t *testing.T, addr string, clock *leapgatetest.Clock, rules leapgate.Rules) (*goredis.Client, *leapgatetest.Gate, *atomic.Int64) {
	t.Helper()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	require.NoError(t, gate.LoadRules(rules))
	var dials atomic.Int64
	client := goredis.NewClient(&goredis.Options{
		Addr: addr, DB: 1, ClientName: "guarded", // so that connecting takes several commands
		MaxRetries: -1, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Inc()
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	})
	client.AddHook(viagoredis.Hook(gate.Resource("redis")))
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client, gate, &dials
}

// One probe is enough, though it has to connect, which takes commands of its own.
func TestGoRedis_TenDialErrorsOpenABreakerAndOneProbeClosesIt(t *testing.T) {
	t.Parallel()
	server := versions[0].start(t)
	line, err := redistest.NewProxy(server.Addr())
	require.NoError(t, err)
	require.NoError(t, line.Set(redistest.Fault{Refuse: true}))
	t.Cleanup(line.Close)
	clock := leapgatetest.NewClock()
	client, gate, dials := guarded(t, line.Addr(), clock, leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "redis-breaker", Resource: "redis", ErrorRatio: 0.5, MinCalls: 10, OpenFor: time.Second, Probes: 1},
	}})
	for range 10 {
		err := client.Get(t.Context(), "a").Err()
		require.Error(t, err)
		require.NotErrorIs(t, err, leapgate.ErrBlocked)
	}
	require.EqualValues(t, 10, gate.Lookup("redis").Snapshot().Exception)
	before := dials.Load()
	for range 100 {
		leapgatetest.RequireBlocked(t, client.Get(t.Context(), "a").Err(), "redis-breaker")
	}
	require.Equal(t, before, dials.Load())

	require.NoError(t, line.Set(redistest.Fault{}))
	clock.Advance(time.Second)
	require.ErrorIs(t, client.Get(t.Context(), "a").Err(), goredis.Nil)
	for range 100 {
		require.ErrorIs(t, client.Get(t.Context(), "a").Err(), goredis.Nil)
	}
	s := gate.Lookup("redis").Snapshot()
	require.Equal(t, [2]int64{10, 0}, [2]int64{s.Exception, s.Concurrency})
}

func TestGoRedis_AnswersOfTheServerOpenNoBreaker(t *testing.T) {
	t.Parallel()
	server := versions[0].start(t)
	client, gate, _ := guarded(t, server.Addr(), nil, leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "redis-breaker", Resource: "redis", ErrorCount: 1, MinCalls: 1, OpenFor: time.Hour},
	}})
	for range 100 {
		require.ErrorIs(t, client.Get(t.Context(), "a").Err(), goredis.Nil)
	}
	require.NoError(t, client.Set(t.Context(), "s", "text", 0).Err())
	for range 100 {
		require.ErrorContains(t, client.LPush(t.Context(), "s", "b").Err(), "WRONGTYPE")
		_, err := client.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			p.Get(t.Context(), "a")
			p.Get(t.Context(), "s")
			return nil
		})
		require.ErrorIs(t, err, goredis.Nil)
		require.ErrorContains(t, client.Do(t.Context(), "no", "such", "command").Err(), "unknown command")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, client.Get(ctx, "a").Err(), context.Canceled)
	s := gate.Lookup("redis").Snapshot()
	require.Zero(t, s.Exception)
	require.Zero(t, s.Block)
	require.Zero(t, s.Concurrency)
}

// What the server answers when it has no memory or no replicas, or only reads, is a failure.
func TestGoRedis_AServerThatCannotServeOpensABreaker(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string][]string{
		"OOM":        {"CONFIG", "SET", "maxmemory", "1"},
		"NOREPLICAS": {"CONFIG", "SET", "min-replicas-to-write", "1"},
		"READONLY":   {"REPLICAOF", "127.0.0.1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := versions[0].start(t)
			_, err := server.Do(setting...)
			require.NoError(t, err)
			client, gate, _ := guarded(t, server.Addr(), nil, leapgate.Rules{Breaker: []breaker.Rule{
				{ID: "redis-breaker", Resource: "redis", Consecutive: 1, MinCalls: 1, OpenFor: time.Hour},
			}})
			require.ErrorContains(t, client.Set(t.Context(), "a", "b", 0).Err(), name)
			require.EqualValues(t, 1, gate.Lookup("redis").Snapshot().Exception)
			leapgatetest.RequireBlocked(t, client.Get(t.Context(), "a").Err(), "redis-breaker")
		})
	}
}

// A limit below what the pool has: what is refused, the caller is told; nothing stays in flight.
func TestGoRedis_ManyCommandsAtOnce(t *testing.T) {
	t.Parallel()
	const goroutines, commands = 32, 300
	server := versions[0].start(t)
	client, gate, _ := guarded(t, server.Addr(), nil, leapgate.Rules{Isolation: []isolation.Rule{
		{ID: "redis-places", Resource: "redis", MaxInFlight: 4},
	}})
	var passed, blocked atomic.Int64
	var all sync.WaitGroup
	for id := range goroutines {
		all.Go(func() {
			for i := range commands {
				switch err := client.Set(t.Context(), fmt.Sprint(id), i, 0).Err(); {
				case err == nil:
					passed.Inc()
				case leapgatetest.RequireBlocked(t, err, "redis-places") != nil:
					blocked.Inc()
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, goroutines*commands, passed.Load()+blocked.Load())
	s := gate.Lookup("redis").Snapshot()
	require.Zero(t, s.Concurrency)
	require.Zero(t, s.Exception)
	require.Equal(t, s.Pass, s.Success)
	require.Equal(t, [2]int64{passed.Load(), blocked.Load()}, [2]int64{s.Pass, s.Block})
}
