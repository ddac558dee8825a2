package charging

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/limit"
)

// maxKeyLength is the length in bytes of the longest key that a limiter sees.
const maxKeyLength = 64

// What stands for something else. No key of a program has it: see Key and Bounded.
const (
	// UnknownKey is that of all requests whose key is not known.
	UnknownKey     = "\x00?"
	hashedKey      = "\x00#" // what is too long for a gate
	hashedAfter    = "…#"    // a key that is too long for a limiter
	readablePrefix = 16      // bytes of it that are left as they were
)

// Key is the key by which a limiter counts what a program has returned as a key: see LimiterKey
// of package leaphttp.
func Key(key string) string {
	if len(key) <= maxKeyLength && (key == "" || key[0] != 0) && !strings.Contains(key, hashedAfter) {
		if key == "" {
			return UnknownKey
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

// Bounded is a name that a client has a say in, or its hash if it is too long for a gate,
// or looks like one of ours.
func Bounded(name string) string {
	if len(name) <= limit.MaxKeyLength && (name == "" || name[0] != 0) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hashedKey + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Composite makes a key of several together: each combination by itself. Each part stands with
// its length, so that "a:" and "b" differ from "a" and ":b".
func Composite[R any, K ~func(R) string](keys []K) func(R) string {
	return func(r R) string {
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

// FirstOf makes a key of the first of several that is known, with its number.
func FirstOf[R any, K ~func(R) string](keys []K) func(R) string {
	return func(r R) string {
		for i, key := range keys {
			if part := key(r); part != "" {
				return strconv.Itoa(i) + ":" + part
			}
		}
		return ""
	}
}

// Secret is the hash by which a secret is counted, so that none is kept in a limiter or shown in
// its statistics; "" of none. "Bearer" before it does not matter, if that may stand there.
func Secret(secret string, bearer bool) string {
	if bearer {
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
