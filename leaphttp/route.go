package leaphttp

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/rule"
)

// methods are those that may stand in the name of a resource: a client can make up others.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

const unmatched = "(unmatched)"

// resource is the name of the resource of a request.
func (m *middleware) resource(r *http.Request) string {
	route := m.routeOf(r)
	name := nameOf(route, r.Method)
	if route == "" || isForAllBelow(route) {
		m.unboundRules.note(r, route, name)
	} else if !m.unboundRules.routed.Load() {
		m.unboundRules.routed.Store(true)
	}
	return name
}

// routeOf is the pattern of the route of a request, empty if there is none.
func (m *middleware) routeOf(r *http.Request) (route string) {
	switch {
	case m.route != nil:
		route = m.route(r)
	case m.mux != nil:
		route = muxRoute(m.mux, r)
		if m.args != nil {
			setPathValues(r, route)
		}
	}
	if route == "" && m.route == nil {
		route = r.Pattern
	}
	return route
}

// muxRoute returns the pattern by which a mux routes a request.
//
// If the mux redirects a CONNECT request to its path with a slash appended, it returns that path, which the client
// has chosen, instead of the pattern. A path that ends with a slash is never redirected in this way, so the mux is
// asked again with the slash. If there was no redirect, both paths have the same pattern.
func muxRoute(mux *http.ServeMux, r *http.Request) string {
	_, route := mux.Handler(r)
	if r.Method != http.MethodConnect || !strings.HasSuffix(route, "/") || strings.HasSuffix(r.URL.EscapedPath(), "/") {
		return route
	}
	u := *r.URL
	u.Path += "/"
	if u.RawPath != "" {
		u.RawPath += "/"
	}
	_, route = mux.Handler(&http.Request{Method: r.Method, Host: r.Host, URL: &u})
	return route
}

// nameOf is the name of the resource of a route, which is empty if there is none.
func nameOf(route, given string) string {
	if hasMethod(route) && len(route) <= rule.MaxNameLength {
		return route
	}
	return withMethod(given, route)
}

// withMethod puts a method before the name of what it is for.
func withMethod(given, name string) string {
	method := "OTHER"
	if given == "" {
		method = http.MethodGet
	} else if slices.Contains(methods, given) {
		method = given
	}
	if name == "" || len(method)+1+len(name) > rule.MaxNameLength {
		name = unmatched // no program has such a one; a client must not make it an error
	}
	return method + " " + name
}

// hasMethod reports whether a pattern has a method before the host or the path.
func hasMethod(pattern string) bool {
	i := strings.IndexAny(pattern, " \t/")
	return i > 0 && pattern[i] != '/'
}

// paths are patterns of paths, each cut into segments. The last of a pattern that ends
// with a slash is "".
type paths [][]string

func newPaths(field string, patterns []string, faults *faults) paths {
	var p paths
	for i, pattern := range patterns {
		rest, ok := strings.CutPrefix(pattern, "/")
		if !ok {
			faults.add("%s[%d] is %.64q; want a path that begins with /", field, i, pattern)
			continue
		}
		segments := strings.Split(rest, "/")
		for _, segment := range segments {
			if !isPathSegment(segment) {
				faults.add("%s[%d] is %.64q; want each segment to be text, or one name in braces: a path that ends with / is for all below it",
					field, i, pattern)
				break
			}
		}
		p = append(p, segments)
	}
	return p
}

// isPathSegment reports whether a segment is text or {x}. What ServeMux knows besides
// would cover less than it says.
func isPathSegment(segment string) bool {
	if !strings.ContainsAny(segment, "{}") {
		return true
	}
	name, ok := strings.CutPrefix(segment, "{")
	name, ends := strings.CutSuffix(name, "}")
	return ok && ends && name != "" && name != "$" && !strings.HasSuffix(name, "...") && !strings.ContainsAny(name, "{}")
}

func (p paths) match(path string) bool {
	for _, pattern := range p {
		if matches(pattern, path) {
			return true
		}
	}
	return false
}

func matches(pattern []string, path string) bool {
	for i, segment := range pattern {
		if i == len(pattern)-1 && segment == "" {
			return true // the slash that ends the pattern
		}
		rest, ok := strings.CutPrefix(path, "/")
		if !ok {
			return false
		}
		part := rest
		if end := strings.IndexByte(rest, '/'); end >= 0 {
			part = rest[:end]
		}
		path = rest[len(part):]
		if wild := len(segment) > 1 && segment[0] == '{' && segment[len(segment)-1] == '}'; wild {
			if part == "" {
				return false
			}
		} else if part != segment {
			return false
		}
	}
	return path == ""
}

// isPlain reports whether everything that may route the path reads it alike. It has been
// written without needless %-codes, no segment is empty, begins with ".." or ends with a
// dot, and there is nothing in it that some take for the end of a segment or of the path, or
// leave out, or decode once more: ";", "\", "%", "?", "#", blanks, control characters, what
// is not UTF-8, and characters beyond ASCII that are no letters, marks or digits.
func isPlain(u *url.URL) bool {
	rest, ok := strings.CutPrefix(u.Path, "/")
	if u.RawPath != "" || !ok {
		return false
	}
	for rest != "" {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		if segment == "" || strings.HasPrefix(segment, "..") || strings.HasSuffix(segment, ".") {
			return false
		}
		for _, r := range segment {
			if !isPlainRune(r) {
				return false
			}
		}
	}
	return true
}

func isPlainRune(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return isAlphanumeric(byte(r)) || strings.IndexByte("-._~!$&'()*+,=:@", byte(r)) >= 0
	default: // what is not UTF-8 is utf8.RuneError, a symbol
		return unicode.In(r, unicode.L, unicode.M, unicode.N)
	}
}
