package leapgrpc

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/leapgate-go/leapgate"
)

// StreamServer is a grpc.StreamServerInterceptor.
func (x *Interceptors) StreamServer(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx := stream.Context()
	call := Call{Context: ctx, Method: info.FullMethod, Stream: true}
	if x.registered != nil {
		if _, ok := x.registered()[call.Method]; !ok {
			call.Method = Unknown
		}
	} else if srv == nil { // an UnknownServiceHandler has none
		call.Method = Unknown
	}
	if call.exempt = x.exempt(call); call.exempt == FromAll {
		return handler(srv, stream)
	}
	var a admission
	if err := x.enter(&a, call); err != nil {
		if trailer := x.pushbackOf(ctx, err); trailer != nil {
			stream.SetTrailer(trailer)
		}
		return err
	}
	returned := false
	defer func() {
		a.exit(func() leapgate.Outcome {
			if !returned {
				return leapgate.Failure
			}
			return x.outcomeOf(ctx, err)
		})
	}()
	if len(x.perMessage.All) == 0 || call.exempt == FromRates {
		err = handler(srv, stream)
	} else {
		limited := &limitedStream{ServerStream: stream, by: x, call: call}
		if err = handler(srv, limited); limited.refused.Load() != nil {
			err = limited.refused.Load()
		}
	}
	returned = true
	return err
}

// limitedStream asks the limits of messages.
type limitedStream struct {
	grpc.ServerStream
	by      *Interceptors
	call    Call
	few     [2]charge               // memory for charges
	refused atomic.Pointer[refusal] // the stream has ended with it
}

// RecvMsg asks when the message has come: a handler that waits for one has taken none.
func (s *limitedStream) RecvMsg(m any) error {
	if f := s.refused.Load(); f != nil {
		return f
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	ctx := context.WithoutCancel(s.call.Context)
	_, err := s.by.perMessage.take(ctx, ctx, s.call, s.few[:0])
	f, ok := err.(*refusal) //nolint:errorlint // it is not wrapped
	if !ok {
		return nil
	}
	f.details = s.by.details
	s.refused.Store(f)
	return f
}
