package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rule"
)

// printTable says in words what each rule means.
func printTable(w io.Writer, rules leapgate.Rules) error {
	if rules.Len() == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "ID\tRESOURCE\tMEANING\n")
	var all kinds.Rules
	for _, k := range kinds.All {
		k.Append(&all, (*kinds.Rules)(&rules))
		k.Number(&all, 0) // as loading them would
		for i := range k.Len(&all) {
			h := k.Head(&all, i)
			fmt.Fprintf(table, "%s\t%s\t%s\n", escape.Text(*h.ID), target(h, k.Together()), k.Describe(&all, i)+modeMeaning(*h.Mode))
		}
	}
	return table.Flush()
}

func target(h field.Head, together bool) string {
	name, each := escape.Text(*h.Resource), "each"
	if together {
		each = "all"
	}
	switch *h.Match {
	case rule.Glob:
		return each + " like " + name
	case rule.Regexp:
		return each + " matching " + name
	case rule.Default:
		return each + " without a rule of its own"
	case rule.All:
		return each
	default:
		return name
	}
}

func modeMeaning(mode rule.Mode) string {
	switch mode {
	case rule.Shadow:
		return " (shadow: only counts what it would block)"
	case rule.Off:
		return " (off)"
	default:
		return ""
	}
}
