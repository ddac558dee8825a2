// Package leapgrpc puts gates and limiters in front of gRPC services, and in front of outgoing
// calls.
//
//	limits, err := leapgrpc.New(leapgrpc.Config{
//		Gate:   gate, // rules on each method, and its statistics
//		Limits: []leapgrpc.Limit{{Limiter: perClient}}, // by the address of the peer
//	})
//	…
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limits.UnaryServer, …),
//		grpc.ChainStreamInterceptor(limits.StreamServer, …),
//	)
//
// The interceptors must be the first of their chains, and so the outermost: what is refused then runs
// no other code, and none of it has called grpc.SetHeader. Headers commit a call, and a client
// retries only what has none.
//
// # Refusals
//
// A quota that is used up is ResourceExhausted; an open breaker, and a service that protects
// itself, as by calls in flight, is Unavailable. The status has google.rpc details: RetryInfo if
// it is known when the call would pass, QuotaFailure with the name of the rule or of the limit, and
// ErrorInfo of the domain "leapgate" with the reason RATE_LIMITED, CIRCUIT_OPEN or OVERLOADED. The
// message says nothing of the inside, and nothing has a key in it. The trailer
// grpc-retry-pushback-ms lets a client with a retry policy come again by itself at the right
// time. It is -1, which is not to retry, if the call would never pass, or not 10 ms before the client's
// deadline or within Config.MaxPushback: a client would wait it out, and lose the status.
//
// # Clients
//
// [Interceptors.UnaryClient] and [Interceptors.StreamClient] do the same for outgoing calls, and
// heed what servers answer: a target that asks to wait is not called until then. What is refused
// here is [leapgate.ErrBlocked]; what a server has refused is not. Nothing is retried. An interceptor
// behind may make several attempts of a call, also at once: they are one call. In front of
// these, each of its attempts is a call.
//
// # Streams
//
// A stream is one call, from its opening until its handler returns, or on the client's side until
// it has ended. Its response time is how long it was open, so that of the method "/p.S/M" is a
// resource of its own, "/p.S/M (stream)".
package leapgrpc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/args"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/internal/pauses"
)

// Config says what stands in front of calls. A server and a client have a Config each. That of a
// server needs a Gate, Limits or PerMessage; the zero Config is for a client that heeds what servers
// answer, and nothing else.
type Config struct {
	// Gate, if it is not nil, admits each call as one into a resource. It is asked last. If it
	// refuses, the limits get back what they took; not if a client of a server has left while
	// it waited for a turn, for otherwise it could take every turn for nothing.
	Gate *leapgate.Gate

	// Limits are asked in this order, those that ask another process first. When one
	// refuses, those before it get back what they took.
	Limits []Limit

	// PerMessage are asked for each message that a stream of a server has received, by RecvMsg. If
	// one refuses, RecvMsg returns the refusal from then on, and so the stream ends with it,
	// whatever its handler returns. They are rates: InFlight is not for them.
	PerMessage []Limit

	// Key returns the client for the limits that have no Key of their own. Nil: on a server the
	// address of the peer, as [Peer] finds it; on a client the target.
	Key Key

	// Resource returns the name of the resource of a call, 1 to 1,024 bytes; a longer one is
	// hashed. Nil: the method, such as "/orders.Orders/Get", with " (stream)" behind it for
	// streams. All methods that are not registered, and that an UnknownServiceHandler answers,
	// are "(unknown)". It must not be what clients can make up, or else there is a resource for
	// each. A client of several servers should have resources by target too, so that one that
	// fails takes no other along: call.Target + call.Method.
	Resource func(Call) string

	// Origin returns the caller, for rules by origin. One that is too long is hashed. Nil:
	// callers have no names.
	Origin Key

	// Args are the arguments of each call by their names, for rules of kind param: at most
	// four. A call for which one returns "" does not have it. A value of more than 1,024 bytes is
	// counted by its SHA-256. On a unary call they can look at the message, Call.Request:
	//
	//	Args: map[string]leapgrpc.Key{
	//		"item": func(call leapgrpc.Call) string {
	//			if r, ok := call.Request.(interface{ GetItem() string }); ok {
	//				return r.GetItem()
	//			}
	//			return ""
	//		},
	//		"tenant": leapgrpc.Metadata("tenant"), // that the authentication in front has checked
	//	}
	Args map[string]Key

	// Criticality returns how much a call matters when not all can be served, for system rules.
	// Nil: all have the default. See [TrustedCriticality].
	Criticality func(Call) leapgate.Criticality

	// Exempt returns what of the above a call to a server does not have to pass. Nil is
	// [DefaultExempt].
	Exempt func(Call) Exemption

	// Outcome says how a call has ended, by the error that its handler, or the server, has
	// returned; it is not asked what the Outcome of the gate says. It is not asked of calls that
	// the caller has canceled, nor of those of a client that an interceptor behind has refused: these
	// are ignored. It must be safe for concurrent use. If it panics, the call has failed. Nil is
	// [DefaultOutcome].
	Outcome func(error) leapgate.Outcome

	// MinDeadline is the shortest deadline of a call to a server that the server is expected to meet. A call
	// whose client gave it less time, and that fails after the deadline or with DeadlineExceeded, is ignored.
	// Otherwise clients could open a breaker with deadlines that are shorter than the handler needs. The
	// default is 100ms. A negative value means that all deadlines count.
	MinDeadline time.Duration

	// NoDetails leaves out the details of the status of refusals; the code, and the pushback,
	// remain.
	NoDetails bool

	// MaxPushback is the longest wait that a client is told to come again after by itself: 1 ms
	// or more; 0 is 10 s. RetryInfo says it however long it is.
	MaxPushback time.Duration

	// Services returns the services that are registered, for [Interceptors.InTap], which needs
	// it, and for [Interceptors.StreamServer], to know which methods are. It is called once, with
	// the first call:
	//
	//	var server *grpc.Server
	//	… Services: func() map[string]grpc.ServiceInfo { return server.GetServiceInfo() }
	//
	// Without it, StreamServer takes a method whose service has no implementation, which is nil,
	// for one that is not registered.
	Services func() map[string]grpc.ServiceInfo

	// Target is what has to wait when a server asks a client for it: all calls with the same
	// target wait. Nil is that of the connection. If it returns "", the call neither waits nor
	// makes others wait. Where a server counts by method, one method that has used up its quota
	// stops the others too; then let Target return call.Target + call.Method.
	Target func(Call) string

	// MaxPause is the longest that a server can make a target wait: 1 ms or more; 0 is
	// 1 h. Below 0, servers that ask to wait are not heeded.
	MaxPause time.Duration

	// Pushback has a client heed the trailer grpc-retry-pushback-ms of unary calls too, for servers
	// that ask to wait without RetryInfo; that of streams it heeds anyway. It costs two
	// allocations a call, and no interceptor behind this one may then invoke a call several
	// times at once, as hedging does, since all would write to the same trailer.
	Pushback bool

	// MaxTargets is how many targets can be waiting at a time: 1 or more; 0 is 1,000.
	// Beyond it, one of those that would be free soonest is.
	MaxTargets int

	// Logger gets the errors of limiters, at most one a minute of each, and one warning of a
	// limit that had no key for any of the first calls. Nil is slog.Default().
	Logger *slog.Logger
}

const (
	defaultMinDeadline = 100 * time.Millisecond
	defaultMaxPushback = 10 * time.Second
)

// ErrConfig is what every fault of a configuration is.
var ErrConfig = errors.New("leapgrpc: bad configuration")

// Interceptors are what a [Config] says, as functions that package grpc takes. Make them with
// [New]. All methods may be called by any number of goroutines at once.
type Interceptors struct {
	gate               *leapgate.Gate
	limits, perMessage limits
	resource           func(Call) string
	origin             Key
	args               args.Args[Call]
	criticality        func(Call) leapgate.Criticality
	exempt             func(Call) Exemption
	outcome            func(error) leapgate.Outcome
	minDeadline        time.Duration
	details            bool
	maxPushback        time.Duration
	registered         func() map[string]bool // methods, and whether they are streams; nil: not known
	target             func(Call) string
	pushback           bool
	pauses             *pauses.Pauses // nil: servers that ask to wait are not heeded
}

// New returns interceptors. The error, if any, is [ErrConfig], and names everything that is
// wrong with cfg.
func New(cfg Config) (*Interceptors, error) {
	var faults faults
	x := &Interceptors{
		gate: cfg.Gate, resource: cfg.Resource, origin: cfg.Origin, criticality: cfg.Criticality,
		exempt: cfg.Exempt, outcome: cfg.Outcome, minDeadline: cmp.Or(cfg.MinDeadline, defaultMinDeadline), details: !cfg.NoDetails, maxPushback: cmp.Or(cfg.MaxPushback, defaultMaxPushback), target: cfg.Target,
		pushback: cfg.Pushback,
	}
	x.args = args.New[Call](cfg.Args, faults.add)
	if cfg.Gate == nil {
		charging.Unused(cfg, faults.add, charging.WithoutGate, "Resource", "Origin", "Args", "Criticality", "Outcome", "MinDeadline")
	}
	key := cfg.Key
	if key == nil {
		key = peerOrTarget
	}
	x.limits = newLimits("Limits", cfg.Limits, key, cfg.Logger, &faults)
	x.perMessage = newLimits("PerMessage", cfg.PerMessage, key, cfg.Logger, &faults)
	for i := range cfg.PerMessage {
		if cfg.PerMessage[i].InFlight != nil {
			faults.add("PerMessage[%d].InFlight is set, and a message is not in flight; want a Limiter", i)
		}
	}
	if cfg.MaxPushback != 0 && cfg.MaxPushback < time.Millisecond {
		faults.add("MaxPushback is %v; want 1ms or more, or 0 for %v", cfg.MaxPushback, defaultMaxPushback)
	}
	x.pauses = pauses.New(cfg.MaxPause, cfg.MaxTargets, faults.add)
	if cfg.Pushback && cfg.MaxPause < 0 {
		faults.add("Pushback is set and MaxPause is below 0, so that nothing is heeded; want one of them")
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if x.resource == nil {
		x.resource = methodOf
	}
	if x.exempt == nil {
		x.exempt = DefaultExempt
	}
	if x.outcome == nil {
		x.outcome = DefaultOutcome
	}
	if x.target == nil {
		x.target = func(call Call) string { return call.Target }
	}
	if cfg.Services != nil {
		x.registered = registered(cfg.Services)
	}
	return x, nil
}

// Must is [New] for a configuration that is known to be good. It panics otherwise.
func Must(cfg Config) *Interceptors {
	x, err := New(cfg)
	if err != nil {
		panic(err)
	}
	return x
}

type faults []error

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
}
