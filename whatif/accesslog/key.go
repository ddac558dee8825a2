package accesslog

import (
	"net/netip"

	"github.com/leapgate-go/leapgate/leaphttp"
)

// keyOf returns the key of a request as package leaphttp counts it: the value of a column, or without a column the
// key of the log or the client. It is empty if the line has none.
func keyOf(r *Record, column string) string {
	value := r.Key
	switch {
	case column != "":
		if value, _ = r.Column(column); string(value) == "-" {
			return ""
		}
	case len(value) == 0:
		if value = r.Client; len(value) > 0 {
			return clientKey(string(value))
		}
	}
	if len(value) == 0 {
		return ""
	}
	return leaphttp.LimiterKey(string(value))
}

// clientKey returns the key of an address: of IPv6, the first 64 bits.
func clientKey(client string) string {
	addr, err := netip.ParseAddr(client)
	switch addr = addr.Unmap().WithZone(""); {
	case err != nil:
		return leaphttp.LimiterKey(client)
	case addr.Is4():
		return addr.String()
	default:
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
}
