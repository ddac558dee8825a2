package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
)

// printTable says in words what each rule means, and each limit.
func printTable(w io.Writer, f rulefile.File) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if f.Rules.Len() > 0 {
		fmt.Fprint(table, "ID\tRESOURCE\tMEANING\n")
	}
	var all kinds.Rules
	for _, k := range kinds.All {
		k.Append(&all, (*kinds.Rules)(&f.Rules))
		k.Number(&all, 0) // as loading them would
		for i := range k.Len(&all) {
			h := k.Head(&all, i)
			fmt.Fprintf(table, "%s\t%s\t%s\n", escape.Text(*h.ID), target(h, k.Together()), k.Describe(&all, i)+modeMeaning(*h.Mode))
		}
	}
	if err := table.Flush(); err != nil || len(f.Limits) == 0 {
		return err
	}
	fmt.Fprint(table, "LIMIT\tMEANING\n")
	for _, name := range slices.Sorted(maps.Keys(f.Limits)) {
		fmt.Fprintf(table, "%s\t%s\n", escape.Text(name), f.Limits[name])
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
