package leapgrpc

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"github.com/leapgate-go/leapgate"
)

// StreamClient is a grpc.StreamClientInterceptor. It asks as [Interceptors.UnaryClient] does. The
// stream keeps its place until it has ended: RecvMsg has returned io.EOF or an error, or the one
// answer to a stream that sends but does not receive several; SendMsg or Header have failed; its context
// has ended; or its connection was closed.
func (x *Interceptors) StreamClient(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	call := Call{Context: ctx, Method: method, Stream: true, Target: targetOf(conn)}
	target, err := x.pausing(call)
	if err != nil {
		return nil, err
	}
	s := &clientStream{by: x, ctx: ctx, conn: conn, target: target, several: desc.ServerStreams}
	if err := x.enterOwn(&s.admission, call); err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened { // the streamer has panicked
			s.end(errNotOpened)
		}
	}()
	s.ClientStream, err = streamer(ctx, desc, conn, method, append(slices.Clip(opts), grpc.OnFinish(s.finished))...)
	opened = true
	if err != nil {
		x.heed(target, err, nil)
		s.end(err)
		return nil, err
	}
	unwatch := context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	s.mu.Lock()
	s.unwatch = unwatch
	over := s.over
	s.mu.Unlock()
	if over {
		unwatch()
	}
	return s, nil
}

var errNotOpened = errors.New("leapgrpc: the stream was not opened")

// clientStream is an outgoing stream that was admitted, until it has ended: by an error of RecvMsg,
// SendMsg or Header, by the one answer, with its context, or with its connection. Package grpc lists
// the same for NewStream.
//
// An interceptor in between may make several streams of one, so that the end of one of them, which
// OnFinish tells, is not that of the call, unless their connection is closed. To ask the stream for its
// context would commit it: it would not be retried then.
type clientStream struct {
	grpc.ClientStream
	by        *Interceptors
	ctx       context.Context //nolint:containedctx // the call's: RecvMsg has none
	conn      *grpc.ClientConn
	target    string
	several   bool // messages are received until io.EOF
	admission admission

	mu      sync.Mutex
	unwatch func() bool
	over    bool  // the admission has ended, or is about to
	told    bool  // a stream has ended
	last    error // with this
}

// RecvMsg ends the call with the stream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
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

// SendMsg ends the call if the client could not send. After io.EOF, RecvMsg says how the stream has ended.
func (s *clientStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		s.end(err)
	}
	return err
}

// Header ends the call if there are none since the stream has ended. Package grpc hides the error then.
func (s *clientStream) Header() (metadata.MD, error) {
	header, err := s.ClientStream.Header()
	s.mu.Lock()
	told, last := s.told, s.last
	s.mu.Unlock()
	switch {
	case err != nil:
		s.end(err)
	case header == nil && told:
		s.end(last)
	}
	return header, err
}

// finished is what package grpc calls when a stream has ended.
func (s *clientStream) finished(err error) {
	s.mu.Lock()
	s.told, s.last = true, err
	s.mu.Unlock()
	if s.conn != nil && s.conn.GetState() == connectivity.Shutdown {
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
