package leaphttp

import (
	"net/netip"
	"strings"
)

// This is the field Forwarded of RFC 7239:
//
//	Forwarded: for=192.0.2.43, for="[2001:db8:cafe::17]:4711";proto=http;by=203.0.113.43

func readForwarded(lines []string, a *Address, peer netip.Addr) netip.Addr {
	return a.walk(lines, peer, cutElement, parseElement)
}

// cutElement takes the last element off a list. It reads from the right, so that a quote
// that a client has left open does not take in what the proxies have appended.
func cutElement(list string) (rest, element string, more, ok bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		if len(list)-i > maxElement {
			return "", "", false, false
		}
		switch {
		case list[i] == '"' && (!quoted || !isEscaped(list[:i])):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], trim(list[i+1:]), true, true
		}
	}
	return "", trim(list), false, true // a quote that is left open is no good to parseElement
}

// isEscaped reports whether what follows s is escaped: s ends with an odd number of
// backslashes.
func isEscaped(s string) bool {
	tail := s[max(0, len(s)-maxElement):]
	return (len(tail)-len(strings.TrimRight(tail, `\`)))%2 == 1
}

// parseElement returns the address of for= in an element, if it has one and is written as
// it should be.
func parseElement(element string) (addr netip.Addr, ok bool) {
	found := false
	for more := true; more; {
		var name, value string
		name, rest, isPair := strings.Cut(element, "=")
		if name = trim(name); !isPair || !isToken(name) {
			return addr, false
		}
		if value, element, isPair = cutValue(rest); !isPair {
			return addr, false
		}
		if strings.EqualFold(name, "for") {
			if found {
				return netip.Addr{}, false
			}
			if addr, found = parseNode(value); !found {
				return addr, false
			}
		}
		element = strings.TrimLeft(element, " \t")
		if element, more = strings.CutPrefix(element, ";"); !more && element != "" {
			return netip.Addr{}, false
		}
	}
	return addr, found
}

// parseNode reads what for= says. An address of IPv6 must have its brackets.
func parseNode(node string) (netip.Addr, bool) {
	if strings.Count(node, ":") > 1 && !strings.HasPrefix(node, "[") {
		return netip.Addr{}, false
	}
	return parseHop(node)
}

// cutValue takes a token or a quoted string off the beginning of s.
func cutValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := 0
		for end < len(s) && isTokenByte(s[end]) {
			end++
		}
		return s[:end], s[end:], end > 0
	}
	var unescaped []byte // only if there is anything to unescape
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			if unescaped != nil {
				return string(unescaped), s[i+1:], true
			}
			return s[1:i], s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			if unescaped == nil {
				unescaped = append(make([]byte, 0, len(s)), s[1:i]...)
			}
			i++
			unescaped = append(unescaped, s[i])
		case unescaped != nil:
			unescaped = append(unescaped, s[i])
		}
	}
	return "", "", false
}

// isObfuscated reports whether s is an obfuscated name: "_" and letters, digits, ".", "_", "-".
func isObfuscated(s string) bool {
	if len(s) < 2 || s[0] != '_' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isTokenByte is tchar of RFC 9110.
func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}
