package leaphttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/args"
	"github.com/leapgate-go/leapgate/internal/charging"
)

// middleware is what stands in front of handlers.
type middleware struct {
	gate             *leapgate.Gate
	limits           limits
	mux              *http.ServeMux
	route            func(*http.Request) string
	args             args.Args[*http.Request]
	origin           func(*http.Request) string
	criticality      *criticality // nil: all have the default
	include, exclude paths
	fields           fields
	status           func(*leapgate.BlockError) int
	refuse           func(http.ResponseWriter, *http.Request, *Refusal)
	unboundRules     unboundRules
	decisions        *decisionLog // nil: there is none
}

// ErrPanic is the failure of a handler that panicked, [http.ErrAbortHandler] included, or
// ended its goroutine.
var ErrPanic = errors.New("leaphttp: the handler panicked")

func (m *middleware) wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("leaphttp: the handler is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !m.covers(r):
			next.ServeHTTP(w, r)
		default:
			m.call(next, w, r)
		}
	})
}

// covers reports whether the middleware is for the path of a request.
func (m *middleware) covers(r *http.Request) bool {
	if m.include == nil && m.exclude == nil {
		return true
	}
	if !isPlain(r.URL) {
		return true
	}
	return (m.include == nil || m.include.match(r.URL.Path)) && !m.exclude.match(r.URL.Path)
}

// call asks the limits and the gate, and runs the handler, with a gate as a call into the
// resource of the route.
func (m *middleware) call(next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec := newRecorder(w, r)
	rec.gated = m.gate != nil
	var at time.Time
	if m.decisions != nil {
		at = time.Now()
	}
	if refusal := m.enter(rec, r); refusal != nil {
		if m.decisions != nil {
			m.log(rec, r, at, refusal)
		}
		m.answer(w, r, refusal)
		return
	}
	returned, judged := false, false
	if m.decisions != nil {
		defer func() {
			if !returned {
				rec.begin(http.StatusInternalServerError)
			}
			m.log(rec, r, at, nil)
		}()
	}
	defer rec.release()
	defer func() {
		if !judged { // the gate's Outcome has panicked
			rec.entry.SetOutcome(leapgate.Failure)
		}
		rec.entry.Exit()
	}()
	defer func() {
		rec.endWaits()
		rec.restoreBody(r)
		// There is no recover: the panic goes on, with its own stack.
		if !returned {
			rec.entry.SetError(rec.failure(ErrPanic))
		}
		if rec.status >= http.StatusInternalServerError {
			rec.entry.SetError(rec.failure(StatusError(rec.status)))
		}
		judged = true
	}()
	if rec.gated {
		rec.watchBody(r)
	}
	next.ServeHTTP(rec.writer(), r)
	returned = true
}

// failure returns the error that the gate gets if the handler failed with err. It is context.Canceled if the client
// has hung up or its body could not be read, because either may be the cause, as with the 502 of a reverse proxy.
// Otherwise clients could open a breaker.
func (c *recorder) failure(err error) error {
	if c.bodyFailed.Load() || errors.Is(c.request.Context().Err(), context.Canceled) {
		return context.Canceled
	}
	return err
}

// enter asks the limits and then the gate, and sets the header fields.
func (m *middleware) enter(rec *recorder, r *http.Request) (refusal *Refusal) {
	rec.charges, refusal = m.limits.take(detached{r}, r, rec.few[:0])
	if refusal == nil {
		if err := m.open(rec, r, rec.charges); err != nil {
			rec.release() // before a Status of the program can panic
			refusal = m.blocked(err)
		}
	}
	m.fields.set(rec.Header(), rec.charges, refusal, &rec.values)
	return refusal
}

// open makes the entry of the recorder. If there is none, the limits get back what they
// took, unless the client has hung up while it waited: otherwise it would have every turn
// for nothing.
func (m *middleware) open(rec *recorder, r *http.Request, charges []charge) (err error) {
	opened := false
	defer func() {
		gone := r.Context().Err()
		hungUp := gone != nil && errors.Is(err, gone)
		if !opened && !hungUp { // also if a Route, an Arg or an Origin of the program panics
			refund(r, charges)
		}
	}()
	if m.gate == nil {
		err = r.Context().Err()
		opened = err == nil
		return err
	}
	name := m.resource(r)
	rec.resource = name
	var few [args.Max + 2]leapgate.EntryOption
	opts := m.args.AddTo(few[:0], r)
	if m.origin != nil {
		opts = append(opts, leapgate.WithOrigin(charging.Bounded(m.origin(r))))
	}
	if m.criticality != nil {
		opts = append(opts, leapgate.WithCriticality(m.criticality.of(r, name)))
	}
	rec.entry, err = m.gate.EntryContext(r.Context(), name, opts...)
	opened = err == nil
	return err
}

// blocked makes the refusal of an error of the gate. One that is no block is that of a
// request whose context has ended: nobody waits for the answer.
func (m *middleware) blocked(err error) *Refusal {
	refusal := &Refusal{Status: http.StatusServiceUnavailable, Err: err}
	if errors.As(err, &refusal.Block) {
		refusal.RetryAfter = refusal.Block.RetryAfter
		if status := m.status(refusal.Block); status >= 400 && status <= 599 {
			refusal.Status = status
		}
	}
	return refusal
}

// statusOf is what the rule that refused says.
func statusOf(b *leapgate.BlockError) int { return b.Status }

func (m *middleware) answer(w http.ResponseWriter, r *http.Request, refusal *Refusal) {
	refusal.setHeader(w.Header())
	m.refuse(w, r, refusal)
}
