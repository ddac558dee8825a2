package leaphttp

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/criticalities"
	"github.com/leapgate-go/leapgate/rule"
)

// CriticalityConfig says how much requests matter when not all can be served: see
// [leapgate.WithCriticality]. That of the zero CriticalityConfig is the default for all.
type CriticalityConfig struct {
	// Routes are those of single resources, by their names, such as "GET /orders/{id}": a method, a
	// blank, and the route. All others have the default.
	Routes map[string]leapgate.Criticality

	// Header is a field, such as "Criticality", in which peers that are trusted say how much a
	// request matters: critical, default, sheddable or background. It counts in place of the
	// route's if it was sent once. Empty: nobody says. Host, Trailer and Transfer-Encoding cannot be
	// it: net/http takes them out of the header.
	Header string
	// Trusted are the networks of those peers. A network of 0 bits, which trusts everyone, is
	// a fault, and so is a Header without Trusted or TrustSocket: clients would all be critical.
	Trusted []netip.Prefix
	// TrustSocket trusts a peer that has no address, as over a Unix socket.
	TrustSocket bool
	// Most is the most that a peer may say. What is more counts as this. With the zero, which is the
	// default criticality, no peer can make its requests critical.
	Most leapgate.Criticality
}

// criticality is a CriticalityConfig that is good.
type criticality struct {
	routes map[string]leapgate.Criticality
	header string // canonical
	peers  *Address
	most   leapgate.Criticality
}

// newCriticality returns nil for the zero of cfg.
func newCriticality(cfg *CriticalityConfig, faults *faults) *criticality {
	if cfg.Routes == nil && cfg.Header == "" && cfg.Trusted == nil && !cfg.TrustSocket && cfg.Most == 0 {
		return nil
	}
	c := &criticality{routes: cfg.Routes, header: http.CanonicalHeaderKey(cfg.Header), most: cfg.Most}
	if cfg.Header != "" && (!isToken(cfg.Header) || slices.Contains(takenOut, c.header)) {
		faults.add("Criticality.Header is %.64q; want the name of a header field, other than %s", cfg.Header, strings.Join(takenOut, ", "))
	}
	if trusts := cfg.Trusted != nil || cfg.TrustSocket; trusts != (cfg.Header != "") {
		faults.add("Criticality.Header is %.64q, and is for peers that are trusted; want both it and Criticality.Trusted, or none of them", cfg.Header)
	}
	var bad error
	if c.peers, bad = NewAddress(AddressConfig{Trusted: cfg.Trusted, TrustSocket: cfg.TrustSocket}); bad != nil {
		faults.add("Criticality: %w", bad)
	}
	if cfg.Most > leapgate.Background {
		faults.add("Criticality.Most is %d; want one of the criticalities", cfg.Most)
	}
	for _, route := range slices.Sorted(maps.Keys(cfg.Routes)) {
		if v := cfg.Routes[route]; v > leapgate.Background {
			faults.add("Criticality.Routes[%.64q] is %d; want one of the criticalities", route, v)
		}
		if !hasMethod(route) || len(route) > rule.MaxNameLength {
			faults.add("Criticality.Routes has %.64q; want the name of a resource: a method, a blank and the route, such as \"GET /orders/{id}\", up to %d bytes",
				route, rule.MaxNameLength)
		}
	}
	return c
}

// takenOut are the fields that net/http keeps elsewhere than in the header of a request.
var takenOut = []string{"Host", "Trailer", "Transfer-Encoding"}

// of is how much a request for a resource matters.
func (c *criticality) of(r *http.Request, name string) leapgate.Criticality {
	if c.header != "" {
		if said := r.Header[c.header]; len(said) == 1 {
			if v, ok := criticalities.Parse(trim(said[0])); ok && c.peers.TrustsPeer(r.RemoteAddr) {
				return criticalities.Clamp(v, c.most)
			}
		}
	}
	return c.routes[name]
}
