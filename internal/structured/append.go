package structured

import "strconv"

// MaxInteger is the largest integer: of 15 digits.
const MaxInteger = 999_999_999_999_999

// IsString reports whether s can be a string: whether it is printable ASCII.
func IsString(s string) bool {
	for i := range len(s) {
		if !isPrintable(s[i]) {
			return false
		}
	}
	return true
}

// AppendString appends s, for which [IsString] holds, as a string.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// AppendParam appends a parameter to an item. One beyond MaxInteger is written as that, and
// so is one below -MaxInteger.
func AppendParam(b []byte, key string, n int64) []byte {
	b = append(append(append(b, ';'), key...), '=')
	return strconv.AppendInt(b, min(max(n, -MaxInteger), MaxInteger), 10)
}
