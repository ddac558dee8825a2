package leaphttp_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leaphttp"
)

func TestAddress_Peer(t *testing.T) {
	t.Parallel()
	a := leaphttp.MustAddress(leaphttp.AddressConfig{})
	for peer, want := range map[string]string{
		"203.0.113.7:4711":               "203.0.113.7",
		"203.0.113.7":                    "203.0.113.7",
		"[2001:db8:1:2:3::4]:4711":       "2001:db8:1:2::/64",
		"2001:db8:1:2:3::4":              "2001:db8:1:2::/64",
		"[::ffff:203.0.113.7]:4711":      "203.0.113.7",
		"[64:ff9b::203.0.113.7]:4711":    "203.0.113.7",
		"[64:ff9b::cb00:7108]:4711":      "203.0.113.8",
		"[64:ff9b:1::203.0.113.7]:4711":  "64:ff9b:1::/64",
		"[fe80::1%eth0]:4711":            "fe80::/64",
		"@":                              "",
		"":                               "",
		"/run/http.sock":                 "",
		"203.0.113.007:1":                "",
		"203.0.113.7:port":               "",
		"[203.0.113.7]:1":                "",
		"[2001:db8::1":                   "",
		"[2001:db8::1]x":                 "",
		"203.0.113.7%eth0:1":             "",
		"203.0.113.7:65535":              "203.0.113.7",
		"203.0.113.7:65536":              "",
		"fe80::1%":                       "",
		"203.0.113.7:":                   "",
		"203.0.113.7:123456":             "",
		strings.Repeat("1", 1<<20) + ":": "",
	} {
		r := from(peer)
		r.Header.Set("X-Forwarded-For", "6.6.6.6")
		r.Header.Set("Forwarded", "for=6.6.6.6")
		require.Equal(t, want, a.Key(r), "%.40q", peer)
	}
}

func TestAddress_Bits(t *testing.T) {
	t.Parallel()
	for bits, want := range map[int]string{0: "2001:db8:1:2::/64", 48: "2001:db8:1::/48", 128: "2001:db8:1:2:3::4"} {
		a := leaphttp.MustAddress(leaphttp.AddressConfig{IPv6Bits: bits})
		require.Equal(t, want, a.Key(from("[2001:db8:1:2:3::4]:1")))
	}
	a := leaphttp.MustAddress(leaphttp.AddressConfig{IPv4Bits: 24})
	require.Equal(t, "203.0.113.0/24", a.Key(from("203.0.113.7:1")))
	require.Equal(t, "203.0.113.0/24", a.Key(from("[::ffff:203.0.113.7]:1")))
	require.Equal(t, "203.0.113.0/24", a.Key(from("[64:ff9b::203.0.113.7]:1")))
}

// An address of NAT64 embeds that of the client, wherever it stands, and is trusted as itself.
func TestAddress_NAT64(t *testing.T) {
	t.Parallel()
	a := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()})
	r := from("10.0.0.1:1")
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 64:ff9b::203.0.113.7")
	require.Equal(t, netip.MustParseAddr("203.0.113.7"), a.Of(r))
	require.Equal(t, "203.0.113.7", a.KeyOf(r.RemoteAddr, r.Header.Values))
	r = from("[64:ff9b::10.0.0.1]:1")
	r.Header.Set("X-Forwarded-For", "6.6.6.6")
	require.Equal(t, "10.0.0.1", a.Key(r))
}

// TestAddress_ForwardedFor has what proxies and clients send. The proxies are 10.x; the
// peer is 10.0.0.1.
func TestAddress_ForwardedFor(t *testing.T) {
	t.Parallel()
	a := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("::ffff:192.168.0.0/112"),
	}})
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"none", nil, "10.0.0.1"},
		{"one", []string{"203.0.113.7"}, "203.0.113.7"},
		{"forged on the left", []string{"6.6.6.6, 203.0.113.7"}, "203.0.113.7"},
		{"forged, a trusted address", []string{"10.6.6.6, 203.0.113.7"}, "203.0.113.7"},
		{"two proxies", []string{"203.0.113.7, 10.0.0.2"}, "203.0.113.7"},
		{"two proxies and forged", []string{"6.6.6.6,203.0.113.7,10.0.0.2"}, "203.0.113.7"},
		{"several lines", []string{"6.6.6.6", "203.0.113.7", "10.0.0.2, 10.0.0.3"}, "203.0.113.7"},
		{"all are trusted", []string{"10.0.0.9, 10.0.0.2"}, "10.0.0.9"},
		{"unknown", []string{"6.6.6.6, unknown"}, "10.0.0.1"},
		{"unknown behind a proxy", []string{"6.6.6.6, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"an empty entry", []string{"6.6.6.6,,10.0.0.2"}, "10.0.0.2"},
		{"a comma at the end", []string{"6.6.6.6,"}, "10.0.0.1"},
		{"an empty line", []string{"6.6.6.6", ""}, "10.0.0.1"},
		{"only an empty line", []string{""}, "10.0.0.1"},
		{"a host name", []string{"6.6.6.6, evil.example"}, "10.0.0.1"},
		{"leading zeros", []string{"203.0.113.007"}, "10.0.0.1"},
		{"a number", []string{"3405803783"}, "10.0.0.1"},
		{"with a port", []string{"203.0.113.7:4711"}, "203.0.113.7"},
		{"blanks", []string{" \t 203.0.113.7 \t"}, "203.0.113.7"},
		{"blanks inside", []string{"203.0. 113.7"}, "10.0.0.1"},
		{"a line end", []string{"203.0.113.7\r\n"}, "10.0.0.1"},
		{"NUL", []string{"203.0.113.7\x00"}, "10.0.0.1"},
		{"not UTF-8", []string{"203.0.113.7\xff"}, "10.0.0.1"},
		{"other digits", []string{"٢٠٣.0.113.7"}, "10.0.0.1"},
		{"IPv6", []string{"2001:db8::1"}, "2001:db8::1"},
		{"IPv6 with a port", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"IPv6 in brackets", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"IPv6 with a zone", []string{"2001:db8::1%" + strings.Repeat("z", 50)}, "2001:db8::1"},
		{"an IPv6 proxy", []string{"203.0.113.7, fd00::1"}, "203.0.113.7"},
		{"IPv4 as IPv6", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		{"a proxy's IPv4 as IPv6", []string{"203.0.113.7, ::ffff:10.0.0.2"}, "203.0.113.7"},
		{"a network given as IPv6", []string{"203.0.113.7, 192.168.0.1"}, "203.0.113.7"},
		{"1 MB without a comma", []string{strings.Repeat("1", 1<<20)}, "10.0.0.1"},
		{"1 MB of blanks", []string{"6.6.6.6," + strings.Repeat(" ", 1<<20)}, "10.0.0.1"},
		{"1 MB of commas", []string{strings.Repeat(",", 1<<20)}, "10.0.0.1"},
		{"1 MB before it", []string{strings.Repeat("x", 1<<20) + ",203.0.113.7"}, "203.0.113.7"},
	} {
		r := from("10.0.0.1:1")
		r.Header["X-Forwarded-For"] = c.lines
		r.Header["Forwarded"] = []string{"for=6.6.6.6"} // not the header that is read
		r.Header["Cf-Connecting-Ip"] = []string{"6.6.6.6"}
		require.Equal(t, c.want, a.Of(r).String(), c.name)
		r.RemoteAddr = "198.51.100.9:1"
		require.Equal(t, "198.51.100.9", a.Of(r).String(), "%s, from a peer that is not trusted", c.name)
	}
}

func TestAddress_Forwarded(t *testing.T) {
	t.Parallel()
	a := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks(), Header: "forwarded"})
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"none", nil, "10.0.0.1"},
		{"one", []string{"for=203.0.113.7"}, "203.0.113.7"},
		{"any case", []string{"FOR=203.0.113.7;Proto=http"}, "203.0.113.7"},
		{"quoted", []string{`for="203.0.113.7"`}, "203.0.113.7"},
		{"quoted with a port", []string{`for="203.0.113.7:4711"`}, "203.0.113.7"},
		{"with a port that hides", []string{`for="203.0.113.7:_x1"`}, "203.0.113.7"},
		{"with a port that is none", []string{`for="203.0.113.7:_"`}, "10.0.0.1"},
		{"escaped", []string{`for="203.0.113\.7"`}, "203.0.113.7"},
		{"IPv6", []string{`for="[2001:db8::1]:4711";proto=https;by=10.0.0.1`}, "2001:db8::1"},
		{"IPv6 without brackets", []string{`for="2001:db8::1"`}, "10.0.0.1"},
		{"two proxies", []string{`for=203.0.113.7, for="10.0.0.2";by="[fd00::1]"`}, "203.0.113.7"},
		{"two lines", []string{"for=6.6.6.6, for=203.0.113.7", "for=10.0.0.2"}, "203.0.113.7"},
		{"forged", []string{"for=6.6.6.6, for=203.0.113.7"}, "203.0.113.7"},
		{"unknown", []string{"for=6.6.6.6, for=unknown"}, "10.0.0.1"},
		{"obfuscated", []string{"for=6.6.6.6, for=_hidden, for=10.0.0.2"}, "10.0.0.2"},
		{"no for", []string{"for=6.6.6.6, proto=http"}, "10.0.0.1"},
		{"for twice", []string{"for=6.6.6.6;for=203.0.113.7"}, "10.0.0.1"},
		{"an empty element", []string{"for=6.6.6.6, , for=10.0.0.2"}, "10.0.0.2"},
		{"an empty line", []string{"for=6.6.6.6", ""}, "10.0.0.1"},
		{"a comma in quotes", []string{`for=203.0.113.7;host="a,for=6.6.6.6"`}, "203.0.113.7"},
		{"a quote in quotes", []string{`for=203.0.113.7;host="a\",for=6.6.6.6"`}, "203.0.113.7"},
		{"a backslash in quotes", []string{`for=203.0.113.7;host="a\\"`}, "203.0.113.7"},
		{"a quote left open by the client", []string{`for="6.6.6.6, for=203.0.113.7`}, "203.0.113.7"},
		{"a quote left open by the client, and a quoted hop", []string{`for="6.6.6.6, for="203.0.113.7"`}, "203.0.113.7"},
		{"a quote left open", []string{`for=6.6.6.6, for="203.0.113.7`}, "10.0.0.1"},
		{"text after the quote", []string{`for="203.0.113.7"x`}, "10.0.0.1"},
		{"a semicolon at the end", []string{"for=203.0.113.7;"}, "10.0.0.1"},
		{"no equals sign", []string{"for"}, "10.0.0.1"},
		{"no value", []string{"for="}, "10.0.0.1"},
		{"a bad name", []string{"f(r=203.0.113.7"}, "10.0.0.1"},
		{"an X-Forwarded-For", []string{"203.0.113.7"}, "10.0.0.1"},
		{"1 MB", []string{"for=" + strings.Repeat("1", 1<<20)}, "10.0.0.1"},
		{"1 MB of quotes", []string{strings.Repeat(`"`, 1<<20)}, "10.0.0.1"},
		{"1 MB of backslashes", []string{`"` + strings.Repeat(`\`, 1<<20) + `"`}, "10.0.0.1"},
		{"1 MB before it", []string{strings.Repeat("x", 1<<20) + ",for=203.0.113.7"}, "203.0.113.7"},
	} {
		r := from("10.0.0.1:1")
		r.Header["Forwarded"] = c.lines
		r.Header["X-Forwarded-For"] = []string{"6.6.6.6"}
		require.Equal(t, c.want, a.Of(r).String(), c.name)
		r.RemoteAddr = "198.51.100.9:1"
		require.Equal(t, "198.51.100.9", a.Of(r).String(), "%s, from a peer that is not trusted", c.name)
	}
}

func TestAddress_SingleValue(t *testing.T) {
	t.Parallel()
	a := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks(), Header: "CF-Connecting-IP"})
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, "10.0.0.1"},
		{[]string{"203.0.113.7"}, "203.0.113.7"},
		{[]string{" 2001:db8::1 "}, "2001:db8::1"},
		{[]string{"6.6.6.6", "203.0.113.7"}, "10.0.0.1"},
		{[]string{"6.6.6.6, 203.0.113.7"}, "10.0.0.1"},
		{[]string{""}, "10.0.0.1"},
		{[]string{strings.Repeat("1", 1<<20)}, "10.0.0.1"},
	} {
		r := from("10.0.0.1:1")
		r.Header["Cf-Connecting-Ip"] = c.lines
		r.Header["X-Forwarded-For"] = []string{"6.6.6.6"}
		require.Equal(t, c.want, a.Of(r).String(), "%.40q", c.lines)
		r.RemoteAddr = "198.51.100.9:1"
		require.Equal(t, "198.51.100.9", a.Of(r).String())
	}
}

func TestAddress_TrustSocket(t *testing.T) {
	t.Parallel()
	r := from("@")
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 203.0.113.7")
	require.False(t, leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()}).Of(r).IsValid())
	a := leaphttp.MustAddress(leaphttp.AddressConfig{TrustSocket: true})
	require.Equal(t, "203.0.113.7", a.Key(r))
	r.Header.Del("X-Forwarded-For")
	require.Empty(t, a.Key(r))
	r = from("198.51.100.9:1")
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	require.Equal(t, "198.51.100.9", a.Key(r), "a peer with an address is not the socket")
}

// addresses are what the fuzz targets hold every answer against.
func holds(t *testing.T, a *leaphttp.Address, header, first, second string) {
	t.Helper()
	r := from("10.0.0.1:1")
	r.Header[header] = []string{first, second}
	got := a.Of(r)
	if !got.IsValid() || got.Is4In6() || got.Zone() != "" {
		t.Fatalf("%q, %q: %v", first, second, got)
	}
	if key := a.Key(r); key == "" || len(key) > 64 {
		t.Fatalf("%q, %q: the key is %q", first, second, key)
	}
	// Whatever stands to the left of what the proxy has appended changes nothing.
	own := "203.0.113.7"
	if header == "Forwarded" {
		own = "for=203.0.113.7"
	}
	for _, lines := range [][]string{{first, second, own}, {first, second + "," + own}} {
		r.Header[header] = lines
		if got := a.Of(r).String(); got != "203.0.113.7" {
			t.Fatalf("%q: %v is taken for the client", lines, got)
		}
	}
	r.RemoteAddr = "198.51.100.9:1"
	if got := a.Of(r).String(); got != "198.51.100.9" {
		t.Fatalf("%q: %v is taken for the client of a peer that is not trusted", r.Header, got)
	}
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{
		"", "203.0.113.7", "6.6.6.6, 10.0.0.2", "[2001:db8::1]:4711", "::ffff:10.0.0.1", "unknown", ",,,", "fe80::1%eth0",
		"1.2.3.4:5", "\x00", "10.0.0.2,10.0.0.3",
	} {
		f.Add(s, "10.0.0.2")
		f.Add("6.6.6.6", s)
	}
	a := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()})
	f.Fuzz(func(t *testing.T, first, second string) { holds(t, a, "X-Forwarded-For", first, second) })
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		"", "for=203.0.113.7", `for="[2001:db8::1]:4711";proto=https, for=10.0.0.2`, `for="`, `for="\"`, `for="a\\"`, "for=_x",
		"for=unknown", ";", `for=1.2.3.4;host="a,b"`, `"""`, `\`, "for=1;for=2",
	} {
		f.Add(s, "for=10.0.0.2")
		f.Add("for=6.6.6.6", s)
	}
	a := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks(), Header: "Forwarded"})
	f.Fuzz(func(t *testing.T, first, second string) { holds(t, a, "Forwarded", first, second) })
}
