// Package viarueidis lets the limiters of leapredis use a client of
// github.com/redis/rueidis, which pipelines by itself: the calls of many goroutines share
// a connection and a few system calls.
//
//	client, err := rueidis.NewClient(viarueidis.Options("10.0.0.1:6379"))
//	…
//	defer client.Close()
//	perClient, err := leapredis.NewCounter(viarueidis.New(client), leapredis.Config{…})
//
// With Sentinel, the addresses are those of the sentinels:
//
//	options := viarueidis.Options("10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379")
//	options.Sentinel = rueidis.SentinelOption{MasterSet: "mymaster"}
//
// In a Cluster, all keys share one breaker, because rueidis does not name the node of a key:
// while a node is away, most calls for keys of other nodes are decided by Config.WhenAway.
// With go-redis, each node has its own breaker.
//
// rueidis connects at once: its NewClient returns an error if no server answers. A program
// that is to start all the same tries again, or takes go-redis, which connects when it is
// first called.
//
// rueidis sends again only what reads, so no script is sent twice; it follows a redirection
// of a Cluster, after which nothing was executed. But leave ConnLifetime at 0: where a
// connection hangs when its life ends, rueidis sends again whatever it got no answer to.
package viarueidis

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/leapgate-go/leapgate/leapredis"
)

// New makes a [leapredis.Client] of a rueidis client.
func New(client rueidis.Client) leapredis.Client { return adapter{client} }

type adapter struct{ client rueidis.Client }

func (a adapter) EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error) {
	return a.do(ctx, a.client.B().Evalsha().Sha1(sha).Numkeys(1).Key(key).Arg(args...).Build())
}

func (a adapter) Eval(ctx context.Context, script, key string, args ...string) ([]int64, error) {
	return a.do(ctx, a.client.B().Eval().Script(script).Numkeys(1).Key(key).Arg(args...).Build())
}

func (a adapter) do(ctx context.Context, command rueidis.Completed) ([]int64, error) {
	reply, err := a.client.Do(ctx, command).AsIntSlice()
	var replied *rueidis.RedisError
	if errors.As(err, &replied) && !replied.IsNil() {
		return nil, &leapredis.ReplyError{Text: coded(replied.Error())}
	}
	return reply, err
}

// coded puts the code ERR back before an error of the server. (rueidis takes that off, and
// leaves the others.)
func coded(text string) string {
	code, _, _ := strings.Cut(text, " ")
	if code != "" && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return text
	}
	return "ERR " + text
}

// Options returns options for servers on a request path, for the caller to add to: user name,
// password, TLS, Sentinel and so on. A connection on which nothing is answered is given up
// within about a second, and not after 10, so that it is not what keeps the limiters from a
// server that is back; and nothing is cached, since the limiters read nothing twice. When
// many goroutines call at once, one write waits up to 20 µs for what may go with it.
func Options(addresses ...string) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:      addresses,
		DisableCache:     true,
		ConnWriteTimeout: 800 * time.Millisecond,
		MaxFlushDelay:    20 * time.Microsecond,                           // fewer system calls here and on the server
		ClusterOption:    rueidis.ClusterOption{MaxMovedRedirections: 16}, // and not without end
		Dialer:           net.Dialer{Timeout: time.Second, KeepAlive: 100 * time.Millisecond},
	}
}
