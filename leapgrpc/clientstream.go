package leapgrpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/leapgate-go/leapgate"
)

// StreamClient is a grpc.StreamClientInterceptor. It asks as [Interceptors.UnaryClient] does. The
// stream keeps its place until it has ended: RecvMsg has returned io.EOF or an error, or the one
// answer to a stream that sends but does not receive several; its context has ended; or its connection
// was closed.
func (x *Interceptors) StreamClient(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	call := Call{Context: ctx, Method: method, Stream: true, Target: targetOf(conn)}
	target, err := x.pausing(call)
	if err != nil {
		return nil, err
	}
	s := &clientStream{by: x, ctx: ctx, target: target, several: desc.ServerStreams, busy: true}
	if err := x.enterOwn(&s.admission, call); err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened { // the streamer has panicked
			s.end(errNotOpened)
		}
	}()
	opts = append(opts[:len(opts):len(opts)], grpc.OnFinish(s.finished))
	s.ClientStream, err = streamer(ctx, desc, conn, method, opts...)
	opened = true
	if err != nil {
		x.heed(target, err, nil)
		s.end(err)
		return nil, err
	}
	// Also where an interceptor in between has not passed the option on.
	unwatch := context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	s.mu.Lock()
	s.busy, s.unwatch = false, unwatch
	over := s.over
	s.mu.Unlock()
	if over {
		unwatch()
	}
	return s, nil
}

var errNotOpened = errors.New("leapgrpc: the stream was not opened")

// clientStream is an outgoing stream that was admitted, until it has ended.
//
// Package grpc says when that is, by OnFinish, also if nobody receives any more. To ask the
// stream for its context would do too, but it would commit the stream, which is not retried then. An interceptor in
// between that retries makes several streams: what finishes while RecvMsg runs, or while the stream is
// opened, may be one of those, so then what these return counts.
type clientStream struct {
	grpc.ClientStream
	by        *Interceptors
	ctx       context.Context //nolint:containedctx // the call's: RecvMsg has none
	target    string
	several   bool // messages are received until io.EOF
	admission admission
	unwatch   func() bool

	mu   sync.Mutex
	busy bool // RecvMsg runs, or the stream is being opened
	over bool // the admission has ended, or is about to
}

// RecvMsg ends the call with the stream.
func (s *clientStream) RecvMsg(m any) error {
	s.mu.Lock()
	s.busy = true
	s.mu.Unlock()
	err := s.ClientStream.RecvMsg(m)
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		var trailer metadata.MD
		if s.target != "" {
			trailer = s.Trailer()
		}
		s.by.heed(s.target, err, trailer)
		s.end(err)
	case err != nil || !s.several:
		s.end(nil)
	}
	return err
}

// finished is what package grpc calls.
func (s *clientStream) finished(err error) {
	s.mu.Lock()
	busy := s.busy
	s.mu.Unlock()
	if !busy {
		s.end(err)
	}
}

// end ends the call, unless it has ended.
func (s *clientStream) end(err error) {
	s.mu.Lock()
	over, unwatch := s.over, s.unwatch
	s.over = true
	s.mu.Unlock()
	if over {
		return
	}
	if unwatch != nil {
		unwatch()
	}
	s.admission.exit(func() leapgate.Outcome { return s.by.outcomeOfOwn(s.ctx, err) })
}
