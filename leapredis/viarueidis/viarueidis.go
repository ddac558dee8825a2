// Package viarueidis lets the limiters of leapredis use a client of
// github.com/redis/rueidis, which pipelines by itself.
package viarueidis

import (
	"context"
	"errors"
	"net"
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
	if errors.As(err, &replied) {
		return nil, &leapredis.ReplyError{Text: replied.Error()}
	}
	return reply, err
}

// Options gives options for servers on a request path: a connection that is not answered
// on is given up within a second, and not after 10.
func Options(addresses ...string) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:      addresses,
		DisableCache:     true,
		ConnWriteTimeout: time.Second,
		Dialer:           net.Dialer{Timeout: time.Second, KeepAlive: 500 * time.Millisecond},
	}
}
