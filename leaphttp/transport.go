package leaphttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/internal/pauses"
)

// TransportConfig says what stands in front of outgoing calls. The zero TransportConfig
// heeds what servers answer, and nothing else.
type TransportConfig struct {
	// Base sends the requests. Nil is http.DefaultTransport, as it is then.
	Base http.RoundTripper

	// Gate, if it is not nil, admits each request as a call into a resource. If a rule lets it
	// wait, it waits until the request's context ends. The call lasts until the body of the
	// response has been read to its end, has failed, or is closed, or the request's context
	// ends. So its response time includes the body, and a body that is never closed, with a
	// context that never ends, keeps its place among the calls in flight. After a 101 the call
	// lasts until the connection is closed, whatever becomes of the context.
	Gate *leapgate.Gate

	// Resource is the name of the resource, 1 to 1,024 bytes; a longer one is hashed. Nil: the
	// method and the host, such as "GET api.example.com", with the port if it is not the usual
	// one, so that a host that fails takes no other along. Methods that are not in RFC 9110 or
	// RFC 5789 are all "OTHER". It must not be the URL with its path or parameters, or else
	// there is a resource for each.
	//
	// Where somebody else has a say in the URL, as with webhooks, there is a resource for each
	// host that they think of. The gate bounds how many (see MaxResources of
	// [leapgate.Config]), but they take the places of others: then let Resource return one
	// name for all hosts that the program does not know.
	Resource func(*http.Request) string

	// Outcome says how a call has ended, by what Base returned: a response, as yet unread, or an
	// error. If reading the body fails later, or its context ends before it is read, it is asked
	// again, with that error and no response; what is graver counts, and a failure stays one. It
	// is not asked of calls that the caller has canceled, nor of those that failed because the
	// body of the request could not be read, such as one that a client of a reverse proxy sent:
	// the gate gets context.Canceled for them, which is ignored by default. It must be safe for
	// concurrent use, and must not read the body. If it panics, the call has failed.
	//
	// Nil: a 429 is ignored, since it is the caller's quota that is used up, and so says nothing
	// of how the server is. A 501 is a success. For any other status of 500 or more the gate's
	// Outcome gets a [StatusError], and for an error that error: by default these are failures,
	// context.DeadlineExceeded too. Everything else is a success.
	Outcome func(*http.Response, error) leapgate.Outcome

	// Limits are asked before the gate, as those of [Config], but with the request's
	// own context: when the caller gives up before the call is sent, they get back what
	// they took. Their keys count by host unless they say otherwise.
	Limits []Limit

	// Target is what has to wait when a server asks for it: all requests with the same
	// target wait. Nil is the host. If it returns "", the request neither waits nor makes
	// others wait.
	//
	// The wait by host is shared by all that call that host through this Transport: where a
	// server counts by API key, by user or by path, one of them that has used up its quota
	// stops the others too. Then let Target distinguish them, as in
	// host + " " + the name of the customer.
	Target func(*http.Request) string

	// PauseStatuses are further statuses, 400 to 599, with which a server is heeded that asks
	// to wait, beside 429 and 503. GitHub, for one, refuses with 403 and Retry-After.
	PauseStatuses []int

	// PauseWhenUsedUp heeds any other response that says that nothing is left: one whose
	// RateLimit has r=0 makes its target wait for that t, also if it is a 200. Its
	// Retry-After, which then means something else, is not looked at.
	PauseWhenUsedUp bool

	// MaxPause is the longest that a server can make a target wait: 1 ms or more; 0 is
	// 1 h. Below 0, servers that ask to wait are not heeded.
	MaxPause time.Duration

	// MaxTargets is how many targets can be waiting at a time: 1 or more; 0 is 1,000.
	// Beyond it, one of those that would be free soonest is.
	MaxTargets int

	// Logger gets the errors of limiters, at most one a minute of each. Nil is
	// slog.Default().
	Logger *slog.Logger
}

// Transport is an [http.RoundTripper] that limits outgoing calls. In this order:
//
//   - If the server has asked to wait, the call is refused until that time, and not
//     sent: after a 429 or 503 with Retry-After, in seconds or as a date, or else with a
//     policy in RateLimit that has r=0, for its t. The time of a date is taken from that
//     of the response, if it has one, so that the clocks need not agree. See PauseStatuses
//     and PauseWhenUsedUp of [TransportConfig] for more. All calls with the same Target
//     wait.
//   - The limits are asked: the error is a [*RefusedError] if one refuses.
//   - The gate is asked: the error is a [*leapgate.BlockError] if it refuses, and the
//     limits get back what they took.
//
// All of these are [leapgate.ErrBlocked]; an [http.Client] wraps them in a *url.Error. Where
// its Timeout ends the wait for a turn, it may replace the error by one of its own.
// What is refused is not sent, and its body is closed, also when a function of the program
// panics. Nothing is retried. Requests are not changed, and of responses only Body is, if there
// is a Gate: it can be read and closed as before, and written to after a 101.
//
// It may be used by any number of goroutines at once.
type Transport struct {
	base       http.RoundTripper // nil: the default
	gate       *leapgate.Gate
	resource   func(*http.Request) string
	outcome    func(*http.Response, error) leapgate.Outcome // nil: the default
	target     func(*http.Request) string
	limits     limits
	pauses     *pauses.Pauses // nil: servers that ask to wait are not heeded
	statuses   []int          // with which it is
	whenUsedUp bool           // it is also with a RateLimit that says that nothing is left
}

// RefusedError says why an outgoing call was not sent, if it was not the gate. It is
// [leapgate.ErrBlocked]. In a [Refusal], it is the Err of a limit that cannot count.
type RefusedError struct {
	Target string // that has to wait; "" if a limit refused
	Status int    // of the response that asked to wait; 0 if a limit refused
	Policy string // the limit that refused; "" if the server asked to wait
	// CannotCount says that the limit refused because it could not count, and not because
	// it is used up: see Unavailable of [limit.Decision].
	CannotCount bool
	// RetryAfter is how long from then the call would not be refused for this reason;
	// 0 if that is not known, limit.Never if it always is.
	RetryAfter time.Duration
}

// Error reads: leaphttp: not sent: "api.example.com" answered 429 and asked to wait, for
// 12s from now. Or: leaphttp: not sent: limit "per-host" is used up; retry in 3s. Or:
// leaphttp: limit "per-host" cannot count now; retry in 200ms.
func (e *RefusedError) Error() string {
	switch {
	case e.CannotCount:
		return charging.Text("leaphttp", e.Policy, true, e.RetryAfter)
	case e.Policy == "":
		return fmt.Sprintf("leaphttp: not sent: %.64q answered %d and asked to wait, for %v from now", e.Target, e.Status, e.RetryAfter.Round(time.Millisecond))
	}
	return charging.Text("leaphttp: not sent", e.Policy, false, e.RetryAfter)
}

// Unwrap returns [leapgate.ErrBlocked].
func (e *RefusedError) Unwrap() error { return leapgate.ErrBlocked }

// NewTransport returns a transport. The error, if any, is [ErrConfig], and names everything
// that is wrong with cfg.
func NewTransport(cfg TransportConfig) (*Transport, error) {
	var faults faults
	t := &Transport{base: cfg.Base, gate: cfg.Gate, resource: cfg.Resource, outcome: cfg.Outcome, target: cfg.Target}
	if cfg.Gate == nil {
		charging.Unused(cfg, faults.add, charging.WithoutGate, "Resource", "Outcome")
	}
	if t.resource == nil {
		t.resource = methodAndHost
	}
	if t.target == nil {
		t.target = host
	}
	for i := range cfg.Limits {
		if cfg.Limits[i].InFlight != nil {
			faults.add("Limits[%d].InFlight is set, which is for handlers; want a rule on calls in flight in the Gate", i)
		}
	}
	t.limits = newLimits(cfg.Limits, host, cfg.Logger, &faults)
	t.pauses = pauses.New(cfg.MaxPause, cfg.MaxTargets, faults.add)
	if charging.IsNil(cfg.Base) && cfg.Base != nil {
		faults.add("Base is a nil %T; want a RoundTripper, or nil for http.DefaultTransport", cfg.Base)
	}
	for i, status := range cfg.PauseStatuses {
		if status < 400 || status > 599 {
			faults.add("PauseStatuses[%d] is %d; want 400 to 599", i, status)
		}
	}
	if cfg.MaxPause < 0 {
		charging.Unused(cfg, faults.add, " and MaxPause is below 0, so that nothing is heeded; want one of them", "PauseStatuses", "PauseWhenUsedUp")
	}
	t.statuses = append([]int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, cfg.PauseStatuses...)
	t.whenUsedUp = cfg.PauseWhenUsedUp
	if err := faults.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// MustTransport is [NewTransport] for a configuration that is known to be good. It
// panics otherwise.
func MustTransport(cfg TransportConfig) *Transport {
	t, err := NewTransport(cfg)
	if err != nil {
		panic(err)
	}
	return t
}

// RoundTrip sends the request, or refuses it: see [Transport].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil {
		return t.send(r) // which says what is wrong
	}
	sent := false
	defer func() {
		// A RoundTripper owes that also to requests that it does not send.
		if !sent && r.Body != nil {
			_ = r.Body.Close() // it was not read
		}
	}()
	target := ""
	if t.pauses != nil {
		if target = charging.Bounded(t.target(r)); target != "" {
			if rest, status := t.pauses.Check(target); rest > 0 {
				return nil, &RefusedError{Target: target, Status: status, RetryAfter: rest}
			}
		}
	}
	var few [fewLimits]charge
	charges, refusal := t.limits.take(r.Context(), r, few[:0])
	if refusal != nil {
		return nil, refusal.callError(r.Context())
	}
	defer func() {
		if !sent { // also if a Resource of the program panics
			refund(r, charges)
		}
	}()
	var response *http.Response
	var err error
	if t.gate != nil {
		response, err = t.exchange(r, &sent)
	} else {
		sent = true
		response, err = t.send(r)
	}
	if target != "" && response != nil {
		t.pauses.Add(target, response.StatusCode, t.pauseOf(response))
	}
	return response, err
}

// pauseOf is how long the server asks to wait; 0 if it does not, or is not heeded.
func (t *Transport) pauseOf(response *http.Response) time.Duration {
	switch {
	case slices.Contains(t.statuses, response.StatusCode):
		return pauseAsked(response.Header, time.Now())
	case t.whenUsedUp:
		return pauseUsedUp(response.Header)
	default:
		return 0
	}
}

func (t *Transport) send(r *http.Request) (*http.Response, error) {
	if t.base == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.base.RoundTrip(r)
}

// CloseIdleConnections closes those of Base. [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// callError is the error of an outgoing call that the limits refuse.
func (f *Refusal) callError(ctx context.Context) error {
	switch {
	case len(f.Policies) > 0:
		return &RefusedError{Policy: f.Policies[0], RetryAfter: f.RetryAfter}
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return f.Err
	}
}

// methodAndHost is the name of the resource of an outgoing call.
func methodAndHost(r *http.Request) string { return withMethod(r.Method, host(r)) }

// host is the host that is called, with its port if that is not the usual one. There are many
// ways to write one; those that differ in case, by a dot at the end, or by the usual port are
// one.
func host(r *http.Request) string {
	if r.URL == nil {
		return ""
	}
	name, port := strings.TrimSuffix(r.URL.Hostname(), "."), r.URL.Port()
	if strings.Contains(name, ":") {
		name = "[" + name + "]" // IPv6
	}
	if port != "" && port != usualPorts[r.URL.Scheme] {
		name += ":" + port
	}
	return strings.ToLower(name)
}

var usualPorts = map[string]string{"http": "80", "https": "443"}
