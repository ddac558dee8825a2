// Package viagoredis lets the limiters of leapredis use a client of
// github.com/redis/go-redis.
package viagoredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/leapgate-go/leapgate/leapredis"
)

// New makes a [leapredis.Client] of a go-redis client.
func New(client redis.UniversalClient) leapredis.Client { return adapter{client} }

type adapter struct{ client redis.UniversalClient }

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
	if errors.As(err, &replied) {
		return nil, &leapredis.ReplyError{Text: replied.Error()}
	}
	if cluster, ok := a.client.(*redis.ClusterClient); ok && err != nil {
		// It would do so by itself before it tried again: a replica may have taken over.
		cluster.ReloadState(ctx)
	}
	return reply, err
}
