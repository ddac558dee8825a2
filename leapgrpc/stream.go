package leapgrpc

import (
	"context"
	"io"
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
	s := &serverStream{ServerStream: stream, by: x, call: call}
	returned := false
	defer func() {
		a.exit(func() leapgate.Outcome {
			switch {
			case err != nil && s.malformed.Load():
				return leapgate.Ignored // clients must not open a breaker by what they send
			case !returned:
				return leapgate.Failure
			default:
				return x.outcomeOf(ctx, &a, err)
			}
		})
	}()
	if err = handler(srv, s); s.refused.Load() != nil {
		err = s.refused.Load()
	}
	returned = true
	return err
}

// serverStream is a stream as its handler sees it. RecvMsg asks the limits of messages.
type serverStream struct {
	grpc.ServerStream
	by        *Interceptors
	call      Call
	few       [2]charge               // memory for charges
	refused   atomic.Pointer[refusal] // the stream has ended with it
	malformed atomic.Bool             // a message of the client could not be received
}

// RecvMsg asks after a message has been received: a handler that waits for a message has not taken one.
func (s *serverStream) RecvMsg(m any) error {
	if f := s.refused.Load(); f != nil {
		return f
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		if err != io.EOF && s.call.Context.Err() == nil { //nolint:errorlint // package grpc does not wrap it
			s.malformed.Store(true)
		}
		return err
	}
	if s.call.exempt == FromRates || len(s.by.perMessage.All) == 0 {
		return nil
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
