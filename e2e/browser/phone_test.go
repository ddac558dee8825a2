//go:build e2e

package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/isolation"
)

// TestPhone_ButtonsAndForm: the buttons that add rules are one line each, however many kinds there are, and a
// form that is longer than the window begins in its first field.
func TestPhone_ButtonsAndForm(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{
		ID: "found", Resource: "search", Strategy: isolation.Adaptive, MaxInFlight: 12, InitialInFlight: 6,
	}}}))
	p := open(t, serve(t, gate, dashboard.Config{Authorize: everybody}).url+"#/rules")
	p.size(390, 700, true)
	p.until("the buttons", `document.querySelectorAll("button.add").length === 5`)
	require.Less(t, ask[float64](p, `Math.max(...[...document.querySelectorAll("button.add")].map((b) => b.offsetHeight))`), 50.0)
	require.LessOrEqual(t, ask[int64](p, "document.documentElement.scrollWidth"), int64(390))
	p.click(".rule .edit")
	p.until("the form", `document.querySelector("dialog[open]")`)
	require.Equal(t, "rule-resource", ask[string](p, `document.activeElement.id || document.activeElement.className`))
	p.shoot("phone-form")
}
