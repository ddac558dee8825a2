package rulefile

import "github.com/leapgate-go/leapgate"

// Gate is what a [Watcher] loads the rules into. A *leapgate.Gate is one.
type Gate interface {
	// ReplaceRules replaces those rules whose Source is source by the given ones, all or,
	// with an error, none, and leaves all others alone. It must not call the watcher's
	// Reload or Close.
	ReplaceRules(source string, rules leapgate.Rules) error
}
