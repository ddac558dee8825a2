package leaphttp

import (
	"io"
	"math"
	"net/http"
	"reflect"
)

// clientBody is a recorder as the body of its request.
type clientBody recorder

// watchBody replaces the body of a request by the recorder, so that the recorder sees whether reading fails.
func (c *recorder) watchBody(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	limited := reflect.TypeOf(r.Body) == maxBytesReader
	c.body, r.Body = r.Body, (*clientBody)(c)
	c.expectsContinue = r.ProtoMajor == 1 && r.Header.Get("Expect") != ""
	if limited { // Request.ParseForm checks the type, and has a limit of its own for other bodies
		r.Body = http.MaxBytesReader(c.ResponseWriter, r.Body, math.MaxInt64)
	}
}

// restoreBody undoes watchBody after the handler has returned, unless the handler has replaced the body. A server only
// looks into a body of its own: whether the handler has closed it before its end. Then the rest of the body must not
// be read as the next request.
func (c *recorder) restoreBody(r *http.Request) {
	if r.Body == io.ReadCloser((*clientBody)(c)) {
		r.Body = c.body
	}
}

var maxBytesReader = reflect.TypeOf(http.MaxBytesReader(nil, nil, 0))

func (b *clientBody) Read(p []byte) (int, error) {
	c := (*recorder)(b)
	c.startWait()
	defer c.endWait()
	n, err := b.body.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		b.bodyEnded.Store(true)
	case !b.bodyClosed.Load():
		b.bodyFailed.Store(true)
	}
	return n, err
}

// Close may wait for what the client has not sent yet, or for a Read in another goroutine.
func (b *clientBody) Close() error {
	c := (*recorder)(b)
	c.startWait()
	defer c.endWait()
	b.bodyClosed.Store(true)
	return b.body.Close()
}

// startWait excludes the time until endWait from the time of the call, because the handler waits for its client.
// Several goroutines of a handler may wait at once, and go on waiting after the handler has returned.
func (c *recorder) startWait() { c.addWait(1) }
func (c *recorder) endWait()   { c.addWait(-1) }

func (c *recorder) addWait(n int32) {
	if !c.gated {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.waiting
	switch c.waiting += n; {
	case c.returned:
	case before == 0:
		c.pausedAt = c.entry.Pause()
	case c.waiting == 0:
		c.entry.Resume(c.pausedAt)
	}
}

// endWaits ends all waits when the handler has returned, before the entry exits.
func (c *recorder) endWaits() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.returned = true; c.waiting > 0 {
		c.entry.Resume(c.pausedAt)
	}
}
