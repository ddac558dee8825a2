package leapgrpc

import (
	"context"
	"crypto/x509"
	"strconv"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/internal/criticalities"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// Key returns the key that a call is counted by, or "" if it is not known: all such calls share
// one. It may be called by any number of goroutines at once. Any function will do; see also
// [Peer], [Address], [Metadata], [APIKey], [SAN], [FromContext], [Composite] and [FirstOf].
//
// Whatever clients send, a limiter sees keys of at most 64 bytes: longer ones are counted by
// their hash, as [leaphttp.LimiterKey] has it.
type Key func(Call) string

var directly = leaphttp.MustAddress(leaphttp.AddressConfig{})

// Peer is the address of the peer: "203.0.113.7", or "2001:db8:1:2::/64", since one client of IPv6
// usually has a whole /64. Behind a proxy, it is the proxy's: see [Address].
func Peer(call Call) string { return addressOf(directly, call) }

// Address is the address of the client, which trusted proxies name in the metadata, as in
// x-forwarded-for. It panics if a is nil.
func Address(a *leaphttp.Address) Key {
	if a == nil {
		panic("leapgrpc: Address: the address is nil")
	}
	return func(call Call) string { return addressOf(a, call) }
}

func addressOf(a *leaphttp.Address, call Call) string {
	return a.KeyOf(remoteOf(call), func(header string) []string {
		return metadata.ValueFromIncomingContext(call.Context, strings.ToLower(header))
	})
}

// remoteOf is the address of the peer with its port; "" if it has none.
func remoteOf(call Call) string {
	if p, ok := peer.FromContext(call.Context); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// peerOrTarget is the default key.
func peerOrTarget(call Call) string {
	if call.Target != "" {
		return call.Target
	}
	return Peer(call)
}

// Metadata is the first value of that name in the metadata of a call to a server, as it was sent: a
// client can send any. Use it for what a proxy or an authentication in front has set or checked, or
// else a client gets a new limit with each value it makes up. It panics if name is empty.
func Metadata(name string) Key {
	if name == "" {
		panic("leapgrpc: Metadata: the name is empty")
	}
	name = strings.ToLower(name)
	return func(call Call) string {
		if values := metadata.ValueFromIncomingContext(call.Context, name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// APIKey is the API key in the metadata, hashed, so that no secret is kept in a limiter or shown in
// its statistics. In authorization, "Bearer" before it does not matter. As with [Metadata], only with
// a checked key are clients told apart. It panics if name is empty.
func APIKey(name string) Key {
	value := Metadata(name)
	bearer := strings.EqualFold(name, "authorization")
	return func(call Call) string { return charging.Secret(value(call), bearer) }
}

// SAN is the first name of the client in its certificate: a URI, such as a SPIFFE ID, or else a DNS
// name, or else an address of e-mail. It is "" unless the server has verified the certificate.
func SAN(call Call) string {
	p, ok := peer.FromContext(call.Context)
	if !ok {
		return ""
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return ""
	}
	return nameIn(info.State.VerifiedChains[0][0])
}

func nameIn(c *x509.Certificate) string {
	switch {
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.EmailAddresses) > 0:
		return c.EmailAddresses[0]
	default:
		return ""
	}
}

// FromContext is what get finds in the context of the call: the user, for instance, that an
// authentication in front has put there. It panics if get is nil.
func FromContext(get func(context.Context) string) Key {
	if get == nil {
		panic("leapgrpc: FromContext: the function is nil")
	}
	return func(call Call) string { return get(call.Context) }
}

// Composite counts by several keys together: each combination by itself, as
// [leaphttp.Composite] does. It panics without keys, or if one is nil.
func Composite(keys ...Key) Key {
	checkKeys("Composite", keys)
	return charging.Composite[Call](keys)
}

// FirstOf counts by the first of several keys that is known, such as the user, else the address. The
// same text from two of them makes two keys. It panics without keys, or if one is nil.
func FirstOf(keys ...Key) Key {
	checkKeys("FirstOf", keys)
	return charging.FirstOf[Call](keys)
}

func checkKeys(what string, keys []Key) {
	if len(keys) == 0 {
		panic("leapgrpc: " + what + ": there is no key")
	}
	for i, key := range keys {
		if key == nil {
			panic("leapgrpc: " + what + ": key " + strconv.Itoa(i) + " is nil")
		}
	}
}

// TrustedCriticality is for Config.Criticality: what peers that a trusts say in the metadata of that
// name, if they send it once: critical, default, sheddable or background. What is more than most
// counts as most; with the default for most, no peer can make its calls critical. Other calls have the
// default. It panics if name is empty or a is nil.
func TrustedCriticality(name string, a *leaphttp.Address, most leapgate.Criticality) func(Call) leapgate.Criticality {
	if name == "" || a == nil {
		panic("leapgrpc: TrustedCriticality: the name is empty or the address is nil")
	}
	name = strings.ToLower(name)
	return func(call Call) leapgate.Criticality {
		if said := metadata.ValueFromIncomingContext(call.Context, name); len(said) == 1 {
			if v, ok := criticalities.Parse(said[0]); ok && a.TrustsPeer(remoteOf(call)) {
				return criticalities.Clamp(v, most)
			}
		}
		return 0
	}
}
