package leapgrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/args"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/resource"
)

// admission is what a call that was admitted has taken, until it ends.
type admission struct {
	entry   resource.Entry // of the gate, if there is one
	charges []charge       // of the limits
	short   bool           // the client gave the call less time than MinDeadline
}

// exit ends the call with an outcome. That may panic: then the call has failed.
func (a *admission) exit(outcome func() leapgate.Outcome) {
	defer release(a.charges)
	defer a.entry.Exit()
	a.entry.SetOutcome(leapgate.Failure)
	a.entry.SetOutcome(outcome())
}

// UnaryServer is a grpc.UnaryServerInterceptor.
func (x *Interceptors) UnaryServer(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	call := Call{Context: ctx, Method: info.FullMethod, Request: req}
	if call.exempt = x.exempt(call); call.exempt == FromAll {
		return handler(ctx, req)
	}
	var a admission
	if err := x.enter(&a, call); err != nil {
		if trailer := x.pushbackOf(ctx, err); trailer != nil {
			_ = grpc.SetTrailer(ctx, trailer) // an error means that nobody serves the call, as in a test
		}
		return nil, err
	}
	returned := false
	defer func() {
		a.exit(func() leapgate.Outcome {
			if !returned { // there is no recover: the panic goes on, with its own stack
				return leapgate.Failure
			}
			return x.outcomeOf(ctx, &a, err)
		})
	}()
	reply, err = handler(ctx, req)
	returned = true
	return reply, err
}

// enter asks the limits and then the gate for a call to a server. A client that hangs up does not
// end the question to the limits, for otherwise it could have them asked for nothing.
func (x *Interceptors) enter(a *admission, call Call) error {
	ctx := call.Context
	if len(x.limits.All) > 0 {
		ctx = context.WithoutCancel(ctx)
	}
	if end, ok := call.Context.Deadline(); ok && x.gate != nil {
		a.short = time.Until(end) < x.minDeadline
	}
	err := x.admit(a, ctx, ctx, call)
	if f, ok := err.(*refusal); ok { //nolint:errorlint // it is not wrapped
		f.details = x.details
	}
	return err
}

// admit asks the limits with ctx, and then the gate. What is given back, is with after. The error has
// a status.
func (x *Interceptors) admit(a *admission, ctx, after context.Context, call Call) (err error) { //nolint:revive // a comes first, as a receiver
	if len(x.limits.All) == 0 {
		return x.open(a, call)
	}
	charges, err := x.limits.take(ctx, after, call, nil)
	if err != nil {
		return err
	}
	opened := false
	defer func() {
		switch gone := call.Context.Err(); {
		case opened:
		case call.Target == "" && gone != nil && errors.Is(err, gone): // the client of a server has hung up while it waited
			release(charges)
		default: // also if a Resource of the program panics
			charging.Refund(after, charges)
		}
	}()
	if err = x.open(a, call); err != nil {
		return err
	}
	a.charges, opened = charges, true
	return nil
}

// open makes the entry.
func (x *Interceptors) open(a *admission, call Call) (err error) {
	ctx := call.Context
	if x.gate == nil {
		if ended := ctx.Err(); ended != nil {
			return endedError{ended}
		}
		return nil
	}
	if call.tapped {
		ctx = clock.Impatient(ctx)
	}
	name := charging.Bounded(x.resource(call))
	if name == "" {
		name = Unknown
	}
	if x.origin == nil && x.criticality == nil && x.args == nil && call.exempt == NotExempt {
		a.entry, err = x.gate.EntryContext(ctx, name)
	} else {
		a.entry, err = x.gate.EntryContext(ctx, name, x.options(call)...)
	}
	if err == nil {
		return nil
	}
	if f := blocked(err); f != nil {
		return f
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return endedError{ended}
	}
	return status.Error(codes.Internal, "leapgrpc: the gate has not taken the call") // an Args of the program, for instance
}

func (x *Interceptors) options(call Call) []leapgate.EntryOption {
	opts := x.args.AddTo(make([]leapgate.EntryOption, 0, args.Max+3), call)
	if x.origin != nil {
		opts = append(opts, leapgate.WithOrigin(charging.Bounded(x.origin(call))))
	}
	if x.criticality != nil {
		opts = append(opts, leapgate.WithCriticality(x.criticality(call)))
	}
	if call.exempt == FromRates {
		opts = append(opts, leapgate.WithoutRates())
	}
	return opts
}

// endedError is that of a call whose context had ended before it was taken.
type endedError struct{ error }

func (e endedError) GRPCStatus() *status.Status { return status.FromContextError(e.error) }
func (e endedError) Unwrap() error              { return e.error }
