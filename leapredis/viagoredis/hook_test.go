package viagoredis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leapredis/internal/scripted"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
)

// reply is an error that a server replied.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestHook_OutcomesOfErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want leapgate.Outcome
	}{
		{nil, leapgate.Success},
		{redis.Nil, leapgate.Success},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), leapgate.Success},
		{reply("NOAUTH Authentication required."), leapgate.Success},
		{reply("BUSYKEY Target key name already exists."), leapgate.Success},
		{fmt.Errorf("get: %w", reply("ERR unknown command 'x'")), leapgate.Success},
		{reply("LOADING Redis is loading the dataset in memory"), leapgate.Failure},
		{fmt.Errorf("get: %w", reply("CLUSTERDOWN The cluster is down")), leapgate.Failure},
		{reply("MASTERDOWN Link with MASTER is down"), leapgate.Failure},
		{reply("READONLY You can't write against a read only replica."), leapgate.Failure},
		{reply("NOREPLICAS Not enough good replicas to write."), leapgate.Failure},
		{reply("MISCONF Errors writing to the AOF file"), leapgate.Failure},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), leapgate.Failure},
		{reply("BUSY Redis is busy running a script."), leapgate.Failure},
		{reply("ERR max number of clients reached"), leapgate.Failure},
		{reply("ERR LOADING the dataset"), leapgate.Failure}, // some servers prepend ERR
		{io.EOF, leapgate.Failure},
		{context.DeadlineExceeded, leapgate.Failure},
		{errors.New("LOADING, but not by the server"), leapgate.Failure},
		{fmt.Errorf("dial: %w", leapgatetest.Block("breaker", "dials", 1, 1, 0)), leapgate.Ignored},
	} {
		r := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock()).Resource("redis")
		hook := viagoredis.Hook(r)
		get := redis.NewStringCmd(t.Context(), "get", "a")
		require.Equal(t, test.err, hook.ProcessHook(func(context.Context, redis.Cmder) error { return test.err })(t.Context(), get))
		// The first command of a pipeline succeeds, and its error alone says nothing of the second.
		require.NoError(t, hook.ProcessPipelineHook(func(_ context.Context, cmds []redis.Cmder) error {
			cmds[1].SetErr(test.err)
			return nil
		})(t.Context(), []redis.Cmder{redis.NewStatusCmd(t.Context(), "ping"), get}))
		s := r.Snapshot()
		require.Equal(t, [3]int64{2, 2, 0}, [3]int64{s.Pass, s.Success, s.Concurrency})
		require.Equal(t, test.want == leapgate.Failure, s.Exception == 2, "%v", test.err)
		require.Equal(t, test.want == leapgate.Ignored, s.Ignored == 2, "%v", test.err)
	}
}

func TestHook_APanicIsAFailure(t *testing.T) {
	t.Parallel()
	r := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock()).Resource("redis")
	process := viagoredis.Hook(r).ProcessHook(func(context.Context, redis.Cmder) error { panic("oops") })
	require.PanicsWithValue(t, "oops", func() { _ = process(t.Context(), redis.NewStatusCmd(t.Context(), "ping")) })
	require.EqualValues(t, 1, r.Snapshot().Exception)
}

// A blocked pipeline sends nothing, and each of its commands has the error.
func TestHook_ABlockedPipeline(t *testing.T) {
	t.Parallel()
	gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{ID: "none", Resource: "redis", MaxInFlight: 1}}}))
	r := gate.Resource("redis")
	entry, err := r.Entry()
	require.NoError(t, err)
	defer entry.Exit()
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a blocked pipeline dials")
		return nil, io.EOF
	}})
	defer client.Close()
	client.AddHook(viagoredis.Hook(r))
	cmds, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Get(t.Context(), "a")
		p.Get(t.Context(), "b")
		return nil
	})
	leapgatetest.RequireBlocked(t, err, "none")
	for _, cmd := range cmds {
		leapgatetest.RequireBlocked(t, cmd.Err(), "none")
	}
}

// A blocked UNWATCH would put a connection with watched keys back into the pool, where they fail
// the next transaction.
func TestHook_UnwatchIsNotBlocked(t *testing.T) {
	t.Parallel()
	gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{ID: "one", Resource: "redis", MaxInFlight: 1}}}))
	r := gate.Resource("redis")
	var sent []string
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	client.AddHook(viagoredis.Hook(r))
	client.AddHook(answers{func(cmd redis.Cmder) { sent = append(sent, cmd.Name()) }})
	err := client.Watch(t.Context(), func(tx *redis.Tx) error {
		entry, err := r.Entry() // another caller takes the only permit
		require.NoError(t, err)
		t.Cleanup(entry.Exit)
		_, err = tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Set(t.Context(), "a", 1, 0).Err() })
		return err
	}, "a")
	leapgatetest.RequireBlocked(t, err, "one")
	require.Equal(t, []string{"watch", "unwatch"}, sent)
	require.EqualValues(t, 2, r.Snapshot().Pass, "UNWATCH is no call")
}

// answers is a hook that answers commands in place of a server.
type answers struct{ to func(redis.Cmder) }

func (a answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { a.to(cmd); return nil }
}

func (a answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Connecting takes several commands, and the server cuts the connection twice. All that is one call,
// so one permit of a limit, or one probe of a breaker, is enough.
func TestHook_ConnectingAndRetriesAreOneCall(t *testing.T) {
	t.Parallel()
	gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, gate.LoadRules(leapgate.Rules{
		Isolation: []isolation.Rule{{Resource: "redis", MaxInFlight: 1}},
		Breaker:   []breaker.Rule{{Resource: "redis", Consecutive: 1, MinCalls: 1, OpenFor: time.Hour}},
	}))
	r := gate.Resource("redis")
	cuts := 0
	s := &scripted.Server{Answer: func([]string) string {
		if cuts++; cuts <= 2 {
			return ""
		}
		return ":7\r\n"
	}}
	client := redis.NewClient(&redis.Options{
		DB: 1, ClientName: "guarded", MinRetryBackoff: -1, MaxRetryBackoff: -1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return s.Dial() },
	})
	client.AddHook(viagoredis.Hook(r))
	n, err := client.Eval(t.Context(), "return 7", nil).Int()
	require.NoError(t, err)
	require.Equal(t, 7, n)
	require.Len(t, s.Calls(), 3)
	snapshot := r.Snapshot()
	require.Equal(t, [4]int64{1, 1, 0, 0}, [4]int64{snapshot.Pass, snapshot.Success, snapshot.Exception, snapshot.Block})
	require.NoError(t, client.Close())
	s.Wait()
}
