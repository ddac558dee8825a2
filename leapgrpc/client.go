package leapgrpc

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
)

// UnaryClient is a grpc.UnaryClientInterceptor. In this order: a call to a target that has asked
// to wait is refused, then the limits are asked, and then the gate. The error of a refusal is
// [leapgate.ErrBlocked], and holds a [*RefusedError] or a [*leapgate.BlockError], which say why; the call
// was not sent then. It has the code that a server of this package would have answered with. Its
// message says nothing of the inside and it has no details, for a server that sends it on to its own
// clients.
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
	if target != "" && x.pushback {
		err = x.invokeWithTrailer(target, invoker, call, reply, conn, opts)
	} else {
		err = invoker(ctx, method, req, reply, conn, opts...)
		x.heed(target, err, nil)
	}
	returned = true
	return err
}

// invokeWithTrailer asks for the trailer too. There is one for the call, however often an interceptor
// behind invokes it: see Config.Pushback.
func (x *Interceptors) invokeWithTrailer(
	target string, invoker grpc.UnaryInvoker, call Call, reply any, conn *grpc.ClientConn, opts []grpc.CallOption,
) error {
	var trailer metadata.MD
	err := invoker(call.Context, call.Method, call.Request, reply, conn, append(slices.Clip(opts), grpc.Trailer(&trailer))...)
	x.heed(target, err, trailer)
	return err
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
	f := &refusal{reason: ReasonRateLimited, wait: rest, inside: because}
	if f.code() != because.Code {
		f.reason = ReasonOverloaded
	}
	return target, f
}

// heed lets a target wait if the server has asked for it. What an interceptor behind has refused
// was not sent.
func (x *Interceptors) heed(target string, err error, trailer metadata.MD) {
	if err == nil || target == "" || errors.Is(err, leapgate.ErrBlocked) {
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
	return x.admit(a, call.Context, after, call)
}
