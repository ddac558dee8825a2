package leapgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
)

// UnaryClient is a grpc.UnaryClientInterceptor. In this order: a call to a target that has asked
// to wait is refused, then the limits are asked, and then the gate. The error of a refusal is
// [leapgate.ErrBlocked], and holds a [*RefusedError] or a [*leapgate.BlockError]; the call was not sent
// then. It has the status that a server of this package would have answered.
//
// The retries of package grpc are within the call. They are the outcome of one call.
func (x *Interceptors) UnaryClient(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) (err error) {
	call := Call{Context: ctx, Method: method, Request: req, Target: targetOf(conn)}
	target, err := x.pausing(call)
	if err != nil {
		return err
	}
	var a admission
	if err := x.enterOwn(&a, call); err != nil {
		return err
	}
	returned := false
	defer func() {
		a.exit(func() leapgate.Outcome {
			if !returned {
				return leapgate.Failure
			}
			return x.outcomeOfOwn(ctx, err)
		})
	}()
	if target == "" {
		err = invoker(ctx, method, req, reply, conn, opts...)
	} else {
		heeded := &trailer{}
		err = invoker(ctx, method, req, reply, conn, heeded.with(opts)...)
		x.heed(target, err, heeded.md)
	}
	returned = true
	return err
}

// trailer is that of a response, and the options that ask for it, in one piece of memory.
type trailer struct {
	md  metadata.MD
	few [4]grpc.CallOption
}

func (t *trailer) with(opts []grpc.CallOption) []grpc.CallOption {
	return append(append(t.few[:0], opts...), grpc.Trailer(&t.md))
}

func targetOf(conn *grpc.ClientConn) string {
	if conn == nil { // in a test of the program
		return "(none)"
	}
	return conn.Target()
}

// pausing returns the target of a call, "" if it has none, and an error while that has to wait.
func (x *Interceptors) pausing(call Call) (target string, err error) {
	if x.pauses == nil {
		return "", nil
	}
	if target = charging.Bounded(x.target(call)); target == "" {
		return "", nil
	}
	rest, code := x.pauses.Check(target)
	if rest == 0 {
		return target, nil
	}
	because := &RefusedError{Target: target, Code: codeFrom(code), RetryAfter: rest}
	f := &refusal{reason: ReasonRateLimited, wait: rest, details: x.details, inside: because, client: true}
	if f.code() != because.Code {
		f.reason = ReasonOverloaded
	}
	return target, f
}

// heed lets a target wait if the server has asked for it.
func (x *Interceptors) heed(target string, err error, trailer metadata.MD) {
	if err == nil || target == "" {
		return
	}
	wait, code := waitAsked(err, trailer)
	x.pauses.Add(target, int(code), wait)
}

// enterOwn asks the limits and the gate for an outgoing call: when the caller gives up before it is
// sent, the limits get back what they took.
func (x *Interceptors) enterOwn(a *admission, call Call) error {
	after := call.Context
	if len(x.limits.All) > 0 {
		after = context.WithoutCancel(after)
	}
	err := x.admit(a, call.Context, after, call)
	if f, ok := err.(*refusal); ok { //nolint:errorlint // it is not wrapped
		f.details, f.client = x.details, true
	}
	return err
}
