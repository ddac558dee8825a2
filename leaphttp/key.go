package leaphttp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/limit"
)

// Key returns the key that a request is counted by, or "" if it is not known. It may be
// called by any number of goroutines at once. Any function will do; see also
// [Address.Key], [Header], [APIKey], [FromContext], [PathValue], [Query], [Cookie],
// [Composite] and [FirstOf].
type Key func(*http.Request) string

// maxKeyLength is the length in bytes of the longest key that a limiter sees.
const maxKeyLength = 64

// What stands for something else. No key of a program has it: see LimiterKey and bounded.
const (
	unknownKey     = "\x00?" // all requests whose key is not known
	hashedKey      = "\x00#" // what is too long for a gate
	hashedAfter    = "…#"    // a key that is too long for a limiter
	readablePrefix = 16      // bytes of it that are left as they were
)

// LimiterKey is the key by which a limiter counts what a [Key] has returned, for programs
// that look up a client in a limiter, or forget its charges. It is the key itself, if that
// has at most 64 bytes. A longer one is counted by its SHA-256, so that it takes
// no more memory than others and no two share a quota; the first 16 bytes stand before
// that, for readers of logs and lists of offenders:
//
//	customer-of-exam…#xyz…
//
// A key that begins with a NUL or has "…#" in it is counted by its hash as well: nobody
// can pass for another. All requests whose key is "" share one key.
func LimiterKey(key string) string {
	if len(key) <= maxKeyLength && (key == "" || key[0] != 0) && !strings.Contains(key, hashedAfter) {
		if key == "" {
			return unknownKey
		}
		return key
	}
	end := min(readablePrefix, len(key))
	for end > 0 && end < len(key) && !utf8.RuneStart(key[end]) {
		end--
	}
	sum := sha256.Sum256([]byte(key))
	var short [maxKeyLength]byte
	b := append(short[:0], strings.TrimLeft(key[:end], "\x00")...)
	b = append(b, hashedAfter...)
	return string(base64.RawURLEncoding.AppendEncode(b, sum[:]))
}

// bounded is a name that a client has a say in, or its hash if it is too long for a gate,
// or looks like one of ours.
func bounded(name string) string {
	if len(name) <= limit.MaxKeyLength && (name == "" || name[0] != 0) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hashedKey + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Header is the first value of a header field, as it was sent: a client can send any.
// Use it for what a proxy or an authentication in front has set or checked, or else a
// client gets a new limit with each value it makes up. It panics if name is empty.
func Header(name string) Key {
	if name == "" {
		panic("leaphttp: Header: the name is empty")
	}
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) string { return first(r.Header[name]) }
}

// APIKey is the API key in a header field, hashed, so that no secret is kept in a
// limiter or shown in its statistics. In Authorization, "Bearer" before it does not
// matter. As with [Header], only with a checked key are clients told apart. It panics if
// name is empty.
func APIKey(name string) Key {
	value := Header(name)
	authorization := http.CanonicalHeaderKey(name) == "Authorization"
	return func(r *http.Request) string {
		secret := value(r)
		if authorization {
			if scheme, rest, ok := strings.Cut(secret, " "); ok && strings.EqualFold(scheme, "Bearer") {
				secret = strings.TrimLeft(rest, " ")
			}
		}
		if secret == "" {
			return ""
		}
		// 128 bits: nobody finds two secrets that are counted together.
		sum := sha256.Sum256([]byte(secret))
		return base64.RawURLEncoding.EncodeToString(sum[:16])
	}
}

// FromContext is what get finds in the request's context: the user, for instance,
// that an authentication in front has put there. It panics if get is nil.
func FromContext(get func(context.Context) string) Key {
	if get == nil {
		panic("leaphttp: FromContext: the function is nil")
	}
	return func(r *http.Request) string { return get(r.Context()) }
}

// PathValue is the part of the path that a wildcard of the route has matched: see
// [http.Request.PathValue]. It is there inside a route only, but for Config.Args, which have it
// around a Config.Mux too. It panics if name is empty.
func PathValue(name string) Key {
	if name == "" {
		panic("leaphttp: PathValue: the name is empty")
	}
	return func(r *http.Request) string { return r.PathValue(name) }
}

// Composite counts by several keys together: each combination by itself. Each part
// stands with its length, so that "a:" and "b" differ from "a" and ":b". A part that
// is not known counts as one more value, unless none is known. It panics without
// keys, or if one is nil.
func Composite(keys ...Key) Key {
	checkKeys("Composite", keys)
	return func(r *http.Request) string {
		var few [128]byte
		joined := few[:0]
		told := false
		for _, key := range keys {
			part := key(r)
			told = told || part != ""
			joined = strconv.AppendInt(joined, int64(len(part)), 10)
			joined = append(joined, ':')
			joined = append(joined, part...)
		}
		if !told {
			return ""
		}
		return string(joined)
	}
}

// FirstOf counts by the first of several keys that is known, such as the user, else
// the address. The same text from two of them makes two keys, so that nobody can pass
// for another by what is in a header. It panics without keys, or if one is nil.
func FirstOf(keys ...Key) Key {
	checkKeys("FirstOf", keys)
	return func(r *http.Request) string {
		for i, key := range keys {
			if part := key(r); part != "" {
				return strconv.Itoa(i) + ":" + part
			}
		}
		return ""
	}
}

func checkKeys(what string, keys []Key) {
	if len(keys) == 0 {
		panic("leaphttp: " + what + ": there is no key")
	}
	for i, key := range keys {
		if key == nil {
			panic("leaphttp: " + what + ": key " + strconv.Itoa(i) + " is nil")
		}
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
