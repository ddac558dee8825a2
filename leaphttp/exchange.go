package leaphttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/resource"
)

// exchange is an outgoing call that the gate has admitted, until the body of its response is
// over. It stands before that body.
type exchange struct {
	transport *Transport
	ctx       context.Context //nolint:containedctx // the request's: Read and Close have none
	entry     resource.Entry  // RoundTrip's until it returns, then that of the goroutine that sets over
	failed    bool            // by Transport.outcome; as entry
	body      io.ReadCloser   // nil: there is none to wait for
	unwatch   func() bool     // no longer waits for the end of ctx
	over      atomic.Bool     // the entry has ended, or is about to
	unsent    atomic.Bool     // reading the body of the request failed
}

// requestBody is the body of the request of an exchange. A reverse proxy reads it from a client, who must not be able to
// open the breaker of a server by sending what cannot be read.
type requestBody struct {
	io.ReadCloser
	exchange *exchange
	closed   atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() {
		b.exchange.unsent.Store(true)
	}
	return n, err
}

// Close is called by Base, also if the server has failed. Then a Read that fails says nothing.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// send sends the request with a body that is watched. The request itself is not changed.
func (x *exchange) send(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody || r.GetBody != nil { // with GetBody it is in memory
		return x.transport.send(r)
	}
	watched := r.WithContext(x.ctx)
	watched.Body = &requestBody{ReadCloser: r.Body, exchange: x}
	response, err := x.transport.send(watched)
	if response != nil && response.Request == watched {
		response.Request = r
	}
	return response, err
}

// exchange sends the request as a call into its resource, unless the gate refuses. sent
// becomes true if it did.
func (t *Transport) exchange(r *http.Request, sent *bool) (response *http.Response, err error) {
	x := &exchange{transport: t, ctx: r.Context()}
	if x.entry, err = t.gate.EntryContext(x.ctx, charging.Bounded(t.resource(r))); err != nil {
		return nil, err
	}
	*sent = true
	judged := false
	defer func() {
		if x.body == nil {
			x.exit(judged)
		}
		if !judged && response != nil && response.Body != nil {
			_ = response.Body.Close() // nobody gets it
		}
	}()
	response, err = x.send(r)
	switch {
	case err != nil:
		x.judge(nil, err)
	case response == nil:
		x.entry.SetOutcome(leapgate.Failure) // Base must not; http.Client makes an error of it
	default:
		x.judge(response, nil)
		x.watch(response)
	}
	judged = true
	return response, err
}

// judge notes how the call went, by its response or by an error. Of several calls of judge
// the gravest counts.
func (x *exchange) judge(response *http.Response, err error) {
	switch outcome := x.transport.outcome; {
	case err != nil && errors.Is(x.ctx.Err(), context.Canceled):
		x.entry.SetError(context.Canceled) // the transport returns the cause, which says less
	case x.unsent.Load() && (err != nil || response.StatusCode >= http.StatusInternalServerError):
		x.entry.SetError(context.Canceled)
	case outcome != nil:
		if o := outcome(response, err); o != leapgate.Success && !x.failed {
			x.failed = o == leapgate.Failure
			x.entry.SetOutcome(o)
		}
	case err != nil:
		x.entry.SetErrorContext(x.ctx, err)
	case response.StatusCode == http.StatusTooManyRequests:
		x.entry.SetOutcome(leapgate.Ignored)
	case response.StatusCode >= http.StatusInternalServerError && response.StatusCode != http.StatusNotImplemented:
		x.entry.SetError(StatusError(response.StatusCode))
	}
}

// watch lets the call last until the body of the response is over, if it has one.
func (x *exchange) watch(response *http.Response) {
	if response.Body == nil || response.Body == http.NoBody {
		return
	}
	x.body = response.Body
	if response.StatusCode == http.StatusSwitchingProtocols {
		x.ctx = context.Background() // the connection outlives the request
	}
	// A body that is never closed must not keep a place for ever, at least if its context ends.
	x.unwatch = context.AfterFunc(x.ctx, func() {
		defer func() {
			if p := recover(); p != nil { // no caller is there to do it
				x.transport.limits.Logger().Error("leaphttp: an Outcome panicked", "panic", p)
			}
		}()
		x.end(x.ctx.Err())
	})
	writer, ok := x.body.(io.Writer)
	if !ok {
		response.Body = x
		return
	}
	response.Body = duplex{x, writer}
	if closer, ok := x.body.(writeCloser); ok {
		response.Body = halfDuplex{x, writer, closer}
	}
}

// duplex is a body that can be written to as well: the connection after a 101.
type duplex struct {
	*exchange
	io.Writer
}

// halfDuplex is a duplex of which the writing side can be closed by itself.
type halfDuplex struct {
	*exchange
	io.Writer
	writeCloser
}

type writeCloser interface{ CloseWrite() error }

// Read ends the call when the body is over or has failed.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.body.Read(p)
	switch {
	case err == io.EOF:
		x.unwatch()
		x.end(nil)
	case err != nil:
		x.unwatch()
		x.end(err)
	}
	return n, err
}

// Close ends the call before it closes the body, so that nothing that goes on reading makes
// a failure of it.
func (x *exchange) Close() error {
	x.unwatch()
	x.end(x.ctx.Err())
	return x.body.Close()
}

// end ends the call, unless it has ended. err is why its body was not read to its end, nil
// if it was, or if nobody wanted to.
func (x *exchange) end(err error) {
	if x.over.Swap(true) {
		return
	}
	judged := false
	defer func() { x.exit(judged) }()
	if err != nil {
		x.judge(nil, err)
	}
	judged = true
}

// exit ends the entry. It has failed if a function of the program has panicked, or ended the
// goroutine, so that it was not judged.
func (x *exchange) exit(judged bool) {
	if !judged {
		x.entry.SetOutcome(leapgate.Failure)
	}
	x.entry.Exit()
}
