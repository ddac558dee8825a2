package leaphttp

import (
	"net/http"
	"net/netip"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
)

// CriticalityConfig says how much requests matter when not all can be served: see
// [leapgate.WithCriticality]. That of the zero CriticalityConfig is the default for all.
type CriticalityConfig struct {
	// Routes are those of single resources, such as "GET /orders/{id}". All others have the
	// default.
	Routes map[string]leapgate.Criticality

	// Header is a field, such as "Criticality", in which peers that are trusted say how much a
	// request matters: critical, default, sheddable or background. It counts in place of the
	// route's if it was sent once. Empty: nobody says.
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
	if cfg.Header != "" && !isToken(cfg.Header) {
		faults.add("Criticality.Header is %.64q; want the name of a header field", cfg.Header)
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
	for route, v := range cfg.Routes {
		if v > leapgate.Background {
			faults.add("Criticality.Routes[%.64q] is %d; want one of the criticalities", route, v)
		}
	}
	return c
}

// of is how much a request for a resource matters.
func (c *criticality) of(r *http.Request, name string) leapgate.Criticality {
	if c.header != "" {
		if said := r.Header[c.header]; len(said) == 1 {
			if v, ok := parseCriticality(trim(said[0])); ok && c.peers.trustsPeer(r) {
				return clamp(v, c.most)
			}
		}
	}
	return c.routes[name]
}

func parseCriticality(text string) (leapgate.Criticality, bool) {
	for c := resource.DefaultCriticality; c <= leapgate.Background; c++ {
		if c.String() == text {
			return c, true
		}
	}
	return 0, false
}

// clamp returns v, or most if that matters less.
func clamp(v, most leapgate.Criticality) leapgate.Criticality {
	order := func(c leapgate.Criticality) int { // how much it matters
		switch c {
		case leapgate.Critical:
			return 3
		case leapgate.Sheddable:
			return 1
		case leapgate.Background:
			return 0
		default:
			return 2
		}
	}
	if order(v) > order(most) {
		return most
	}
	return v
}
