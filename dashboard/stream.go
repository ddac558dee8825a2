package dashboard

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// frameInterval is how often viewers are sent a frame.
	frameInterval = time.Second
	// maxBehind is how many frames may wait for a viewer before it is dropped.
	maxBehind = 4
	// patience is how long a message may take to be written.
	patience = 5 * time.Second
	// retryAfter is when a viewer that found no room may ask again.
	retryAfter = 5 * time.Second
	// maxAddress is how many bytes of an address count.
	maxAddress = 64
)

type viewer struct {
	frames chan []byte   // sent to under the stream's lock
	gone   chan struct{} // closed when it is dropped
	fresh  bool          // it has seen nothing; read and written under the stream's lock

	address string
	sees    visibility
}

// stream sends frames to those who watch. While there are any, one goroutine makes them, once
// for all.
type stream struct {
	read          func() reading
	max           int // viewers in all
	maxPerAddress int
	running       sync.WaitGroup
	reading       chan struct{} // holds one while a goroutine reads

	mu      sync.Mutex // guards what is below
	viewers map[*viewer]struct{}
	slots   int            // taken by viewers, and by those that were dropped and have not ended yet
	by      map[string]int // the same by address
	closed  bool
	stop    chan struct{} // closed when the goroutine is to end; nil if there is none
	encoder *frameEncoder
	made    time.Time // when the last frame was; zero if none was
	current bool      // a viewer can begin with the last frame
}

func newStream(read func() reading, viewers, perAddress int) *stream {
	return &stream{
		read: read, max: viewers, maxPerAddress: perAddress, reading: make(chan struct{}, 1),
		viewers: make(map[*viewer]struct{}), by: make(map[string]int), encoder: newFrameEncoder(),
	}
}

// join takes a slot for a viewer at an address, who may see so much. If no slot is free, or the
// stream is closed, it returns why not.
func (s *stream) join(address string, sees visibility) (v *viewer, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why = s.full(address); why != "" {
		return nil, why
	}
	if s.stop == nil {
		// Those who come and go do not cause a frame each.
		wait := max(0, frameInterval-time.Since(s.made))
		s.current = wait > 0
		stop := make(chan struct{})
		s.stop = stop
		s.running.Go(func() { s.run(stop, wait) })
	}
	if s.slots >= s.max {
		s.drop(s.crowd(address))
	}
	v = &viewer{frames: make(chan []byte, maxBehind), gone: make(chan struct{}), fresh: true, address: address, sees: sees}
	s.slots++
	s.by[address]++
	s.viewers[v] = struct{}{}
	if s.current {
		v.fresh = false
		v.frames <- s.encoder.all(sees)
	}
	return v, ""
}

// full returns why a viewer at an address cannot join; "" if it can. The caller holds mu.
func (s *stream) full(address string) string {
	switch {
	case s.closed:
		return "the dashboard is closed"
	case s.slots >= s.max && s.crowd(address) == nil:
		return "no place is left: at most " + strconv.Itoa(s.max) + " may watch"
	case s.by[address] >= s.maxPerAddress:
		return "no place is left for your address: at most " + strconv.Itoa(s.maxPerAddress) + " may watch from one"
	default:
		return ""
	}
}

// crowd returns a viewer that must make room for one from an address when no slot is free: one of the address with the
// most viewers. It returns nil if that address would then have fewer than this one. Viewers that were dropped keep
// their slots until they have ended, and without a free slot each address ends up with about as many viewers, so
// slots stay below twice max. The caller holds mu.
func (s *stream) crowd(address string) (v *viewer) {
	count := make(map[string]int)
	for one := range s.viewers {
		if count[one.address]++; v == nil || count[one.address] > count[v.address] {
			v = one
		}
	}
	if v == nil || count[v.address] < count[address]+2 {
		return nil
	}
	return v
}

func (s *stream) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots--
	if s.by[v.address]--; s.by[v.address] == 0 {
		delete(s.by, v.address)
	}
	delete(s.viewers, v)
	s.stopUnwatched()
}

// stopUnwatched ends the goroutine if nobody watches. The caller holds mu.
func (s *stream) stopUnwatched() {
	if len(s.viewers) == 0 && s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
}

// run makes frames until it is stopped.
func (s *stream) run(stop chan struct{}, wait time.Duration) {
	first := time.NewTimer(wait)
	defer first.Stop()
	select {
	case <-first.C:
	case <-stop:
		return
	}
	tick := time.NewTicker(frameInterval)
	defer tick.Stop()
	for s.next(stop) {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// next makes a frame, unless it is stopped. One that was stopped while it read may still be at
// it: what it reads is sent, and then is the turn of the next, so that frames never go back, and
// those who come and go cannot have many read at once.
func (s *stream) next(stop chan struct{}) bool {
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	select {
	case <-stop:
		return false
	default:
	}
	s.send(s.read())
	return true
}

func (s *stream) send(r reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encoder.update(r)
	s.made, s.current = time.Now(), true
	for v := range s.viewers {
		var frame []byte
		if v.fresh {
			frame, v.fresh = s.encoder.all(v.sees), false
		} else {
			frame = s.encoder.changes(v.sees)
		}
		select {
		case v.frames <- frame:
		default:
			s.drop(v)
		}
	}
	s.stopUnwatched()
}

// drop ends a viewer. The caller holds mu.
func (s *stream) drop(v *viewer) {
	delete(s.viewers, v)
	close(v.gone)
}

func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	for v := range s.viewers {
		s.drop(v)
	}
	s.stopUnwatched()
	s.mu.Unlock()
	s.running.Wait()
}

func (d *Dashboard) serveEvents(w http.ResponseWriter, r *http.Request) {
	if !d.noParameters(w, r) {
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would collect frames
	if r.Method == http.MethodHead {
		h.Set("Content-Type", "text/event-stream")
		return
	}
	v, why := d.stream.join(clip(d.cfg.Address(r), maxAddress), d.visibilityOf(r))
	if v == nil {
		h.Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
		fail(w, problem{Status: http.StatusServiceUnavailable, Detail: why})
		return
	}
	defer d.stream.leave(v)
	h.Set("Content-Type", "text/event-stream")
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close") // the deadlines must not outlive the stream
	}
	control := http.NewResponseController(w)
	err := control.SetWriteDeadline(time.Now().Add(patience))
	if err == nil {
		err = control.Flush() // the headers, so that a browser knows that it is connected
	}
	if errors.Is(err, http.ErrNotSupported) {
		h.Del("Connection")
		fail(w, problem{Status: http.StatusInternalServerError, Detail: "events cannot be sent: the server's ResponseWriter cannot flush, or has no write deadlines"})
	}
	if err != nil {
		return // and if it is another error, the viewer has gone
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-v.gone:
			return
		case frame := <-v.frames:
			err := control.SetWriteDeadline(time.Now().Add(patience))
			if err == nil {
				_, err = w.Write(frame)
			}
			if err == nil {
				err = control.Flush()
			}
			if err != nil {
				return // the viewer has gone, or does not keep up
			}
		}
	}
}
