package kinds

import "github.com/leapgate-go/leapgate/internal/ruleset"

// Completed returns rules as a gate has them that has loaded them: with IDs and defaults. Those of
// a kind with faults stay as they are.
func Completed(rules *Rules) *Rules {
	all := new(Rules)
	for _, k := range All {
		set := k.NewSet(ruleset.Env{})
		load, faults := set.Prepare(rules)
		if faults != nil {
			k.Append(all, rules)
			continue
		}
		load()
		set.Rules(all)
	}
	return all
}
