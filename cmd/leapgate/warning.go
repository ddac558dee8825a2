package main

import (
	"fmt"
	"strings"

	"github.com/leapgate-go/leapgate/rule"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/rulefile"
)

// mostWarnings is how many warnings of a file are printed.
const mostWarnings = 20

// warnings returns what is allowed in good rules, but probably not meant.
func warnings(rules rulefile.Rules) []string {
	if rules.Len() == 0 {
		return []string{"there are no rules; nothing is limited"}
	}
	var all []string
	untold := 0
	warn := func(kind, id, resource, format string, args ...any) {
		if len(all) == mostWarnings {
			untold++
			return
		}
		name := " on " + escape.Text(resource)
		if id != "" {
			name = " " + escape.Text(id)
		}
		all = append(all, kind+" rule"+name+": "+fmt.Sprintf(format, args...))
	}
	pattern := func(kind, id string, match rule.Match, resource string) {
		if match == rule.Exact && strings.Contains(resource, "*") {
			warn(kind, id, resource, "resource is %s, and means the resource of that very name; is match: glob or match: regexp meant?", escape.Text(resource))
		}
	}
	for _, r := range rules.Flow {
		pattern("flow", r.ID, r.Match, r.Resource)
		switch {
		case r.Behavior == flow.Pace && r.Buckets != 0 && r.Buckets != flow.DefaultBuckets:
			warn("flow", r.ID, r.Resource, "buckets is %d, and means nothing with behavior: pace; is behavior: reject meant?", r.Buckets)
		case r.Behavior == flow.Reject && r.MaxWait > 0:
			warn("flow", r.ID, r.Resource, "maxWait is %s, and only calls with priority wait; is behavior: pace meant?", field.ShortDuration(r.MaxWait))
		}
	}
	for _, r := range rules.Isolation {
		pattern("isolation", r.ID, r.Match, r.Resource)
	}
	if untold > 0 {
		all = append(all, fmt.Sprintf("and %d more", untold))
	}
	return all
}
