package leaphttp

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// readings are ways in which routers and file systems read a path, which the one that
// excludes it does not know.
var readings = map[string]func(string) string{
	"decoded again": func(p string) string { q, _ := url.PathUnescape(p); return q },
	"without parameters": func(p string) string {
		return each(p, func(s string) string { s, _, _ = strings.Cut(s, ";"); return s })
	},
	"up to a NUL": func(p string) string { p, _, _ = strings.Cut(p, "\x00"); return p },
	"segments up to a NUL": func(p string) string {
		return each(p, func(s string) string { s, _, _ = strings.Cut(s, "\x00"); return s })
	},
	"without blanks":       func(p string) string { return each(p, strings.TrimSpace) },
	"without dots at ends": func(p string) string { return each(p, func(s string) string { return strings.TrimRight(s, ". ") }) },
	"back slashes":         func(p string) string { return strings.ReplaceAll(p, "\\", "/") },
	"without control":      func(p string) string { return strings.Map(visible, p) },
	"full width": func(p string) string {
		return strings.NewReplacer("\uff0e", ".", "\uff0f", "/", "\uff3c", "/", "\u2024", ".").Replace(p)
	},
}

func each(p string, change func(string) string) string {
	segments := strings.Split(p, "/")
	for i := range segments {
		segments[i] = change(segments[i])
	}
	return strings.Join(segments, "/")
}

func visible(r rune) rune {
	if r <= ' ' || r == 0x7f {
		return -1
	}
	return r
}

// FuzzIsPlain: a plain path below a folder is below it for everyone, whatever they make of
// what is unusual.
func FuzzIsPlain(f *testing.F) {
	for _, s := range []string{
		"/static/a", "/static/../a", "/static/..;/a", "/static/..%00/a", "/static/%2e%2e/a", "/static/..%5Ca", "/static/..%20/a",
		"/static/%252e%252e/a", "/static/%EF%BC%8E./a", "/static/a/b.c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !isPlain(u) || !strings.HasPrefix(u.Path, "/static/") {
			return
		}
		for name, read := range readings {
			if got := path.Clean(read(u.Path)) + "/"; !strings.HasPrefix(got, "/static/") {
				t.Fatalf("%q, %s, is %q", target, name, got)
			}
		}
	})
}
