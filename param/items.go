package param

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// items are the limits of single values.
type items struct {
	values   map[string]int64
	blocks   map[netip.Prefix]int64
	bits     []int // of the blocks, the most first: of IPv4 as they are in IPv6
	prefixes map[string]int64
	lengths  []int // of the prefixes, the longest first
}

const wantItem = `such as vip=10, 10.0.0.0/8=100, bot-*=1, "a,b"=2; 0 blocks, -1 admits all`

// parseItems reads the Items of a rule, or says what is wrong with the first that is bad.
func parseItems(text string) (all *items, bad, want string) {
	all = &items{values: make(map[string]int64), blocks: make(map[netip.Prefix]int64), prefixes: make(map[string]int64)}
	rest := strings.TrimSpace(text)
	for n := 0; rest != ""; n++ {
		if n == maxItems {
			return nil, escape.Short(rest), fmt.Sprintf("at most %d of them", maxItems)
		}
		item := rest
		value, quoted := "", rest[0] == '"'
		if quoted {
			literal, err := strconv.QuotedPrefix(rest)
			if err == nil {
				value, err = strconv.Unquote(literal)
			}
			if err != nil {
				return nil, escape.Short(item), "a closing quote; " + wantItem
			}
			rest = rest[len(literal):]
		}
		entry, after, _ := strings.Cut(rest, ",")
		if !quoted {
			item = entry
		}
		eq := strings.LastIndexByte(entry, '=')
		if eq < 0 || quoted && strings.TrimSpace(entry[:eq]) != "" {
			return nil, escape.Short(item), wantItem
		}
		if !quoted {
			value = strings.TrimSpace(entry[:eq])
		}
		most, err := strconv.ParseInt(strings.TrimSpace(entry[eq+1:]), 10, 64)
		switch {
		case err != nil || most < limit.Exempt || most > MaxLimit:
			return nil, escape.Short(item), fmt.Sprintf("a limit of -1 to %d", int64(MaxLimit))
		case value == "" && !quoted:
			return nil, escape.Short(item), `a value before the limit; "" is the empty one`
		case len(value) > rule.MaxNameLength:
			return nil, escape.Short(item), fmt.Sprintf("a value of at most %d bytes", rule.MaxNameLength)
		}
		if want := all.add(value, quoted, most); want != "" {
			return nil, escape.Short(item), want
		}
		rest = strings.TrimSpace(after)
	}
	all.sort()
	return all, "", ""
}

// add adds an item, or says what would be right.
func (all *items) add(value string, quoted bool, most int64) (want string) {
	if beginning, star := strings.CutSuffix(value, "*"); star && !quoted {
		return put(all.prefixes, beginning, most)
	}
	if address, _, slash := strings.Cut(value, "/"); slash && !quoted {
		block, err := netip.ParsePrefix(value)
		if err == nil {
			return put(all.blocks, in6(block), most)
		}
		if _, err := netip.ParseAddr(address); err == nil {
			return "a block of addresses such as 10.0.0.0/8 or 2001:db8::/32; if a value is meant, in quotes"
		}
	}
	return put(all.values, value, most)
}

func put[K comparable](in map[K]int64, key K, most int64) (want string) {
	if _, there := in[key]; there {
		return "each once"
	}
	in[key] = most
	return ""
}

// in6 is a block as it is in IPv6, where all addresses are.
func in6(block netip.Prefix) netip.Prefix {
	addr, bits := block.Addr(), block.Bits()
	if addr.Is4() {
		bits += 96
	}
	return netip.PrefixFrom(netip.AddrFrom16(addr.As16()), bits).Masked()
}

func (all *items) sort() {
	for block := range all.blocks {
		all.bits = append(all.bits, block.Bits())
	}
	for prefix := range all.prefixes {
		all.lengths = append(all.lengths, len(prefix))
	}
	all.bits, all.lengths = descending(all.bits), descending(all.lengths)
}

func descending(numbers []int) []int {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	slices.Reverse(numbers)
	return numbers
}

// limitOf returns the limit of a value, and reports whether it has one.
func (all *items) limitOf(value string) (most int64, ok bool) {
	if most, ok = all.values[value]; ok {
		return most, true
	}
	if len(all.bits) > 0 {
		if most, ok = all.limitOfAddress(value); ok {
			return most, true
		}
	}
	for _, length := range all.lengths {
		if length > len(value) {
			continue
		}
		if most, ok = all.prefixes[value[:length]]; ok {
			return most, true
		}
	}
	return 0, false
}

// limitOfAddress returns the limit of a value that is an address, or a block of them.
func (all *items) limitOfAddress(value string) (most int64, ok bool) {
	block, ok := blockOf(value)
	if !ok {
		return 0, false
	}
	for _, bits := range all.bits {
		if bits > block.Bits() {
			continue
		}
		if most, ok = all.blocks[netip.PrefixFrom(block.Addr(), bits).Masked()]; ok {
			return most, true
		}
	}
	return 0, false
}

// blockOf reads an address, or a block of them, with no more than looking at what is
// neither: the error of netip would allocate.
func blockOf(value string) (block netip.Prefix, ok bool) {
	const longest = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%/128") + 16 // of a zone
	if len(value) > longest || strings.IndexByte(value, ':') < 0 && strings.Count(value, ".") != 3 {
		return block, false
	}
	address, zone, _ := strings.Cut(value, "%")
	if slash := strings.IndexByte(value, '/'); slash >= 0 {
		if zone != "" {
			return block, false
		}
		block, err := netip.ParsePrefix(value)
		return in6(block), err == nil
	}
	for i := range len(address) {
		switch c := address[i]; {
		case '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'f', c == '.', c == ':':
		default:
			return block, false
		}
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return block, false
	}
	return netip.PrefixFrom(netip.AddrFrom16(addr.As16()), 128), true
}
