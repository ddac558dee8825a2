package leapgrpc

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc"
)

// Call is what is known of a call before it begins.
type Call struct {
	// Context is that of the call. On a server, it has the peer and the metadata.
	Context context.Context //nolint:containedctx // as that of an http.Request: it lives as long as the question

	// Method is the full name, "/package.Service/Method", or [Unknown].
	Method string
	// Stream is set for streams.
	Stream bool
	// Request is the message of a unary call; nil for streams, and in a tap.
	Request any
	// Target is that of the connection, for outgoing calls; "" on a server.
	Target string

	exempt Exemption
	tapped bool // it must not wait
}

// Unknown is the method, and the resource, of all calls to methods that are not registered.
const Unknown = "(unknown)"

// methodOf is the name of the resource of a call.
func methodOf(call Call) string {
	if call.Stream && call.Method != Unknown {
		return call.Method + " (stream)"
	}
	return call.Method
}

// registered returns a function that asks once for the services, and returns their methods.
func registered(services func() map[string]grpc.ServiceInfo) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		methods := make(map[string]bool)
		for service, info := range services() {
			for _, m := range info.Methods {
				methods["/"+service+"/"+m.Name] = m.IsClientStream || m.IsServerStream
			}
		}
		return methods
	})
}

// Exemption is what a call does not have to pass.
type Exemption uint8

// The exemptions.
const (
	NotExempt Exemption = iota
	// FromRates is from all limits per time: limiters, rules of kind flow, and those of kind
	// param that are. The call counts among those in flight, and is in the statistics.
	FromRates
	// FromAll is from everything: the call is not counted either.
	FromAll
)

// DefaultExempt exempts what keeps a service running: Check and List of grpc.health.v1.Health from
// everything; its Watch, reflection and channelz from rates.
func DefaultExempt(call Call) Exemption {
	if !strings.HasPrefix(call.Method, "/grpc.") {
		return NotExempt
	}
	switch service, method, _ := strings.Cut(call.Method[len("/grpc."):], "/"); {
	case service == "health.v1.Health" && (method == "Check" || method == "List"):
		return FromAll
	case service == "health.v1.Health" && method == "Watch",
		service == "reflection.v1.ServerReflection", service == "reflection.v1alpha.ServerReflection",
		service == "channelz.v1.Channelz":
		return FromRates
	default:
		return NotExempt
	}
}
