package main

import (
	"fmt"
	"strings"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/rulefile"
)

// mostWarnings is how many warnings of one sort are printed.
const mostWarnings = 20

// warnings returns what is allowed in good rules, but probably not meant.
func warnings(rules rulefile.Rules) []string {
	if rules.Len() == 0 {
		return []string{"there are no rules; nothing is limited"}
	}
	var all []string
	untold := 0
	named := func(kind, id string, match flow.Match, resource string) {
		if match != flow.Exact || !strings.Contains(resource, "*") {
			return
		}
		if len(all) == mostWarnings {
			untold++
			return
		}
		if id != "" {
			id = " " + escape.Text(id)
		}
		all = append(all, fmt.Sprintf("%s rule%s: resource is %s, and means the resource of that very name; for a pattern, add match: glob or match: regexp",
			kind, id, escape.Text(resource)))
	}
	for _, r := range rules.Flow {
		named("flow", r.ID, r.Match, r.Resource)
	}
	for _, r := range rules.Isolation {
		named("isolation", r.ID, r.Match, r.Resource)
	}
	if untold > 0 {
		all = append(all, fmt.Sprintf("and %d more names that look like patterns", untold))
	}
	return all
}
