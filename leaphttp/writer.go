package leaphttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/leapgate-go/leapgate/resource"
)

// StatusError is the failure of a handler, or of a server, whose answer has a status of 500 or
// more; with a [Transport], but for 501.
type StatusError int

// Error reads: leaphttp: status 503.
func (s StatusError) Error() string { return "leaphttp: status " + strconv.Itoa(int(s)) }

// SetError reports to the gate that the handler of w failed with err, although its answer does
// not show it. What that counts as is up to the gate's Outcome. [context.Canceled] is taken
// for the client's doing, which is ignored by default: use another error where it was the
// handler that canceled. A nil err changes nothing. SetError must be called before the
// handler returns. It finds the middleware through writers that have Unwrap, as
// [http.ResponseController] does, and every one that has a gate counts it. It reports
// whether there is one.
func SetError(w http.ResponseWriter, err error) bool {
	found := false
	for c := recorderOf(w); c != nil; c = recorderOf(c.ResponseWriter) {
		if c.gated {
			c.setError(err)
			found = true
		}
	}
	return found
}

// setError sets the error of the entry while other goroutines of the handler may pause it.
func (c *recorder) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entry.SetError(err)
}

// recorderOf finds the innermost recorder, through writers that have Unwrap; nil if there is
// none.
func recorderOf(w http.ResponseWriter) *recorder {
	for w != nil {
		if c, ok := w.(interface{ self() *recorder }); ok {
			return c.self()
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = u.Unwrap()
	}
	return nil
}

// recorder is the state of one call, and the writer through which its handler answers.
// It is not used again for another call: a handler may keep it.
type recorder struct {
	http.ResponseWriter
	request  *http.Request
	resource string       // that the gate was asked for
	charges  []charge     // of the limits; see Settle
	few      [2]charge    // memory for them; more are rare
	settled  atomic.Int64 // what the request has cost, after Settle, plus 1; written also when the handler has returned
	values   [2]string    // of header fields
	status   int          // 0 until it is known
	written  int32        // bytes of the answer, up to serverBuffer+1
	gated    bool         // there is a gate, and so an entry
	unread   bool         // a part of the request's body may not have been read, and is in the way of the next request

	body       io.ReadCloser // the request's, with a gate
	bodyEnded  atomic.Bool   // the handler has read it to its end
	bodyFailed atomic.Bool   // reading failed because of the client: its bytes were malformed or ended too early
	bodyClosed atomic.Bool   // by the handler; errors after that say nothing about the client

	expectsContinue bool // the client sends the body only after 100 Continue, which reading it sends

	mu       sync.Mutex // guards what is below, because goroutines of the handler may read the body
	entry    resource.Entry
	pausedAt int64 // when the first operation began that waits for the client; see Entry.Pause
	waiting  int32 // operations that wait for the client
	returned bool  // the handler has returned; from then on mu is not needed
}

func newRecorder(w http.ResponseWriter, r *http.Request) *recorder {
	return &recorder{ResponseWriter: w, request: r, unread: r.ProtoMajor == 1 && r.ContentLength != 0}
}

// writer returns the recorder with Flush and Hijack only if the writer under it has them, because
// handlers check for them. Writers that have neither, such as that of http.TimeoutHandler, are not made
// to promise them.
//
// Each type has one pointer, so that making it an interface allocates nothing.
func (c *recorder) writer() http.ResponseWriter {
	_, flusher := c.ResponseWriter.(http.Flusher)
	_, hijacker := c.ResponseWriter.(http.Hijacker)
	switch {
	case flusher && hijacker: // HTTP/1
		return flushHijack{c}
	case flusher: // HTTP/2
		return flush{c}
	case hijacker:
		return hijack{c}
	default:
		return c
	}
}

type (
	flush       struct{ *recorder }
	hijack      struct{ *recorder }
	flushHijack struct{ *recorder }
)

func (w flush) Flush()                  { w.doFlush() }
func (w flush) FlushError() error       { return w.doFlushError() }
func (w flushHijack) Flush()            { w.doFlush() }
func (w flushHijack) FlushError() error { return w.doFlushError() }

func (w hijack) Hijack() (net.Conn, *bufio.ReadWriter, error)      { return w.doHijack() }
func (w flushHijack) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.doHijack() }

// CloseNotify implements http.CloseNotifier, which is deprecated and which some frameworks require. If the
// writer under this one does not implement it, the end of the request's context is reported.
func (c *recorder) CloseNotify() <-chan bool {
	if notifier, ok := c.ResponseWriter.(http.CloseNotifier); ok { //nolint:staticcheck // see above
		return notifier.CloseNotify()
	}
	closed := make(chan bool, 1)
	context.AfterFunc(c.request.Context(), func() { closed <- true })
	return closed
}

// Unwrap is for [http.ResponseController].
func (c *recorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *recorder) self() *recorder { return c }

// release gives back the places in flight.
func (c *recorder) release() {
	for i := range c.charges {
		c.charges[i].Place.Release()
	}
}

// begin notes the status, unless one was sent before.
func (c *recorder) begin(status int) {
	if c.status == 0 {
		c.status = status
		c.closeUnread()
	}
}

// closeUnread closes the connection after the answer if the client expects 100 Continue, and the handler has not read
// the body to its end. A server does so by itself if the body is its own. For other bodies, it holds the answer until
// the client has sent the body.
func (c *recorder) closeUnread() {
	if c.expectsContinue && !c.bodyEnded.Load() {
		c.Header().Set("Connection", "close")
	}
}

func (c *recorder) WriteHeader(status int) {
	// 1xx are sent in advance of the answer, but for 101, after which there is none.
	if status >= 200 || status == http.StatusSwitchingProtocols {
		if c.status == 0 && status == http.StatusRequestEntityTooLarge && c.unread {
			// A server holds an answer until it has read the body, so as to find the next
			// request behind it. For http.MaxBytesReader it does not, but that knows only
			// the server's own writer.
			c.Header().Set("Connection", "close")
		}
		c.begin(status)
	}
	c.ResponseWriter.WriteHeader(status)
}

// serverBuffer is how many bytes of an answer a server keeps before it writes to the client.
const serverBuffer = 2048

// mayWait begins a pause, and reports true, if writing n bytes may wait for the client.
func (c *recorder) mayWait(n int) bool {
	if c.written = int32(min(serverBuffer+1, int(c.written)+n)); c.written <= serverBuffer {
		return false
	}
	c.startWait()
	return true
}

func (c *recorder) Write(b []byte) (int, error) {
	c.begin(http.StatusOK)
	if c.mayWait(len(b)) {
		defer c.endWait()
	}
	return c.ResponseWriter.Write(b)
}

// WriteString saves io.WriteString a copy.
func (c *recorder) WriteString(s string) (int, error) {
	c.begin(http.StatusOK)
	if c.mayWait(len(s)) {
		defer c.endWait()
	}
	return io.WriteString(c.ResponseWriter, s)
}

// ReadFrom lets the writer under this one send files without copying them, if it can.
func (c *recorder) ReadFrom(r io.Reader) (int64, error) {
	c.closeUnread()
	c.startWait()
	defer c.endWait()
	if c.gated && !isFile(r) {
		r = source{r, c}
	}
	n, err := io.Copy(c.ResponseWriter, r)
	if n > 0 { // else the handler may still answer otherwise
		c.begin(http.StatusOK)
	}
	return n, err
}

// isFile reports whether r is a file, or a part of one, that the writer can send without copying it. Reading a file
// takes no time; reading a pipe may.
func isFile(r io.Reader) bool {
	if limited, ok := r.(*io.LimitedReader); ok {
		r = limited.R
	}
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	_, err := f.Seek(0, io.SeekCurrent)
	return err == nil
}

// source is what ReadFrom reads from. While it is read, the handler does not wait for the client.
type source struct {
	io.Reader
	by *recorder
}

func (s source) Read(p []byte) (int, error) {
	s.by.endWait()
	defer s.by.startWait()
	return s.Reader.Read(p)
}

func (c *recorder) doFlush() {
	c.begin(http.StatusOK)
	c.startWait()
	defer c.endWait()
	c.ResponseWriter.(http.Flusher).Flush()
}

func (c *recorder) doFlushError() error {
	c.begin(http.StatusOK)
	c.startWait()
	defer c.endWait()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

func (c *recorder) doHijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := c.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		c.begin(http.StatusSwitchingProtocols) // what the handler says to the client is its own
	}
	return conn, buffered, err
}
