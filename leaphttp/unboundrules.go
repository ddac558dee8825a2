package leaphttp

import (
	"log/slog"
	"math/bits"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/internal/pattern"
	"github.com/leapgate-go/leapgate/rule"
)

// unboundRules finds rules that name a route and never bind its requests, because these are
// counted as another resource: where the middleware does not know the route, as around a
// router, around a ServeMux without Config.Mux, or around a mux that has another in it. It
// says so once.
//
// It looks whether a rule names requests that have no route, or one for all below a path.
// That is bounded: at the first few after each power of two of them, so that rules are
// seen that are loaded later. The others cost one addition, and none when the warning has been given.
type unboundRules struct {
	gate   *leapgate.Gate
	log    func() *slog.Logger
	routed atomic.Bool  // a request had a route of its own
	seen   atomic.Int64 // requests that had none
	named  atomic.Int64 // those of them that a rule names
	warned atomic.Bool
	rules  atomic.Pointer[[]routeRule] // as they were at the last power of two
}

const (
	maxLooks        = 256  // requests after each power of two
	namedToWarn     = 10   // one or two may be stray
	maxExactRules   = 1000 // rules that are looked at
	maxPatternRules = 32
)

// routeRule is a rule that may be meant for requests.
type routeRule struct {
	id, name string // of the rule; what it names
	method   string // "": any
	host     string // "": any
	path     []string
	pattern  *pattern.Pattern // instead of these, if it is not nil
}

// note looks at a request that is counted as a resource, by a route that is empty or for
// all below a path.
func (u *unboundRules) note(r *http.Request, route, counted string) {
	if u.warned.Load() {
		return
	}
	n := u.seen.Add(1)
	since := n - 1<<(bits.Len64(uint64(n))-1)
	if since == 0 {
		rules := routeRules(u.gate)
		u.rules.Store(&rules)
	}
	if since >= maxLooks || !isPlain(r.URL) {
		return
	}
	rules := u.rules.Load()
	if rules == nil { // the request that counted a power of two is still reading them
		return
	}
	for i := range *rules {
		rule := &(*rules)[i]
		if !rule.names(r) || rule.binds(counted) || rule.pattern != nil && (route != "" || u.routed.Load()) || u.called(rule) {
			continue
		}
		if u.named.Add(1) >= namedToWarn && u.warned.CompareAndSwap(false, true) {
			u.log().Warn("leaphttp: a rule does not bind the requests that it names: they are counted as another resource; "+
				"does the middleware know the routes? (Mux, Route, or around the handler of each route)",
				"rule", rule.id, "on", rule.name, "counted as", counted)
		}
		return
	}
}

// called reports whether the resource that a rule names has ever had a call: then some other
// middleware knows the route.
func (u *unboundRules) called(rule *routeRule) bool {
	if rule.pattern != nil {
		return false
	}
	named := u.gate.Lookup(rule.name)
	if named == nil {
		return false
	}
	s := named.Snapshot()
	return s.Pass+s.Block > 0
}

func (rule *routeRule) binds(counted string) bool {
	if rule.pattern != nil {
		return rule.pattern.Matches(counted, false)
	}
	return rule.name == counted
}

func (rule *routeRule) names(r *http.Request) bool {
	if rule.pattern != nil {
		return rule.pattern.Matches(r.Method+" "+r.URL.Path, false)
	}
	return (rule.method == "" || rule.method == r.Method) && (rule.host == "" || rule.host == r.Host) &&
		matches(rule.path, r.URL.Path)
}

// routeRules are the rules of a gate, of all kinds, that name routes or patterns.
func routeRules(gate *leapgate.Gate) []routeRule {
	var exact, patterns []routeRule
	rules := kinds.Rules(gate.Rules())
	for _, k := range kinds.All {
		for i := range k.Len(&rules) {
			h := k.Head(&rules, i)
			switch match := *h.Match; {
			case *h.Mode == rule.Off:
			case match == rule.Exact && len(exact) < maxExactRules:
				if route, ok := routeOf(*h.Resource); ok {
					route.id = *h.ID
					exact = append(exact, route)
				}
			case (match == rule.Glob || match == rule.Regexp) && len(patterns) < maxPatternRules:
				if compiled, err := pattern.Compile(match, *h.Resource); err == nil {
					patterns = append(patterns, routeRule{id: *h.ID, name: *h.Resource, pattern: compiled})
				}
			}
		}
	}
	return append(exact, patterns...)
}

// routeOf reads the name of a route: "GET example.com/orders/{id}", without the method or
// the host as well. Other routers write ":id" for "{id}", and "*" for all below.
func routeOf(name string) (rule routeRule, ok bool) {
	rest := name
	if hasMethod(name) {
		i := strings.IndexAny(name, " \t")
		if i < 0 {
			return rule, false
		}
		rule.method, rest = name[:i], strings.TrimLeft(name[i:], " \t")
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 || strings.ContainsAny(rest, " \t") {
		return rule, false
	}
	rule.name, rule.host, rule.path = name, rest[:slash], strings.Split(rest[slash+1:], "/")
	for i, segment := range rule.path {
		last := i == len(rule.path)-1
		switch {
		case last && (strings.HasPrefix(segment, "*") || strings.HasSuffix(segment, "...}")):
			rule.path[i] = "" // all below
		case last && segment == "{$}":
			return rule, false // one path, which has a slash at the end
		case strings.HasPrefix(segment, ":"):
			rule.path[i] = "{" + segment[1:] + "}"
		}
	}
	return rule, true
}

// isForAllBelow reports whether a route is for all below a path.
func isForAllBelow(route string) bool {
	return strings.HasSuffix(route, "/") || strings.HasSuffix(route, "...}") || strings.HasSuffix(route, "*")
}
