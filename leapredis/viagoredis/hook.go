package viagoredis

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
)

// Hook returns a go-redis hook that makes each command, pipeline and transaction of a client a call
// into r, so that rules and breakers protect the client and its server:
//
//	client := redis.NewClient(&redis.Options{Addr: addr})
//	client.AddHook(viagoredis.Hook(gate.Resource("redis")))
//
// The call lasts from before the client gets a connection until the last reply. It includes
// connecting, redirections and retries, so a command that go-redis repeats is one call. If a rule
// blocks the call, nothing is sent, and the error of every command in it is a
// [*leapgate.BlockError].
//
// A reply of the server, including redis.Nil and most errors, is a success. The call fails if the
// server replies to any of its commands that it cannot serve: BUSY, CLUSTERDOWN, LOADING,
// MASTERDOWN, MISCONF, NOREPLICAS, OOM, READONLY, or too many clients. Config.Outcome of the gate
// judges these and all other errors; by default, errors of the network are failures and
// context.Canceled is ignored.
//
// A blocking command such as BLPOP is in flight while it waits, and counts as a slow call. Use
// another client for those.
//
// Some commands do not pass through hooks: subscriptions, except for connecting, those of Watch of
// a [redis.ClusterClient], and those of a client that WithTimeout returned. UNWATCH is never
// blocked and is not a call: go-redis sends it before it reuses the connection of a transaction
// that failed.
//
// The hook is safe for concurrent use, and may be added to several clients.
func Hook(r *resource.Resource) redis.Hook { return &hook{r} }

type hook struct{ resource *resource.Resource }

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "unwatch" {
			return next(ctx, cmd)
		}
		return h.call(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.call(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (h *hook) call(ctx context.Context, cmds []redis.Cmder, next func(context.Context) error) error {
	// go-redis sets up a connection by commands that pass through hooks, with the context of the
	// command that needs the connection. They belong to its call.
	if ctx.Value(h) != nil {
		return next(ctx)
	}
	entry, err := h.resource.EntryContext(ctx)
	if err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
	returned := false
	defer func() {
		if !returned {
			entry.SetOutcome(leapgate.Failure) // it panicked
		}
		entry.Exit()
	}()
	err = next(context.WithValue(ctx, h, true))
	returned = true
	judge(ctx, &entry, err)
	for _, cmd := range cmds {
		judge(ctx, &entry, cmd.Err())
	}
	return err
}

// judge sets the outcome of a call by an error of the client. Of several errors the gravest counts.
func judge(ctx context.Context, entry *resource.Entry, err error) {
	reply, replied := errors.AsType[redis.Error](err)
	switch {
	case errors.Is(err, leapgate.ErrBlocked): // by another gate, for example while dialing
		entry.SetOutcome(leapgate.Ignored)
	case !replied || cannotServe(reply.Error()):
		entry.SetErrorContext(ctx, err)
	}
}

// cannotServe reports whether an error that a server replied says that it cannot serve.
func cannotServe(text string) bool {
	text = strings.TrimPrefix(text, "ERR ")
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY":
		return true
	default:
		return strings.HasPrefix(text, "max number of clients")
	}
}
