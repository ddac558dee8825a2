package everynth

import (
	"fmt"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/ruleset"
)

const kindName = "everynth"

// Kind describes these rules to the rest of Leapgate.
var Kind = ruleset.Kind[Rule]{
	Name:    kindName,
	Purpose: "refuses one of n calls",
	Status:  418, // I'm a teapot, so that it is no other kind's
	Head: func(r *Rule) field.Head {
		return field.Head{ID: &r.ID, Resource: &r.Resource, Match: &r.Match, Mode: &r.Mode, Source: &r.Source}
	},
	Fields: []field.Field[Rule]{
		field.Define(field.Int64, func(r *Rule) *int64 { return &r.N }, field.About{
			Name: "n", GoName: "N", Label: "Every", Hint: "Which calls are refused.",
			Range: "2 or more", Required: "which calls are refused", Synonyms: []string{"each"},
		}),
	},
	Complete: complete,
	Describe: describe,
	Warnings: warnings,
	Compile:  compile,
}

// complete reports the faults of a rule. There are no defaults.
func complete(r *Rule, report *ruleset.Report) {
	if r.N < 2 || r.N > MaxN {
		report.Fault("N", r.N, fmt.Sprintf("2 to %d", MaxN))
	}
}

// describe says what a rule does.
func describe(r *Rule) string { return fmt.Sprintf("one of %d calls; blocks", r.N) }

// warnings says what is allowed in a rule, but probably not meant.
func warnings(r *Rule) []string {
	if r.N > 2 {
		return nil
	}
	return []string{"n is 2, and blocks half of all calls"}
}
