package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/rule"
)

// Route says what the resource of requests is. Paths that no Route is for have a resource that is
// found from the log.
type Route struct {
	// Pattern is one of [net/http.ServeMux] without a host: "GET /items/{id}", or "/static/" for
	// all below. Without a method it is for all methods. Of several that match, the one goes first
	// that has text where another has a name in braces.
	Pattern string
	// Prefix says that Pattern is what paths begin with, whatever comes after it: "/api" is for
	// "/apis" too. All other routes go before prefixes, and longer prefixes before shorter ones.
	Prefix bool
	// Resource is the name. Empty: Pattern, after the method of the request if it has none.
	Resource string
}

// Valid reports whether it is a pattern of paths.
func (r Route) Valid() bool {
	_, err := newGiven(r)
	return err == nil
}

// methods are those that may stand in the name of a resource, as in package leaphttp: a client
// can make up others.
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

// names are those of resources that differ in the method only.
type names [len(methods)]string

// of returns the name for a method, and keeps it: a log has the same ones again and again.
func (n *names) of(method int, path string) string {
	if n[method] == "" {
		n[method] = methods[method] + " " + path
	}
	return n[method]
}

// routes finds the resources of requests.
type routes struct {
	given     []*given
	found     *found
	unmatched names
	own       map[string]string // names that the log has
	noted     memo              // paths that need not be noted again
	names     memo              // of resources, by path
}

// memo has what was found for the first paths of each method: in most logs, most requests are for
// few paths. Where that is not so, it gives up.
type memo struct {
	byMethod [len(methods)]map[string]string
	n        int
	worth    int // how much more often there was something than not
}

const (
	maxMemo     = 4096
	maxMemoPath = 128 // bytes
)

func (m *memo) get(method int, path []byte) (value string, ok bool) {
	value, ok = m.byMethod[method][string(path)]
	if ok {
		m.worth++
		return value, true
	}
	if m.worth--; m.worth < -2*maxMemo {
		*m = memo{n: maxMemo}
	}
	return "", false
}

func (m *memo) put(method int, path []byte, value string) {
	if m.n == maxMemo || len(path) > maxMemoPath {
		return
	}
	if m.byMethod[method] == nil {
		m.byMethod[method] = make(map[string]string)
	}
	m.byMethod[method][string(path)] = value
	m.n++
}

// given is a [Route], its path taken apart.
type given struct {
	resource string
	method   int      // -1: any
	prefix   string   // instead of segments
	segments []string // "{" for whatever it is, "{..." at the end for all below
	path     string
	names    names // if resource is empty
}

const (
	wildSegment = "{"
	allBelow    = "{..."
)

func newRoutes(all []Route) (*routes, error) {
	r := &routes{found: new(found)}
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

// compare orders routes: what matches less goes first.
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

// match reports whether a route is for a request. That of GET is for HEAD too.
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

// note looks at a request before resources are asked for.
func (r *routes) note(rec *Record) {
	if len(rec.Resource) > 0 || !served(rec.Status) || len(rec.Path) == 0 || rec.Path[0] != '/' {
		return
	}
	method := methodOf(rec.Method)
	if _, ok := r.noted.get(method, rec.Path); ok {
		return
	}
	if _, ok := r.ofGiven(method, rec.Path); !ok {
		r.found.note(rec.Path)
	}
	r.noted.put(method, rec.Path, "")
}

// served reports whether a status says that there is something where a client looked for it. What
// is sent elsewhere for good, not allowed or not there does not make a resource: on most servers
// strangers try thousands of paths that do not exist.
func served(status int) bool {
	switch status {
	case 301, 308, 400, 403, 404, 405, 410, 414, 421, 444:
		return false
	}
	return true
}

// resource returns the name of the resource of a request.
func (r *routes) resource(rec *Record) string {
	if len(rec.Resource) > 0 {
		return r.named(rec.Resource)
	}
	method := methodOf(rec.Method)
	if len(rec.Path) == 0 || rec.Path[0] != '/' {
		return r.unmatched.of(method, unmatched)
	}
	name, ok := r.names.get(method, rec.Path)
	if !ok {
		name = r.ofPath(method, rec.Path)
		r.names.put(method, rec.Path, name)
	}
	return name
}

func (r *routes) ofPath(method int, path []byte) string {
	if name, ok := r.ofGiven(method, path); ok {
		return name
	}
	if n := r.found.find(path); n != nil {
		return n.names.of(method, n.path)
	}
	return r.unmatched.of(method, unmatched)
}

const unmatched = "(unmatched)" // as in package leaphttp

// named returns the name that a log has, without making it anew each time; only names that a gate takes.
func (r *routes) named(name []byte) string {
	known, ok := r.own[string(name)]
	switch {
	case ok:
		return known
	case len(name) > rule.MaxNameLength:
		return r.unmatched.of(methodOther, unmatched)
	case r.own == nil:
		r.own = make(map[string]string)
	}
	known = string(name)
	if len(r.own) < maxNodes {
		r.own[known] = known
	}
	return known
}

func (r *routes) ofGiven(method int, path []byte) (name string, ok bool) {
	for _, g := range r.given {
		if !g.match(method, path) {
			continue
		}
		switch {
		case g.resource != "":
			return g.resource, true
		case g.method >= 0:
			return g.names.of(g.method, g.path), true
		default:
			return g.names.of(method, g.path), true
		}
	}
	return "", false
}
