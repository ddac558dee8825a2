package main

import (
	"fmt"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
)

const maxWarnings = 20

// warnings returns what is allowed in a good file, but probably not meant.
func warnings(f rulefile.File) (all []string) {
	rules := f.Rules
	if rules.Len() == 0 && len(f.Limits) == 0 {
		return []string{"there are no rules; nothing is limited"}
	}
	list := (*kinds.Rules)(&rules)
	reach := kinds.NewReach(list)
	for _, k := range kinds.All {
		for i := range k.Len(list) {
			h := k.Head(list, i)
			var found []string
			if resource := escape.Text(*h.Resource); *h.Match == rule.Exact && strings.Contains(resource, "*") {
				found = append(found, fmt.Sprintf("resource is %s, and means the resource of that very name; is match: glob or match: regexp meant?", resource))
			}
			if strings.TrimSpace(*h.Resource) != *h.Resource {
				found = append(found, fmt.Sprintf("resource is %s, with blanks at an end, which belong to the name; are they meant?", escape.Quoted(*h.Resource)))
			}
			found = append(found, k.Warnings(list, i)...)
			found = append(found, reach.Warnings(k, i)...)
			name := "on " + escape.Text(*h.Resource)
			if *h.ID != "" {
				name = escape.Text(*h.ID)
			}
			for _, warning := range found {
				all = append(all, fmt.Sprintf("%s rule %s: %s", k.Name(), name, warning))
			}
		}
	}
	if untold := len(all) - maxWarnings; untold > 0 {
		all = append(all[:maxWarnings], fmt.Sprintf("and %d more", untold))
	}
	return all
}
