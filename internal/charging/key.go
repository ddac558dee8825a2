package charging

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/limit"
)

// maxKeyLength is the length in bytes of the longest key that a limiter sees.
const maxKeyLength = 64

// What stands for something else. No key of a program has it: see Key and Bounded.
const (
	unknownKey     = "\x00?" // all requests whose key is not known
	hashedKey      = "\x00#" // what is too long for a gate
	hashedAfter    = "…#"    // a key that is too long for a limiter
	readablePrefix = 16      // bytes of it that are left as they were
)

// Key is the key by which a limiter counts what a program has returned as a key: see LimiterKey
// of package leaphttp.
func Key(key string) string {
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

// Bounded is a name that a client has a say in, or its hash if it is too long for a gate,
// or looks like one of ours.
func Bounded(name string) string {
	if len(name) <= limit.MaxKeyLength && (name == "" || name[0] != 0) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hashedKey + base64.RawURLEncoding.EncodeToString(sum[:])
}
