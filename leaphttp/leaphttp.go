// Package leaphttp puts gates and limiters in front of HTTP handlers, and in front of
// outgoing calls.
//
//	perClient, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 100, Window: time.Minute})
//	…
//	protect, err := leaphttp.New(leaphttp.Config{
//		Gate:   gate, // rules on each route, and its statistics
//		Mux:    mux,  // knows the route of a request
//		Limits: []leaphttp.Limit{{Limiter: perClient}}, // by the address of the peer
//	})
//	…
//	http.ListenAndServe(":8080", protect(mux))
//
// What [New] returns is middleware as chi and others take it. Around a single handler it
// makes limits for one route. [Handler] is both steps in one.
//
// A request that is refused gets 429 or 503 with problem details, and with Retry-After if it
// is known when it would pass; no part of the handler runs. Requests that are admitted learn how things stand from
// the RateLimit fields. [Transport] does the same for outgoing calls, and heeds what
// servers answer.
//
// # Clients
//
// A [Key] says which client a request counts for. By default it is the address of the
// socket's peer; behind a proxy that is the proxy, so say which proxies to trust with an
// [Address]. A request whose key is not known is limited too: all such requests share one
// key. Whatever clients send, a limiter sees keys of at most 64 bytes: longer ones are
// counted by their hash, as [LimiterKey] has it. [Config].Args are keys too, for rules of the
// gate that count by what a request is about.
//
// # What a request costs
//
// A [Limit] has a Cost, if not every request takes 1. A handler that knows better corrects
// it: [Settle] makes an estimate into what it was, and [Refund] gives all back, so that only
// failed logins count. A [Checker] asks inside the handler, by a key that stands in the body.
//
// # Long connections
//
// A call lasts until the handler returns. For server-sent events and websockets that is
// as long as the connection, if the handler stays with it: so a rule on calls in flight
// bounds the open connections, and their response time is how long they were open, except for
// waits for the client. They have a route, and so a resource, of their own. A handler that hijacks its connection
// and returns has ended its call.
//
// An outgoing call lasts as long as the body of its response, so what was said of handlers
// goes for the programs that read streams and hold websockets: let [TransportConfig].Resource
// name them apart.
//
// # Slow and broken clients
//
// Clients must not be able to open a breaker. If a client hangs up, or its body cannot be read, a failure of the
// handler is ignored: see [Config].Gate. The time in which the handler waits for the client is not part of the
// response time: reading or closing the request's body, flushing, and writing an answer after its first 2 KB, which a
// server keeps. Some waiting is not excluded: a breaker counts it in its probes, and it cannot be seen on a connection that
// the handler has hijacked or through a writer that hides this package's. All calls of slow clients count as calls in
// flight. So set the timeouts of [http.Server].
//
// # Resources and methods
//
// The resource of a route without a method, such as "/orders", is "GET /orders", "POST /orders" and so on. A rule with
// the pattern "* /orders" has one threshold for each of these resources, so a client gets the threshold once per
// method. Write the method in the route if that matters. A rule on "GET /orders" does not bind HEAD requests, whose
// resource is "HEAD /orders" unless the route has the method GET.
//
// # Large bodies
//
// [http.MaxBytesReader] tells the server not to wait for the rest of a body that is too
// large, but only through the server's own writer, and a handler has another.
// An answer of 413 does it there: it closes the connection of an HTTP/1 request that has a
// body. With another status the answer is held until the server has read up to 256 KB more:
// put [http.MaxBytesHandler] around the middleware, which has the server's writer.
package leaphttp

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/args"
	"github.com/leapgate-go/leapgate/internal/charging"
)

// Config says what stands in front of a handler. It needs a Gate or Limits.
type Config struct {
	// Gate, if it is not nil, admits each request as a call into the resource of its
	// route: "GET /orders/{id}". It is asked last. If it refuses, the limits get back what
	// they took, unless the client has hung up while it waited for a turn: otherwise it
	// could take every turn for nothing.
	//
	// How a call ends is up to the gate's Outcome. It gets a [StatusError] for
	// an answer of 500 or more, [ErrPanic] for a panic, and what [SetError] got: by default
	// all of these are failures. If the client has hung up, or its body could not be read, Outcome
	// gets context.Canceled instead of the first two. It is ignored by default, because the client
	// may have caused the failure.
	Gate *leapgate.Gate

	// Limits are asked in this order, those that ask another process first. When one
	// refuses, those before it get back what they took. That goes for the limits of one
	// middleware: what one around it has taken stays taken.
	//
	// A client that hangs up does not end the question: a limiter gets a context that has
	// the values of the request's, but neither its end nor its deadline. It is up to the
	// limiter to answer in time, as those of package leapredis do by their Timeout. What
	// it took stays taken, and the handler does not run.
	Limits []Limit

	// Mux, for a middleware around a ServeMux, finds the route of a request that has
	// not yet been routed. Not together with Route. Without a Gate, it names requests for
	// DecisionLog.
	Mux *http.ServeMux

	// Route, for other routers, returns the pattern of the route, such as "/orders/{id}",
	// or "" if there is none. A pattern without a method gets that of the request before
	// it. It must never be the path itself, or else clients choose the names of
	// resources. Nil, without a Mux: [http.Request.Pattern], which is there inside a
	// route.
	//
	// What has no route has the resource "GET (unmatched)", or that of its method. That is
	// all there is around a router that has not yet routed the request, as in the Use of
	// chi, and a route such as "/api/" is all there is of a mux in a mux: rules on the
	// routes inside do not bind there. Put the middleware around the handler of each route
	// then, or give a Route that finds it. Where it looks as if a rule were lost in this
	// way, Logger is warned.
	// Methods that are not in RFC 9110 or RFC 5789 are all "OTHER".
	Route func(*http.Request) string

	// Origin returns the caller, for rules by origin. One that is too long is hashed. Nil:
	// callers have no names.
	Origin func(*http.Request) string

	// Args are the arguments of each request by their names, for rules of kind param: at most
	// four. A request for which one returns "" does not have it, and the rule's Missing says
	// what becomes of it. A value of more than 1,024 bytes is counted by its SHA-256, as is one
	// that begins with a NUL: nothing in a rule's Items binds it then, bot-* neither.
	//
	//	Args: map[string]leaphttp.Arg{
	//		"item":    leaphttp.PathValue("id"),
	//		"tenant":  leaphttp.Header("X-Tenant"), // that the authentication in front has set
	//		"address": leaphttp.MustAddress(leaphttp.AddressConfig{}).Key,
	//	}
	//
	// They are asked after Route. A Mux sets no path values before it routes a request, so the
	// middleware sets those of its pattern; a Route must do so itself.
	Args map[string]Arg

	// Criticality is how much requests matter when not all can be served, for system rules.
	Criticality CriticalityConfig

	// Include are the paths that the middleware is for; none is all. Exclude are those that are
	// not, even though included, such as health checks. Everything else passes the
	// middleware untouched. "/healthz" is one path; "/api/" is all that begins so, and
	// "/api"; a segment "{…}" stands for any one. Methods and hosts do not matter.
	//
	// A path that is written in an unusual way, which routers and file systems do not read
	// alike, is always included: one with an empty segment, a segment that begins with ".."
	// or ends with a dot, needless %-codes, or one of ;, \, %, ?, #, a blank or a control
	// character in it. Upper and lower case differ: where the handler takes them for
	// the same, do not use Include.
	Include, Exclude []string

	// Headers says which header fields inform clients of limits. 0 is [Draft].
	Headers Headers

	// Status returns the status of a request that the gate refuses, 400 to 599; anything
	// else stands for 503. Nil: that of the rule, as [resource.Cause] has it, which is 429
	// for a flow rule, and 503 for a rule that protects the service from its own load and
	// failures.
	Status func(*leapgate.BlockError) int

	// Refuse answers what is refused. The header fields are set already; Refusal.Status
	// is the status that it should have. Nil is [Refusal.WriteProblem].
	Refuse func(http.ResponseWriter, *http.Request, *Refusal)

	// DecisionLog, if it is not nil, gets a line of JSON for each request when it has ended, for "leapgate
	// replay" and package whatif: when it came, its resource, its key, which is that of the
	// limit that is asked first or, without limits, the address of the peer; how much it took of that limit, if
	// more than 1; how long it took, its status, and which policy or rule refused it, if any did.
	//
	// One goroutine at a time writes to it, several lines at once. No request waits for it: at
	// most 1 MiB waits to be written, and what does not fit, or cannot be written, is dropped and counted in a line of its own.
	// Lines that wait when the program ends are lost.
	DecisionLog io.Writer

	// Logger gets the errors of limiters, at most one a minute of each, and those of DecisionLog. It gets one warning
	// of rules on routes that never bind, because the middleware does not know the routes,
	// and one of a limit that had no key for any of the first requests. Nil is
	// slog.Default().
	Logger *slog.Logger
}

// ErrConfig is what every fault of a configuration is.
var ErrConfig = errors.New("leaphttp: bad configuration")

// New returns a middleware, which puts what is configured in front of a handler. It may be
// called for any number of handlers, which then share the limits, and panics if a handler is
// nil. The error, if any, is [ErrConfig], and names everything that is wrong with cfg.
func New(cfg Config) (func(next http.Handler) http.Handler, error) {
	var faults faults
	m := newMiddleware(cfg, &faults)
	if err := faults.err(); err != nil {
		return nil, err
	}
	return m.wrap, nil
}

func newMiddleware(cfg Config, faults *faults) *middleware {
	m := &middleware{
		gate: cfg.Gate, mux: cfg.Mux, route: cfg.Route, origin: cfg.Origin, args: args.New[*http.Request](cfg.Args, faults.add),
		status: cfg.Status, refuse: cfg.Refuse, decisions: newDecisionLog(cfg.DecisionLog, cfg.Logger),
	}
	m.criticality = newCriticality(&cfg.Criticality, faults)
	if cfg.Gate == nil {
		if len(cfg.Limits) == 0 {
			faults.add("Gate is nil and Limits is empty; want one of them")
		}
		if cfg.DecisionLog == nil {
			charging.Unused(cfg, faults.add, charging.WithoutGate, "Mux", "Route")
		}
		charging.Unused(cfg, faults.add, charging.WithoutGate, "Origin", "Args", "Status", "Criticality")
	}
	if cfg.Mux != nil && cfg.Route != nil {
		faults.add("Mux and Route are both set; want one of them")
	}
	m.unboundRules.gate, m.unboundRules.log = cfg.Gate, charging.LoggerOf(cfg.Logger)
	m.limits = newLimits(cfg.Limits, peerKey, cfg.Logger, faults)
	m.include = newPaths("Include", cfg.Include, faults)
	m.exclude = newPaths("Exclude", cfg.Exclude, faults)
	m.fields = newFields(cfg.Headers, m.limits, faults)
	if m.status == nil {
		m.status = statusOf
	}
	if m.refuse == nil {
		m.refuse = func(w http.ResponseWriter, _ *http.Request, refusal *Refusal) { refusal.WriteProblem(w) }
	}
	return m
}

// Must is [New] for a configuration that is known to be good. It panics otherwise.
func Must(cfg Config) func(next http.Handler) http.Handler {
	wrap, err := New(cfg)
	if err != nil {
		panic(err)
	}
	return wrap
}

// Handler is shorthand for [Must] around one handler: the router of the program, or the
// handler of one route.
func Handler(next http.Handler, cfg Config) http.Handler { return Must(cfg)(next) }

type faults []error

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
}

func (f *faults) err() error { return errors.Join(*f...) }
