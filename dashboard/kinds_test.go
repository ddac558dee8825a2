package dashboard_test

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// What the form of a rule is made of is what the kind says of itself.
func TestKinds_AreDescribedAsTheyAreRegistered(t *testing.T) {
	t.Parallel()
	all := list(get(t, dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{}), "kinds"), "kinds")
	require.Len(t, all, len(kinds.All))
	for i, k := range kinds.All {
		require.Equal(t, []any{k.Name(), float64(k.Status())}, []any{all[i]["name"], all[i]["status"]})
		fields := list(all[i], "fields")
		require.Len(t, fields, len(k.Fields()))
		for n, f := range k.Fields() {
			require.Equal(t, []any{f.Name, f.Label, f.FormHint(), f.Type}, []any{fields[n]["name"], fields[n]["label"], fields[n]["hint"], fields[n]["type"]})
		}
	}
	byName := map[string]map[string]any{}
	for _, f := range list(all[0], "fields") {
		byName[f["name"].(string)] = f
	}
	require.Equal(t, map[string]any{
		"name": "mode", "label": "Mode", "hint": "Shadow decides and counts, and refuses nothing.", "type": "enum", "options": []any{"enforce", "shadow", "off"},
	}, byName["mode"])
	require.Equal(t, map[string]any{
		"name": "buckets", "label": "Buckets", "hint": "How many buckets the window has. Empty: 10.", "type": "whole", "default": 10.0, "with": []any{"interval"}, "seldom": true,
	}, byName["buckets"])
	require.Equal(t, map[string]any{"field": "strategy", "value": "warm-up"}, byName["coldFactor"]["only"])
	require.NotEmpty(t, byName["threshold"]["required"])
	refused(t, dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{}), http.StatusBadRequest, "GET", "kinds?kind=flow", "")
}

// The page learns of the kinds from the server alone: it has no name of a kind, and none of
// the fields that only some kinds have.
func TestPage_KnowsNoKindAndNoneOfItsFields(t *testing.T) {
	t.Parallel()
	// Every rule has these, or its figures have.
	common := []string{"id", "resource", "match", "mode", "threshold", "candidate", "origin"}
	common = append(common, "k") // which stands for a thousand, too
	for _, k := range kinds.All {
		names := []string{k.Name()}
		for _, f := range k.Fields() {
			if !slices.Contains(common, f.Name) {
				names = append(names, f.Name)
			}
		}
		for file, text := range pageFiles(t) {
			if path.Ext(file) != ".js" || file == "theme.js" { // the system has a theme
				continue
			}
			for _, name := range names {
				require.False(t, strings.Contains(text, `"`+name+`"`) || strings.Contains(text, "Add "+name), "%s in %s", name, file)
			}
		}
	}
}

// What is wrong with a value is told as it was sent.
func TestEdit_ValuesOfTheWrongType(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Authorize: ann, Logger: quiet()})
	faults, _ := refused(t, d, http.StatusUnprocessableEntity, "POST", "rules?kind=flow",
		`{"resource": "half \ud83d", "threshold": {"a": [1]}, "interval": [], "mode": null, "strict": "yes", "buckets": 1e999}`)
	require.Equal(t, []string{
		`resource: resource is text with a \u that is half of a pair; want text`,
		"threshold: threshold is an object; want a decimal number, such as 100 or 0.5",
		`interval: interval is a list; want a duration such as "250ms", "1s" or "1h30m"`,
		"mode: mode is null; want a value, or the field left out",
		`strict: strict is "yes"; want true or false, without quotes`,
		"buckets: buckets is 1e999; want a whole number of at most 2147483647",
	}, faults)
	answer, v := ask(t, d, "POST", "rules?kind=flow", `{"resource": "whole \ud83d\ude00 and \ufffd", "threshold": 1}`)
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	require.Equal(t, "whole 😀 and \ufffd", v["rule"].(map[string]any)["resource"])
}
