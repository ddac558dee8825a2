// Package args has the arguments of calls, for rules of kind param, as packages for HTTP and gRPC
// find them in what a call is there, R.
package args

import (
	"maps"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// Max is how many arguments a call can have: see [resource.WithArg].
const Max = 4

// Args are the arguments of calls, by their names.
type Args[R any] []named[R]

type named[R any] struct {
	name string
	of   func(R) string
}

// New reports what is wrong with the arguments to fault.
func New[R any, F ~func(R) string](given map[string]F, fault func(format string, args ...any)) (all Args[R]) {
	if len(given) > Max {
		fault("Args has %d arguments; want at most %d", len(given), Max)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case name == "" || len(name) > rule.MaxNameLength || strings.TrimSpace(name) != name || strings.Contains(name, ","):
			fault("Args has the name %.64q; want 1 to %d bytes without commas, and no blanks at its ends: rules name several with commas",
				name, rule.MaxNameLength)
		case given[name] == nil:
			fault("Args[%.64q] is nil; want a function", name)
		}
		all = append(all, named[R]{name, given[name]})
	}
	return all
}

// AddTo appends the arguments that a call has to the options of its entry.
func (all Args[R]) AddTo(opts []resource.EntryOption, r R) []resource.EntryOption {
	for i := range all {
		if value := all[i].of(r); value != "" {
			opts = append(opts, resource.WithArg(all[i].name, charging.Bounded(value)))
		}
	}
	return opts
}
