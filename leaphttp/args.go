package leaphttp

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/rule"
)

// Arg returns the value of an argument for rules of kind param, or "" if the request does not
// have it. It is a [Key]: any function will do, and [PathValue], [Query], [Header], [Cookie],
// [Address.Key], [APIKey], [FromContext], [Composite] and [FirstOf] are there.
type Arg = Key

// maxArgs is how many arguments a call can have: see [leapgate.WithArg].
const maxArgs = 4

// args are the arguments of requests, by their names.
type args []namedArg

type namedArg struct {
	name string
	of   Arg
}

func newArgs(given map[string]Arg, faults *faults) (all args) {
	if len(given) > maxArgs {
		faults.add("Args has %d arguments; want at most %d", len(given), maxArgs)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case name == "" || len(name) > rule.MaxNameLength || strings.TrimSpace(name) != name || strings.Contains(name, ","):
			faults.add("Args has the name %.64q; want 1 to %d bytes without commas, and no blanks at its ends: rules name several with commas",
				name, rule.MaxNameLength)
		case given[name] == nil:
			faults.add("Args[%.64q] is nil; want a function", name)
		}
		all = append(all, namedArg{name, given[name]})
	}
	return all
}

// addTo appends the arguments that a request has to the options of its entry.
func (all args) addTo(opts []leapgate.EntryOption, r *http.Request) []leapgate.EntryOption {
	for i := range all {
		if value := all[i].of(r); value != "" {
			opts = append(opts, leapgate.WithArg(all[i].name, bounded(value)))
		}
	}
	return opts
}

// setPathValues sets the values that a ServeMux will set when it routes a request by a
// pattern, so that they are there before.
func setPathValues(r *http.Request, pattern string) {
	slash := strings.IndexByte(pattern, '/') // behind the method and the host
	if slash < 0 {
		return
	}
	pattern = pattern[slash:]
	for path := r.URL.EscapedPath(); pattern != "" && path != ""; {
		var segment, value string
		whole := path[1:]
		segment, pattern = cutSegment(pattern)
		value, path = cutSegment(path)
		name, wild := strings.CutPrefix(segment, "{")
		if !wild || segment == "{$}" {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		if name, wild = strings.CutSuffix(name, "..."); wild {
			value = whole
		}
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		r.SetPathValue(name, value)
	}
}

// cutSegment returns what is between the slash with which a path begins and the next one,
// and the rest.
func cutSegment(path string) (segment, rest string) {
	if end := strings.IndexByte(path[1:], '/'); end >= 0 {
		return path[1 : end+1], path[end+1:]
	}
	return path[1:], ""
}

// Query is the first value of a parameter in the query of the URL, as [url.Values.Get] has it:
// a client can send any, and several. What the handler does must go by the same one. It does
// not read the body. It panics if name is empty.
func Query(name string) Key {
	if name == "" {
		panic("leaphttp: Query: the name is empty")
	}
	return func(r *http.Request) string { return queryValue(r.URL.RawQuery, name) }
}

// queryValue is url.ParseQuery(query) and Get(name), without a map of all that a client has sent.
func queryValue(query, name string) string {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if strings.Contains(pair, ";") || len(key) < len(name) || len(key) > 3*len(name) {
			continue
		}
		if plain, err := url.QueryUnescape(key); err != nil || plain != name {
			continue
		}
		if value, err := url.QueryUnescape(value); err == nil {
			return value
		}
	}
	return ""
}

// Cookie is the value of the first cookie of that name, as [http.Request.Cookie] has it: a
// client can send any. It panics if name is empty.
func Cookie(name string) Key {
	if name == "" {
		panic("leaphttp: Cookie: the name is empty")
	}
	return func(r *http.Request) string {
		c, err := r.Cookie(name)
		if err != nil {
			return ""
		}
		return c.Value
	}
}
