package accesslog

import (
	"bytes"
	"net/netip"

	"github.com/leapgate-go/leapgate/leaphttp"
)

// keyOf returns of whom a request is: its client, or what stands in a column. It is empty if the
// line does not say.
func keyOf(r *Record, column string) string {
	switch {
	case column == "" && len(r.Key) > 0:
		return leaphttp.LimiterKey(string(r.Key))
	case column == "":
		return clientKey(r.Client)
	}
	value, ok := r.Column(column)
	if !ok || len(value) == 0 || string(value) == "-" {
		return ""
	}
	return leaphttp.LimiterKey(string(value)) // as the middleware would count it
}

// clientKey returns an address as package leaphttp counts it: those of IPv6 by their first 64
// bits.
func clientKey(client []byte) string {
	if bytes.IndexByte(client, ':') >= 0 {
		if addr, err := netip.ParseAddr(string(client)); err == nil {
			if addr = addr.Unmap().WithZone(""); addr.Is4() {
				return addr.String()
			}
			return netip.PrefixFrom(addr, 64).Masked().String()
		}
	}
	if len(client) == 0 {
		return ""
	}
	return leaphttp.LimiterKey(string(client))
}
