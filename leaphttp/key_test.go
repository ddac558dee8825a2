package leaphttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

func TestKey_Header(t *testing.T) {
	t.Parallel()
	key := leaphttp.Header("x-tenant")
	r := from("192.0.2.1:1")
	require.Empty(t, key(r))
	r.Header["X-Tenant"] = []string{"a", "b"}
	require.Equal(t, "a", key(r))
}

func TestKey_APIKey(t *testing.T) {
	t.Parallel()
	r := from("192.0.2.1:1")
	plain, bearer := leaphttp.APIKey("X-Api-Key"), leaphttp.APIKey("authorization")
	require.Empty(t, plain(r))
	require.Empty(t, bearer(r))
	r.Header.Set("X-Api-Key", "secret")
	want := plain(r)
	require.Len(t, want, 22)
	require.NotContains(t, want, "secret")
	for header, same := range map[string]bool{
		"Bearer secret": true, "bearer  secret": true, "secret": true, "Bearer secrets": false, "Basic secret": false, "Bearersecret": false,
	} {
		r.Header.Set("Authorization", header)
		require.Equal(t, same, bearer(r) == want, header)
	}
	r.Header.Set("Authorization", "Bearer ")
	require.Empty(t, bearer(r))
	r.Header.Set("X-Api-Key", "Bearer secret")
	require.NotEqual(t, want, plain(r), "only Authorization has a scheme")
}

func TestKey_ContextAndPath(t *testing.T) {
	t.Parallel()
	user := leaphttp.FromContext(func(ctx context.Context) string { s, _ := ctx.Value(userKey{}).(string); return s })
	r := from("192.0.2.1:1")
	require.Empty(t, user(r))
	require.Equal(t, "ann", user(r.WithContext(context.WithValue(t.Context(), userKey{}, "ann"))))

	mux := http.NewServeMux()
	got := ""
	mux.HandleFunc("GET /t/{tenant}/x", func(_ http.ResponseWriter, r *http.Request) { got = leaphttp.PathValue("tenant")(r) })
	get(mux, "/t/acme/x")
	require.Equal(t, "acme", got)
	require.Empty(t, leaphttp.PathValue("tenant")(r))
}

func TestKey_CompositeIsInjective(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, leaphttp.Composite(by("a:"), by("b"))(nil), leaphttp.Composite(by("a"), by(":b"))(nil))
	require.NotEqual(t, leaphttp.Composite(by("1:a"), by(""))(nil), leaphttp.Composite(by(""), by("1:a"))(nil))
	require.Empty(t, leaphttp.Composite(by(""), by(""))(nil))
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringOfN(rapid.SampledFrom([]rune("a:1\x00")), 0, 4, -1)
		a, b, c, d := part.Draw(t, "a"), part.Draw(t, "b"), part.Draw(t, "c"), part.Draw(t, "d")
		same := leaphttp.Composite(by(a), by(b))(nil) == leaphttp.Composite(by(c), by(d))(nil)
		if same != (a == c && b == d) {
			t.Fatalf("%q and %q against %q and %q: same is %v", a, b, c, d, same)
		}
	})
}

func TestKey_FirstOf(t *testing.T) {
	t.Parallel()
	require.Empty(t, leaphttp.FirstOf(by(""), by(""))(nil))
	user, address := leaphttp.FirstOf(by("192.0.2.1"), by("x"))(nil), leaphttp.FirstOf(by(""), by("192.0.2.1"))(nil)
	require.NotEqual(t, user, address, "a header cannot pass for an address")
}

// keys keeps the keys that it is asked for, and admits.
type keys struct {
	limit.Limiter
	seen []string
}

func (k *keys) AllowN(ctx context.Context, key string, n int64) (limit.Decision, error) {
	k.seen = append(k.seen, key)
	return k.Limiter.AllowN(ctx, key, n)
}

// TestKey_Hostile: whatever a client sends as a key, it is limited by it, exactly, and
// shares it with nobody.
func TestKey_Hostile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 1<<20)
	hostile := []string{
		"", long, long + "x", strings.Repeat("k", limit.MaxKeyLength), strings.Repeat("k", limit.MaxKeyLength+1),
		strings.Repeat("k", 64), strings.Repeat("k", 65), strings.Repeat("k", 64) + "x", "a…#b", "…#",
		"a\nb", "a\r\nX-Injected: 1", "a\x00b", "\x00", "\x00?", "\x00#", "\xff\xfe", "é", "e\u0301", " ", "\t", `"`, `\`, "a,b", "a;r=9",
		"192.0.2.1", "<script>", "%s%d%!", "\u202e", "\U0010ffff",
	}
	l := &keys{Limiter: newLog(t, gatetest.NewClock(), "client", 2, time.Second)}
	key := ""
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{
		{Limiter: l, Key: func(*http.Request) string { return key }},
	}})
	for _, key = range hostile {
		for i, want := range []int{200, 200, 429} {
			w := get(h, "/")
			require.Equal(t, want, w.Code, "%.20q, call %d", key, i)
			require.Regexp(t, `^"limit-1";r=(0;t=1|1)$`, w.Header().Get("RateLimit"))
		}
	}
	distinct := make(map[string]bool)
	for _, k := range l.seen {
		distinct[k] = true
		require.NotEmpty(t, k)
		require.LessOrEqual(t, len(k), 64)
	}
	require.Len(t, distinct, len(hostile))

	// A key that looks like the hash of another is not that.
	key = long
	get(h, "/")
	key = l.seen[len(l.seen)-1]
	require.Equal(t, 200, get(h, "/").Code)
}

// A long key is counted by its hash, so that it takes no more memory than others; a person
// still reads whose it is.
func TestKey_LongOnesAreShortAndReadable(t *testing.T) {
	t.Parallel()
	l, err := limit.NewCounter(limit.Config{Limit: 1, Window: time.Hour, Offenders: 10})
	require.NoError(t, err)
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: l, Key: leaphttp.Header("X-User")}}})
	call := func(user string) int {
		r := from("192.0.2.1:1")
		r.Header.Set("X-User", user)
		return do(h, r).Code
	}
	ann, bob := "customer-of-example.com/ann@"+strings.Repeat("x", 60), "customer-of-example.com/bob@"+strings.Repeat("x", 60)
	require.Equal(t, 200, call(ann))
	require.Equal(t, 200, call(bob), "what they have in common is no quota in common")
	require.Equal(t, 429, call(ann))
	require.Equal(t, 200, call(leaphttp.LimiterKey(ann)), "nobody can pass for the hash of another")

	offender := l.Offenders(1)[0].Key
	require.Equal(t, leaphttp.LimiterKey(ann), offender)
	require.Regexp(t, `^customer-of-exam…#[A-Za-z0-9_-]{43}$`, offender)
	l.Reset(leaphttp.LimiterKey(ann))
	require.Equal(t, 200, call(ann))

	for _, short := range []string{"ann", strings.Repeat("x", 64), "2001:db8::/64", "4:acme1:7", "grüße"} {
		require.Equal(t, short, leaphttp.LimiterKey(short))
	}
}

// TestKey_CannotBeTold: no address never means no limit.
func TestKey_CannotBeTold(t *testing.T) {
	t.Parallel()
	h := leaphttp.Handler(ok, leaphttp.Config{Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "c", 3, time.Second)}}})
	for i, peer := range []string{"@", "", "not an address"} {
		require.Equal(t, 200, do(h, from(peer)).Code, i)
	}
	require.Equal(t, 429, do(h, from("/run/http.sock")).Code)
	require.Equal(t, 200, do(h, from("192.0.2.1:1")).Code)
}

func TestHeaders_TenThousandEntries(t *testing.T) {
	t.Parallel()
	address := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks()})
	forwarded := leaphttp.MustAddress(leaphttp.AddressConfig{Trusted: leaphttp.PrivateNetworks(), Header: "Forwarded"})
	for _, c := range []struct {
		name, entry, element string
		want                 string
	}{
		{"of the client's making", "6.6.6.6", "for=6.6.6.6", "203.0.113.7"},
		{"that are all trusted", "10.0.0.9", "for=10.0.0.9", "203.0.113.7"},
	} {
		lines := make([]string, 10_000)
		elements := make([]string, 10_000)
		for i := range lines {
			lines[i], elements[i] = c.entry, c.element
		}
		for _, layout := range []func([]string) []string{
			func(all []string) []string { return all },
			func(all []string) []string { return []string{strings.Join(all, ", ")} },
		} {
			r := from("10.0.0.1:1")
			r.Header["X-Forwarded-For"] = append(layout(lines), "203.0.113.7")
			r.Header["Forwarded"] = append(layout(elements), "for=203.0.113.7")
			require.Equal(t, c.want, address.Of(r).String(), c.name)
			require.Equal(t, c.want, forwarded.Of(r).String(), c.name)

			// Without the proxy's own entry, the work is bounded.
			r.Header["X-Forwarded-For"], r.Header["Forwarded"] = layout(lines), layout(elements)
			require.Equal(t, c.entry, address.Of(r).String())
			require.Equal(t, c.entry, forwarded.Of(r).String())
		}
	}
	// More trusted hops than anyone has: the 64th from the right, not the client's.
	lines := []string{"6.6.6.6"}
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("10.0.1.%d", i))
	}
	r := from("10.0.0.1:1")
	r.Header["X-Forwarded-For"] = lines
	require.Equal(t, "10.0.1.36", address.Of(r).String())
}
