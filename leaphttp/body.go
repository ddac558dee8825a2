package leaphttp

import (
	"io"
	"math"
	"net/http"
	"reflect"
	"sync/atomic"
)

// clientBody is the body of a request, as the handler reads it.
type clientBody struct {
	io.ReadCloser
	failed atomic.Bool // reading failed because of the client: its bytes were malformed, too many, or ended too early
	closed atomic.Bool // by the handler; errors after that say nothing about the client
}

// watchBody replaces the body of a request by the recorder's, so that the recorder sees whether reading fails.
func (c *recorder) watchBody(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	limited := reflect.TypeOf(r.Body) == maxBytesReader
	c.body.ReadCloser, r.Body = r.Body, &c.body
	if limited { // Request.ParseForm checks the type, and has a limit of its own for other bodies
		r.Body = http.MaxBytesReader(c.ResponseWriter, r.Body, math.MaxInt64)
	}
}

var maxBytesReader = reflect.TypeOf(http.MaxBytesReader(nil, nil, 0))

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !b.closed.Load() { //nolint:errorlint // readers must not wrap it
		b.failed.Store(true)
	}
	return n, err
}

func (b *clientBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}
