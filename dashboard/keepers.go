package dashboard

import (
	"slices"

	"github.com/leapgate-go/leapgate"
)

// RuleKeeper keeps rules outside the gate, and can be told to keep others: a rule file, or a
// database. A *rulefile.Watcher is one.
type RuleKeeper interface {
	// Source returns its name, as in the Source of its rules. It is not empty, and the same
	// at every call.
	Source() string
	// Save asks for the rules that it shall keep, keeps them, and loads them into the gate
	// with ReplaceRules; or, with an error, it leaves all as it is. The rules are all of its
	// Source, good, and with IDs and defaults filled in. They are made from those that the
	// gate has, so nothing else should load that Source between the asking and the loading.
	// An error of rules is returned, as it is or wrapped. One of its own that has a method
	// Conflict() bool, which returns true, says that it does not hold what the gate has: the
	// answer is 409, and 502 otherwise. One call is made at a time. The client
	// may be gone before it ends.
	Save(rules func() (leapgate.Rules, error)) error
}

// ruleSources returns the sources that are shown: those that are configured, and the keepers.
func (c *Config) ruleSources() []RuleSource {
	all := slices.Clone(c.RuleSources)
	for _, k := range c.RuleKeepers {
		if s, ok := k.(RuleSource); ok && !slices.ContainsFunc(all, func(s RuleSource) bool { return s.Source() == k.Source() }) {
			all = append(all, s)
		}
	}
	return all
}
