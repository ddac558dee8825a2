package leaphttp

import (
	"io"
	"math"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/resource"
)

// clientBody is the body of a request, as the handler reads it.
type clientBody struct {
	io.ReadCloser
	waits  *clientWaits
	failed atomic.Bool // reading failed because of the client: its bytes were malformed, too many, or ended too early
	closed atomic.Bool // by the handler; errors after that say nothing about the client
}

// watchBody replaces the body of a request by the recorder's, so that the recorder sees whether reading fails.
func (c *recorder) watchBody(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	limited := reflect.TypeOf(r.Body) == maxBytesReader
	c.body.ReadCloser, c.body.waits, r.Body = r.Body, &c.waits, &c.body
	if limited { // Request.ParseForm checks the type, and has a limit of its own for other bodies
		r.Body = http.MaxBytesReader(c.ResponseWriter, r.Body, math.MaxInt64)
	}
}

var maxBytesReader = reflect.TypeOf(http.MaxBytesReader(nil, nil, 0))

func (b *clientBody) Read(p []byte) (int, error) {
	b.waits.begin()
	defer b.waits.end()
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

// clientWaits excludes the time in which a handler waits for its client from the time of its call. Several goroutines of
// a handler may wait at once, and go on waiting after the handler has returned.
type clientWaits struct {
	entry *resource.Entry // nil without a gate

	mu      sync.Mutex // guards what is below, and entry
	waiting int        // operations that wait for the client
	at      int64      // when the first of them began; see Entry.Pause
	over    bool       // the handler has returned
}

func (w *clientWaits) begin() { w.add(1) }
func (w *clientWaits) end()   { w.add(-1) }

func (w *clientWaits) add(n int) {
	if w.entry == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.waiting
	switch w.waiting += n; {
	case w.over:
	case before == 0:
		w.at = w.entry.Pause()
	case w.waiting == 0:
		w.entry.Resume(w.at)
	}
}

// close ends all waits, before the entry exits.
func (w *clientWaits) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over = true; w.waiting > 0 {
		w.entry.Resume(w.at)
	}
}
