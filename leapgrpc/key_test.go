package leapgrpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// callFrom is a call of a peer, with metadata.
func callFrom(addr string, pairs ...string) leapgrpc.Call {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(pairs...))
	if addr != "" {
		ctx = peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))})
	}
	return leapgrpc.Call{Context: ctx}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	proxied := leapgrpc.Address(leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()}))
	for _, c := range []struct {
		name string
		key  leapgrpc.Key
		call leapgrpc.Call
		want string
	}{
		{"a peer of IPv4", leapgrpc.Peer, callFrom("203.0.113.7:1234"), "203.0.113.7"},
		{"a peer of IPv6 is its /64", leapgrpc.Peer, callFrom("[2001:db8:1:2:3::4]:1234"), "2001:db8:1:2::/64"},
		{"IPv4 in IPv6 is IPv4", leapgrpc.Peer, callFrom("[::ffff:203.0.113.7]:1234"), "203.0.113.7"},
		{"no peer", leapgrpc.Peer, callFrom(""), ""},
		{"nobody is trusted", leapgrpc.Peer, callFrom("10.0.0.1:1", "x-forwarded-for", "198.51.100.1"), "10.0.0.1"},
		{"a trusted proxy", proxied, callFrom("10.0.0.1:1", "x-forwarded-for", "6.6.6.6, 198.51.100.1"), "198.51.100.1"},
		{"a peer that is not trusted", proxied, callFrom("203.0.113.7:1", "x-forwarded-for", "198.51.100.1"), "203.0.113.7"},
		{"metadata", leapgrpc.Metadata("Tenant"), callFrom("", "tenant", "a", "tenant", "b"), "a"},
		{"no metadata", leapgrpc.Metadata("tenant"), callFrom(""), ""},
		{"a secret", leapgrpc.APIKey("Authorization"), callFrom("", "authorization", "Bearer s3cret"), "Hsmmtw"},
		{"no secret", leapgrpc.APIKey("authorization"), callFrom("", "authorization", "Bearer "), ""},
		{"two keys", leapgrpc.Composite(leapgrpc.Peer, leapgrpc.Metadata("tenant")), callFrom("203.0.113.7:1", "tenant", "a"), "11:203.0.113.71:a"},
		{"the first that is known", leapgrpc.FirstOf(leapgrpc.Metadata("user"), leapgrpc.Peer), callFrom("203.0.113.7:1"), "1:203.0.113.7"},
		{"no certificate", leapgrpc.SAN, callFrom("203.0.113.7:1"), ""},
	} {
		got := c.key(c.call)
		if c.name == "a secret" {
			assert.Len(t, got, 22, c.name)
			assert.NotContains(t, got, "s3cret")
			assert.Equal(t, got, leapgrpc.APIKey("key")(callFrom("", "key", "s3cret")))
			continue
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

func TestSAN_CountsOnlyIfItIsVerified(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse("spiffe://example.com/orders")
	assert.NoError(t, err)
	for want, c := range map[string]*x509.Certificate{
		"spiffe://example.com/orders": {URIs: []*url.URL{uri}, DNSNames: []string{"orders"}},
		"orders":                      {DNSNames: []string{"orders"}, EmailAddresses: []string{"a@example.com"}},
		"a@example.com":               {EmailAddresses: []string{"a@example.com"}},
		"":                            {},
	} {
		for _, verified := range []bool{true, false} {
			state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
			expected := ""
			if verified {
				state.VerifiedChains, expected = [][]*x509.Certificate{{c}}, want
			}
			ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
			assert.Equal(t, expected, leapgrpc.SAN(leapgrpc.Call{Context: ctx}))
		}
	}
}

func TestKeys_OfNothingPanic(t *testing.T) {
	t.Parallel()
	for _, f := range []func(){
		func() { leapgrpc.Metadata("") },
		func() { leapgrpc.APIKey("") },
		func() { leapgrpc.Address(nil) },
		func() { leapgrpc.FromContext(nil) },
		func() { leapgrpc.Composite() },
		func() { leapgrpc.FirstOf(leapgrpc.Peer, nil) },
		func() { leapgrpc.TrustedCriticality("", nil, 0) },
	} {
		assert.Panics(t, f)
	}
	type user struct{}
	key := leapgrpc.FromContext(func(ctx context.Context) string { return ctx.Value(user{}).(string) })
	assert.Equal(t, "ann", key(leapgrpc.Call{Context: context.WithValue(t.Context(), user{}, "ann")}))
}

func TestTrustedCriticality_BelievesPeersThatAreTrusted(t *testing.T) {
	t.Parallel()
	a := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()})
	of := leapgrpc.TrustedCriticality("Criticality", a, leapgate.Critical)
	assert.Equal(t, leapgate.Critical, of(callFrom("10.0.0.1:1", "criticality", "critical")))
	assert.Equal(t, leapgate.Background, of(callFrom("10.0.0.1:1", "criticality", "background")))
	assert.Zero(t, of(callFrom("203.0.113.7:1", "criticality", "critical")))
	assert.Zero(t, of(callFrom("10.0.0.1:1", "criticality", "critical", "criticality", "critical")))
	assert.Zero(t, of(callFrom("10.0.0.1:1", "criticality", strings.Repeat("x", 9))))
	assert.Zero(t, leapgrpc.TrustedCriticality("criticality", a, 0)(callFrom("10.0.0.1:1", "criticality", "critical")), "not more than most")
}
