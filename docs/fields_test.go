package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

//go:generate go test -run TestRules_ . -update

var update = flag.Bool("update", false, "write the pages that are made from the code")

// rules.md is what the kinds say of themselves. "go generate ./docs" writes it.
func TestRules_AreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	const page = "rules.md"
	made := rulesPage()
	if *update {
		require.NoError(t, os.WriteFile(page, made, 0o644))
	}
	there, err := os.ReadFile(page)
	require.NoError(t, err)
	require.True(t, bytes.Equal(made, there), page+` is not what the code says; "go generate ./docs" writes it anew`)
}

// headFields are the fields that rules of every kind have.
var headFields = []string{"id", "resource", "match", "mode"}

func rulesPage() []byte {
	var page bytes.Buffer
	page.WriteString(rulesIntroduction)
	table(&page, only(kinds.All[0].Fields(), true))
	page.WriteString(rulesInCommon)
	for _, k := range kinds.All {
		fmt.Fprintf(&page, "\n## %s\n\nA rule of kind `%[1]s` %s. In Go it is\n[%[1]s.Rule](https://pkg.go.dev/github.com/leapgate-go/leapgate/%[1]s#Rule)", k.Name(), k.Purpose())
		if k.Together() {
			page.WriteString(". All resources that a rule matches are counted together.\n\n")
		} else {
			page.WriteString(". Each resource that a rule matches is counted by itself.\n\n")
		}
		table(&page, only(k.Fields(), false))
	}
	return page.Bytes()
}

// only returns the fields that all kinds have, or those that only this one has.
func only(fields []kinds.Field, common bool) (some []kinds.Field) {
	for _, f := range fields {
		if slices.Contains(headFields, f.Name) == common {
			some = append(some, f)
		}
	}
	return some
}

var typeNames = map[string]string{
	"text": "text", "number": "number", "whole": "whole number", "flag": "true or false",
	"duration": "duration", "bytes": "memory", "enum": "choice",
}

func table(page *bytes.Buffer, fields []kinds.Field) {
	page.WriteString("| field | type | range | default | meaning |\n|---|---|---|---|---|\n")
	for _, f := range fields {
		values, otherwise := f.Range, f.Default
		switch {
		case f.Options != nil:
			values, otherwise = "`"+strings.Join(f.Options, "`, `")+"`", "`"+f.Options[0]+"`"
		case f.Type == "flag":
			otherwise = "false"
		case f.Required != "":
			otherwise = "required"
		}
		meaning := f.Hint
		if f.Only != (field.Choice{}) {
			meaning = fmt.Sprintf("With `%s: %s`. %s", f.Only.Field, f.Only.Value, f.Hint)
		}
		var others []string
		for _, name := range f.Instead {
			at := slices.IndexFunc(fields, func(other kinds.Field) bool { return other.GoName == name })
			if other := fields[at].Name; other != f.Only.Field {
				others = append(others, other)
			}
		}
		if others != nil {
			meaning += " One bound must be set: this, or `" + strings.Join(others, "`, `") + "`."
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n", f.Name, typeNames[f.Type], values, otherwise, meaning)
	}
}

const rulesIntroduction = `<!-- Made by "go generate ./docs" from the descriptions of the kinds in the code. Do not edit. -->

# Rules

These are all fields of all rules, as rule files, the dashboard and its API name them. In Go the name of a field begins
with a capital letter: ` + "`maxWait` is `MaxWait`, and `id` is `ID`" + `. [Rule files](rulefiles.md) says how a file is built.

- A **duration** is text with a unit: ` + "`250ms`, `1s`, `1h30m`" + `. The units are ns, us, ms, s, m and h.
- **Memory** is a number of bytes, or text with a unit: ` + "`512MiB`, `2GiB`" + `. The units are B, KiB, MiB, GiB and TiB.
- A field with a **default** may be left out. Then the default holds, and in Go the zero value stands for it.
- A bad rule is refused as a whole, with an error that names every fault of every rule. ` + "`leapgate check`" + ` finds them in a file.

## Fields of every kind

`

const rulesInCommon = `
How ` + "`match`" + ` reads the resource:

- ` + "`exact`" + `: the name of one resource.
- ` + "`glob`" + `: a pattern for whole names. ` + "`*`" + ` is any number of characters, ` + "`/`" + ` included; ` + "`?`" + ` is one; ` + "`[a-z]`" + ` is one of a class.
- ` + "`regexp`" + `: a regular expression for whole names. It has at most 2,000 steps with its repetitions written out, and all
  patterns of one kind have 500,000 together.
- ` + "`default`" + `: every resource that no rule of the same kind in mode ` + "`enforce`" + ` names exactly.
- ` + "`all`" + `: every resource.

What ` + "`mode`" + ` does: ` + "`enforce`" + ` refuses what goes beyond the rule; ` + "`shadow`" + ` decides and counts, and never refuses; ` + "`off`" + ` does
nothing. Rules that name a resource are asked before those with patterns.
`
