package leapgrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
)

// DefaultOutcome is how a call has ended, by the code of its status. Unknown, DeadlineExceeded, Internal,
// Unavailable and DataLoss are failures. Canceled says nothing about the service, nor does
// ResourceExhausted, since it is the caller's quota that is used up: they are ignored. All others are
// a success, such as NotFound: the service did what it should. An error without a status is what
// package grpc makes of it: Canceled or DeadlineExceeded of a context's, and else Unknown.
func DefaultOutcome(err error) leapgate.Outcome {
	switch codeOf(err) {
	case codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.DataLoss:
		return leapgate.Failure
	case codes.Canceled, codes.ResourceExhausted:
		return leapgate.Ignored
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Aborted, codes.Unimplemented:
		return leapgate.Success
	default: // no code of gRPC; clients get it as Unknown
		return leapgate.Failure
	}
}

// codeOf is the code that package grpc sends for the error of a handler.
func codeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

// deadlineEarlier is how much earlier a client can come to its deadline than its call does here: it began
// to count before it sent the call. It resets the stream then, so that it seems to hang up.
const deadlineEarlier = 10 * time.Millisecond

// outcomeOf returns the outcome of a call to a server. A failure that the client may have caused is ignored, so
// that clients cannot open a breaker: the client has hung up, or its deadline was shorter than MinDeadline. A client
// whose longer deadline has passed has not hung up.
func (x *Interceptors) outcomeOf(ctx context.Context, a *admission, err error) leapgate.Outcome {
	if err != nil && a.short && (ctx.Err() != nil || codeOf(err) == codes.DeadlineExceeded) {
		return leapgate.Ignored
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > deadlineEarlier {
			return leapgate.Ignored
		}
		if codeOf(err) == codes.Canceled {
			err = context.DeadlineExceeded
		}
	}
	return x.outcome(err)
}

// outcomeOfOwn is how an outgoing call has ended. What an interceptor behind has refused was not sent, and so
// says nothing about the server.
func (x *Interceptors) outcomeOfOwn(ctx context.Context, err error) leapgate.Outcome {
	if err != nil && (errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, leapgate.ErrBlocked)) {
		return leapgate.Ignored
	}
	return x.outcome(err)
}
