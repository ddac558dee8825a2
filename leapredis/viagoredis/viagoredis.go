// Package viagoredis lets the limiters of leapredis use a client of
// github.com/redis/go-redis: a single node's, Sentinel's or a Cluster's.
//
//	client := redis.NewUniversalClient(&redis.UniversalOptions{
//		Addrs: []string{"10.0.0.1:6379"}, DialTimeout: time.Second, ReadTimeout: time.Second,
//	})
//	…
//	defer client.Close()
//	perClient, err := leapredis.NewCounter(viagoredis.New(client), leapredis.Config{…})
//
// By default, go-redis sends what it got no answer to up to four times. The commands of
// this package say that they are not to be sent again, so no script is counted twice,
// whatever MaxRetries is. It follows a redirection of a Cluster, after which nothing was
// executed.
//
// In a Cluster, the limiters know of each node by itself whether it is away, since go-redis
// names the node of a key. A Ring names none: use a Cluster.
//
// go-redis has a connection for each call under way, so it is slower than rueidis where
// many goroutines call: see BENCHMARKS.md. A connection on which nothing is answered is held
// for ReadTimeout, also after the limiter has given up the call. When a call times out, the
// idle connections to its server are pinged, and those that do not answer within 500ms are
// closed. So a server is found again soon although the connections to it have died unnoticed,
// provided that the pool is larger than the number of calls that wait for ReadTimeout.
package viagoredis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leapgate-go/leapgate/leapredis"
)

// New makes a [leapredis.Client] of a go-redis client.
func New(client redis.UniversalClient) leapredis.Client { return adapter{client} }

type adapter struct{ client redis.UniversalClient }

// Node returns the address of the node of a Cluster that keeps key, as far as the client knows.
func (a adapter) Node(key string) string {
	if _, ok := a.client.(*redis.ClusterClient); ok {
		if node := a.node(key); node != nil {
			return node.Options().Addr
		}
	}
	return ""
}

// node returns the client of the server that keeps key, or nil if that is not known. It sends
// nothing to a Cluster of which a script was answered.
func (a adapter) node(key string) *redis.Client {
	switch client := a.client.(type) {
	case *redis.Client:
		return client
	case *redis.ClusterClient:
		if node, err := client.MasterForKey(context.Background(), key); err == nil {
			return node
		}
	}
	return nil
}

// idleTimeout is how long an idle connection may take to answer a ping.
const idleTimeout = 500 * time.Millisecond

// checked holds the clients of servers whose idle connections are being checked.
var checked sync.Map // of *redis.Client

// CheckIdle pings all idle connections to the server of key at once. go-redis closes those
// that do not answer in time.
func (a adapter) CheckIdle(key string) {
	go func() {
		client := a.node(key)
		if client == nil {
			return
		}
		if _, busy := checked.LoadOrStore(client, nil); busy {
			return
		}
		defer checked.Delete(client)
		ctx, cancel := context.WithTimeout(context.Background(), idleTimeout)
		defer cancel()
		impatient := client.WithTimeout(idleTimeout)
		var pings sync.WaitGroup
		for range client.PoolStats().IdleConns {
			pings.Go(func() { _ = impatient.Process(ctx, ping{redis.NewStatusCmd(ctx, "ping")}) })
		}
		pings.Wait()
	}()
}

// ping is a command that go-redis sends only once, so it checks one connection.
type ping struct{ *redis.StatusCmd }

// NoRetry says so.
func (ping) NoRetry() bool { return true }

// once is a command that go-redis sends only once. (By default it repeats what it got no
// answer to, and a script that counts would count twice.)
type once struct{ *redis.IntSliceCmd }

// NoRetry says so.
func (once) NoRetry() bool { return true }

func (a adapter) EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error) {
	return a.do(ctx, "evalsha", sha, key, args)
}

func (a adapter) Eval(ctx context.Context, script, key string, args ...string) ([]int64, error) {
	return a.do(ctx, "eval", script, key, args)
}

func (a adapter) do(ctx context.Context, name, script, key string, args []string) ([]int64, error) {
	all := make([]any, 4, 4+len(args))
	all[0], all[1], all[2], all[3] = name, script, 1, key
	for _, arg := range args {
		all = append(all, arg)
	}
	command := once{redis.NewIntSliceCmd(ctx, all...)}
	_ = a.client.Process(ctx, command) // its error is the command's
	reply, err := command.Result()
	var replied redis.Error
	if errors.As(err, &replied) && !errors.Is(err, redis.Nil) {
		return nil, &leapredis.ReplyError{Text: replied.Error()}
	}
	if cluster, ok := a.client.(*redis.ClusterClient); ok && err != nil {
		// It would do so by itself before it tried again: a replica may have taken over.
		cluster.ReloadState(ctx)
	}
	return reply, err
}
