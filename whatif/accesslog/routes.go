package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/rule"
)

// Route maps paths to a resource. The resources of other paths are patterns found in the log.
type Route struct {
	// Pattern is a pattern of [net/http.ServeMux] without a host: "GET /items/{id}", or "/static/" for a subtree.
	// Without a method it matches all methods. If several routes match, the most specific applies.
	Pattern string
	// Prefix means that Pattern matches all paths with this prefix: "/api" also matches "/apis". Other routes have
	// precedence over prefixes, and longer prefixes over shorter prefixes.
	Prefix bool
	// Resource is the name of the resource. The default is Pattern, preceded by the method of the request if Pattern
	// has no method.
	Resource string
}

// Valid reports whether the route is valid.
func (r Route) Valid() bool {
	_, err := newGiven(r)
	return err == nil
}

// methods are the methods in names of resources, as in package leaphttp. Clients can invent others.
var methods = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "OTHER"}

const (
	methodGet   = 0
	methodHead  = 1
	methodOther = len(methods) - 1
)

// methodOf returns the index of a method.
func methodOf(name []byte) int {
	for i, m := range methods {
		if string(name) == m {
			return i
		}
	}
	return methodOther
}

// routes finds the resources of requests: names in the log first, then routes, then patterns of paths.
type routes struct {
	given []*given
	names interned // of paths and resources
	found []bool   // by name: whether it is a path with an entry
}

// target is the target of a request before patterns are known.
type target struct {
	name   uint32 // in routes.names: a path, or a resource if method is named
	method uint8
}

const (
	named     = 0xff
	unmatched = "(unmatched)" // as in package leaphttp; the first name
	maxNames  = 100 << 20     // bytes
)

// given is a parsed [Route].
type given struct {
	resource string
	method   int // -1: any
	prefix   string
	segments []string // wildSegment for any, allBelow at the end for all below
	path     string
}

const (
	wildSegment = "{"
	allBelow    = "{..."
)

func newRoutes(all []Route) (*routes, error) {
	r := new(routes)
	r.names.number(unmatched, maxNames)
	var faults []error
	for _, route := range all {
		g, err := newGiven(route)
		r.given, faults = append(r.given, g), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.given, (*given).compare)
	return r, nil
}

// maxPattern leaves room for a method before it.
const maxPattern = rule.MaxNameLength - len("CONNECT ")

func newGiven(route Route) (*given, error) {
	g := &given{resource: route.Resource, method: -1, path: route.Pattern}
	if name, path, ok := strings.Cut(route.Pattern, " "); ok && !route.Prefix {
		g.method, g.path = methodOf([]byte(name)), strings.TrimLeft(path, " \t")
		if g.method == methodOther {
			return nil, fmt.Errorf("the route is %.64q; want one of the methods %s before the path, or none", route.Pattern, strings.Join(methods[:methodOther], ", "))
		}
	}
	rest, ok := strings.CutPrefix(g.path, "/")
	if !ok || len(g.path) > maxPattern {
		return nil, fmt.Errorf("the route is %.64q; want a path that begins with /, of at most %d bytes", route.Pattern, maxPattern)
	}
	if route.Prefix {
		g.prefix = g.path
		return g, nil
	}
	g.segments = strings.Split(rest, "/")
	for i, s := range g.segments {
		last := i == len(g.segments)-1
		name, opens := strings.CutPrefix(s, "{")
		name, closes := strings.CutSuffix(name, "}")
		name, below := strings.CutSuffix(name, "...")
		switch {
		case last && (s == "" || opens && closes && below):
			g.segments[i] = allBelow
		case last && s == "{$}":
			g.segments[i] = ""
		case opens != closes || strings.ContainsAny(name, "{}") || opens && (below || name == "" || name == "$"):
			return nil, fmt.Errorf("the route is %.64q; want each segment to be text, or one name in braces", route.Pattern)
		case opens:
			g.segments[i] = wildSegment
		}
	}
	return g, nil
}

// compare orders routes by precedence: the more specific first.
func (g *given) compare(other *given) int {
	if g.prefix != "" || other.prefix != "" {
		return cmp.Or(cmp.Compare(min(1, len(g.prefix)), min(1, len(other.prefix))), len(other.prefix)-len(g.prefix))
	}
	rank := func(g *given, i int) int {
		switch {
		case i >= len(g.segments):
			return 0
		case g.segments[i] == allBelow:
			return 3
		case g.segments[i] == wildSegment:
			return 2
		}
		return 1
	}
	for i := range max(len(g.segments), len(other.segments)) {
		if c := rank(g, i) - rank(other, i); c != 0 {
			return c
		}
	}
	return min(0, other.method) - min(0, g.method)
}

// match reports whether a route matches a request. Routes for GET also match HEAD.
func (g *given) match(method int, path []byte) bool {
	if g.prefix != "" {
		return len(path) >= len(g.prefix) && string(path[:len(g.prefix)]) == g.prefix
	}
	if g.method >= 0 && g.method != method && (g.method != methodGet || method != methodHead) {
		return false
	}
	for i, want := range g.segments {
		if want == allBelow {
			return true
		}
		segment, rest := cutSegment(path)
		if want != wildSegment && string(segment) != want || want == wildSegment && len(segment) == 0 {
			return false
		}
		if path = rest; path == nil {
			return i == len(g.segments)-1
		}
	}
	return false
}

// cutSegment returns the first segment of a path that begins with a slash, and the rest, which is
// nil if there is none.
func cutSegment(path []byte) (segment, rest []byte) {
	path = path[1:]
	if end := bytes.IndexByte(path, '/'); end >= 0 {
		return path[:end], path[end:]
	}
	return path, nil
}

// served reports whether a status means that the path exists. Redirects and errors do not make a resource: on most
// servers, strangers try thousands of paths that do not exist.
func served(status int) bool {
	switch status {
	case 301, 308, 400, 403, 404, 405, 410, 414, 421, 444:
		return false
	}
	return true
}

// target returns the target of a request.
func (r *routes) target(rec *Record) target {
	method := methodOf(rec.Method)
	t := target{method: uint8(method)}
	switch {
	case len(rec.Resource) > rule.MaxNameLength:
		return target{method: uint8(methodOther)}
	case len(rec.Resource) > 0:
		return target{r.names.number(string(rec.Resource), maxNames), named}
	case len(rec.Path) == 0 || rec.Path[0] != '/':
		return t
	}
	for _, g := range r.given {
		if g.match(method, rec.Path) {
			name := g.resource
			if name == "" && g.method >= 0 {
				method = g.method
			}
			if name == "" {
				name = methods[method] + " " + g.path
			}
			return target{r.names.number(name, maxNames), named}
		}
	}
	if t.name = r.names.number(normalized(rec.Path), maxNames); served(rec.Status) && t.name > 0 {
		for len(r.found) <= int(t.name) {
			r.found = append(r.found, false)
		}
		r.found[t.name] = true
	}
	return t
}

// resources returns a function that numbers the resources of targets, after all of them are known, and the number of
// patterns that were found.
func (r *routes) resources(into *interned) (of func(target) uint32, patterns int) {
	var paths [][]string
	for name, found := range r.found {
		if found {
			paths = append(paths, strings.Split(r.names.all[name], "/"))
		}
	}
	generalize(paths, 1)
	known := make(map[string]bool) // the beginnings of patterns, and whether they are whole
	for _, path := range paths {
		for n := range path {
			prefix := strings.Join(path[:n+1], "/")
			known[prefix] = known[prefix] || n == len(path)-1
		}
	}
	for _, whole := range known {
		if whole {
			patterns++
		}
	}
	numbers := make(map[target]uint32)
	return func(t target) uint32 {
		n, ok := numbers[t]
		if !ok {
			name := r.names.all[t.name]
			if t.method != named && t.name > 0 {
				name = patternOf(name, known)
			}
			if t.method != named {
				name = methods[t.method] + " " + name
			}
			n = into.number(name, math.MaxInt)
			numbers[t] = n
		}
		return n
	}, patterns
}
