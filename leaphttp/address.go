package leaphttp

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// AddressConfig says how the address of a client is found. The zero AddressConfig is
// that of a server that clients reach directly.
type AddressConfig struct {
	// Trusted are the networks of the program's own proxies. Only what they send counts.
	// See [PrivateNetworks]. A network of 0 bits, which trusts everyone, is a fault.
	Trusted []netip.Prefix

	// TrustSocket trusts a peer that has no address, as over a Unix socket.
	TrustSocket bool

	// Header is the one header field in which the trusted proxies name the client's
	// address; a client can send all others. Empty is "X-Forwarded-For" if anyone is
	// trusted. X-Forwarded-For and Forwarded (RFC 7239) are lists that every proxy
	// appends to. Any other name, such as "CF-Connecting-IP", is of a field with one
	// address, which the proxies must set or remove in each request.
	Header string

	// IPv4Bits and IPv6Bits are how many bits of an address make a key: 1 to 32, where
	// 0 is 32, and 1 to 128, where 0 is 64. One client of IPv6 usually has a whole /64.
	IPv4Bits, IPv6Bits int
}

// Address finds the address of the client. It may be used by any number of goroutines
// at once.
//
// Without trusted proxies that is the socket's peer, [http.Request.RemoteAddr]. Lists are
// read from the right, over all header lines: addresses of trusted proxies are skipped,
// and the first other one is the client. Where an entry is no address ("unknown", an
// obfuscated name, an empty one), or after 64 entries, the last good one is taken: it is
// an address of a proxy, so these clients count together. A field with one address
// counts if it was sent once.
//
// Addresses of IPv4 that are written as IPv6 are those of IPv4, and zones are left out. A client behind
// NAT64 with the well-known prefix 64:ff9b::/96 (RFC 6052) has the IPv4 address that its address
// embeds; Trusted is compared with the IPv6 address.
type Address struct {
	trusted            []netip.Prefix
	socket             bool
	header             string
	read               func(lines []string, a *Address, peer netip.Addr) netip.Addr
	ipv4Bits, ipv6Bits int
}

// NewAddress returns an Address. The error, if any, is [ErrConfig], and names everything
// that is wrong with cfg.
func NewAddress(cfg AddressConfig) (*Address, error) {
	var faults faults
	a := &Address{socket: cfg.TrustSocket, ipv4Bits: cfg.IPv4Bits, ipv6Bits: cfg.IPv6Bits}
	for i, prefix := range cfg.Trusted {
		switch {
		case !prefix.IsValid():
			faults.add("Trusted[%d] is %v; want a network", i, prefix)
			continue
		case prefix.Addr().Is4In6() && prefix.Bits() >= 96:
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		if prefix.Bits() == 0 {
			faults.add("Trusted[%d] is %v, which trusts everyone; want the networks of proxies", i, prefix)
		}
		a.trusted = append(a.trusted, prefix.Masked())
	}
	if a.ipv4Bits == 0 {
		a.ipv4Bits = 32
	}
	if a.ipv6Bits == 0 {
		a.ipv6Bits = 64
	}
	if a.ipv4Bits < 1 || a.ipv4Bits > 32 {
		faults.add("IPv4Bits is %d; want 1 to 32, or 0 for 32", cfg.IPv4Bits)
	}
	if a.ipv6Bits < 1 || a.ipv6Bits > 128 {
		faults.add("IPv6Bits is %d; want 1 to 128, or 0 for 64", cfg.IPv6Bits)
	}
	if cfg.Header != "" && len(cfg.Trusted) == 0 && !cfg.TrustSocket {
		faults.add("Header is %.64q and nobody is trusted to set it; want Trusted too", cfg.Header)
	}
	a.header = http.CanonicalHeaderKey(cfg.Header)
	switch a.header {
	case "", "X-Forwarded-For":
		a.header, a.read = "X-Forwarded-For", readForwardedFor
	case "Forwarded":
		a.read = readForwarded
	default:
		a.read = readSingle
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return a, nil
}

// MustAddress is [NewAddress] for a configuration that is known to be good. It panics
// otherwise.
func MustAddress(cfg AddressConfig) *Address {
	a, err := NewAddress(cfg)
	if err != nil {
		panic(err)
	}
	return a
}

// PrivateNetworks are the networks of which no address comes from the internet: loopback,
// private (RFC 1918, RFC 4193), shared (RFC 6598) and link-local. They are a good value
// for Trusted where everything in them belongs to the program's operator.
func PrivateNetworks() []netip.Prefix {
	var networks []netip.Prefix
	for _, network := range []string{
		"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
		"100.64.0.0/10", "169.254.0.0/16", "fe80::/10",
	} {
		networks = append(networks, netip.MustParsePrefix(network))
	}
	return networks
}

// peerKey is the key of the socket's peer.
var peerKey = MustAddress(AddressConfig{}).Key

// Of returns the address of the client. It is the zero Addr if it is not known: the peer has
// none.
func (a *Address) Of(r *http.Request) netip.Addr {
	addr, trusted := a.peerOf(r.RemoteAddr)
	if trusted {
		addr = a.read(r.Header[a.header], a, addr)
	}
	return withoutNAT64(addr)
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// withoutNAT64 returns the IPv4 address that a NAT64 address embeds, and other addresses as they are.
func withoutNAT64(addr netip.Addr) netip.Addr {
	if !nat64.Contains(addr) {
		return addr
	}
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// peerOf returns the socket's peer, and reports whether it is trusted.
func (a *Address) peerOf(remote string) (peer netip.Addr, trusted bool) {
	peer, ok := parseHop(remote)
	if !ok {
		return peer, a.socket
	}
	return peer, a.trusts(peer)
}

// TrustsPeer reports whether the peer with that address, as [http.Request.RemoteAddr] has it, is
// one of the trusted.
func (a *Address) TrustsPeer(remote string) bool {
	_, trusted := a.peerOf(remote)
	return trusted
}

// Key is the address of the client as a [Key]: "203.0.113.7", or "2001:db8:1:2::/64" if
// only some of its bits count.
func (a *Address) Key(r *http.Request) string { return a.key(a.Of(r), r.RemoteAddr) }

// KeyOf is Key of what is no request of net/http, such as a call of gRPC. remote is the address of
// the peer, as [http.Request.RemoteAddr] has it; values returns the values of a header field.
func (a *Address) KeyOf(remote string, values func(header string) []string) string {
	addr, trusted := a.peerOf(remote)
	if trusted {
		addr = a.read(values(a.header), a, addr)
	}
	return a.key(withoutNAT64(addr), remote)
}

func (a *Address) key(addr netip.Addr, remote string) string {
	bits := a.ipv6Bits
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4():
		bits = a.ipv4Bits
	}
	if bits == addr.BitLen() {
		return text(addr, remote)
	}
	var few [48]byte
	return string(netip.PrefixFrom(addr, bits).Masked().AppendTo(few[:0]))
}

// text is addr.String(), without making a new one in the usual case that it begins the
// peer's address: the text of an IPv4 address can be written in one way only.
func text(addr netip.Addr, peer string) string {
	var few [40]byte
	t := addr.AppendTo(few[:0])
	if addr.Is4() && len(peer) > len(t) && peer[len(t)] == ':' && peer[:len(t)] == string(t) {
		return peer[:len(t)]
	}
	return string(t)
}

func (a *Address) trusts(addr netip.Addr) bool {
	for _, prefix := range a.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// Bounds on what is looked at in a header, however much of it there is. No address with
// its port is longer; an element of Forwarded has hosts in it.
const (
	maxHops    = 64
	maxHop     = 128
	maxElement = 1024
)

// walk reads lists from the right, as Address says. cut takes the last entry off a list,
// parse reads it; either may find that it is no good.
func (a *Address) walk(lines []string, peer netip.Addr,
	cut func(list string) (rest, entry string, more, ok bool), parse func(entry string) (netip.Addr, bool),
) netip.Addr {
	good, hops := peer, 0
	for i := len(lines) - 1; i >= 0; i-- {
		rest, more := lines[i], true
		for more {
			var entry string
			var ok bool
			rest, entry, more, ok = cut(rest)
			if hops++; hops > maxHops || !ok {
				return good
			}
			addr, ok := parse(entry)
			if !ok {
				return good
			}
			good = addr
			if !a.trusts(addr) {
				return good
			}
		}
	}
	return good
}

func readForwardedFor(lines []string, a *Address, peer netip.Addr) netip.Addr {
	return a.walk(lines, peer, cutHop, parseHop)
}

// cutHop takes the last entry off an X-Forwarded-For.
func cutHop(list string) (rest, entry string, more, ok bool) {
	tail := max(0, len(list)-maxHop)
	i := strings.LastIndexByte(list[tail:], ',')
	if i < 0 {
		return "", trim(list), false, tail == 0
	}
	return list[:tail+i], trim(list[tail+i+1:]), true, true
}

// readSingle reads a field with one address.
func readSingle(lines []string, _ *Address, peer netip.Addr) netip.Addr {
	if len(lines) == 1 && len(lines[0]) <= maxHop {
		if addr, ok := parseHop(trim(lines[0])); ok {
			return addr
		}
	}
	return peer
}

// parseHop reads an address as it stands in headers and in RemoteAddr: with or without
// a port, IPv6 with brackets or, if it has no port, without.
func parseHop(hop string) (netip.Addr, bool) {
	if len(hop) > maxHop {
		return netip.Addr{}, false
	}
	host, bracketed := hop, false
	if strings.HasPrefix(hop, "[") {
		end := strings.IndexByte(hop, ']')
		if end < 0 || !isPort(hop[end+1:]) {
			return netip.Addr{}, false
		}
		host, bracketed = hop[1:end], true
	} else if colon := strings.IndexByte(hop, ':'); colon >= 0 && strings.LastIndexByte(hop, ':') == colon {
		if !isPort(hop[colon:]) {
			return netip.Addr{}, false
		}
		host = hop[:colon]
	}
	// A zone is cut off before it is parsed: package netip keeps zones for a while, and
	// a client could send many.
	if zone := strings.IndexByte(host, '%'); zone >= 0 && zone < len(host)-1 && strings.IndexByte(host[:zone], ':') >= 0 {
		host = host[:zone]
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || bracketed && !addr.Is6() {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// isPort reports whether s is nothing, or a colon with a port, which in Forwarded may be
// an obfuscated one.
func isPort(s string) bool {
	if s == "" {
		return true
	}
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		return isObfuscated(s[1:])
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil
}

// trim takes off the blanks that may stand around an entry of a list.
func trim(s string) string { return strings.Trim(s, " \t") }
