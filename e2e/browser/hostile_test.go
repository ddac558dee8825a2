//go:build e2e

package browser

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
)

// hostile are names that somebody may have brought in from outside.
var hostile = []string{
	`<img src=x onerror="document.title='owned'">`,
	`<script>document.title='owned'</script>`,
	`"'` + "`" + ` onmouseover=alert(1) &amp; &lt;`,
	"line\nbreak\r\nand\ttab\x00and nothing",
	"../../api/v1/about?x=1#y%2F",
	"bytes \xff\xfe that are no text \xc3",
	"turned \u202e around \u2066 and \u200b nothing",
	"𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🦊🦊 \u0301\u0301\u0301",
	strings.Repeat("W", 1024),
	strings.Repeat("ä ", 340),
	"javascript:alert(1)",
	"+ plus + and %20 and %",
}

// TestNames_Hostile: whatever a resource, a rule and a caller are called, it is text, one line of a
// table stays one line, and nothing is wider than the window. And its link leads to it.
func TestNames_Hostile(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	var rules []flow.Rule
	for _, name := range hostile {
		rules = append(rules, flow.Rule{ID: "rule of " + name, Resource: name, Threshold: 1})
	}
	require.NoError(t, gate.LoadFlowRules(rules))
	for _, name := range hostile {
		for range 3 {
			if e, err := gate.EntryContext(context.Background(), name, leapgate.WithOrigin(name)); err == nil {
				e.Exit()
			}
		}
	}
	for _, width := range []int64{1280, 360} {
		s := serve(t, gate, dashboard.Config{Title: hostile[0], Authorize: everybody})
		p := open(t, s.url)
		p.size(width, 900, width < 500)
		p.until("all rows", names+`.length === `+strconv.Itoa(len(hostile)))
		sane := func() {
			t.Helper()
			p.until("the title, which no script has changed", `document.title.endsWith(`+quote(hostile[0])+`)`)
			require.False(t, ask[bool](p, `Boolean(document.querySelector("main img, main script, main [onmouseover]"))`), "a name became an element")
			require.LessOrEqual(t, ask[int](p, "document.documentElement.scrollWidth"), int(width), "something is wider than the window")
		}
		sane()
		heights := ask[[]float64](p, `[...new Set([...document.querySelectorAll(".row")].map((r) => r.getBoundingClientRect().height))]`)
		require.Len(t, heights, 1, "rows of different heights")
		require.Contains(t, ask[[]string](p, names), "line⏎break␍⏎and␉tab␀and nothing")
		require.Contains(t, ask[[]string](p, names), "bytes \ufffd\ufffd that are no text \ufffd")
		p.shoot("hostile-" + strconv.Itoa(int(width)))

		for _, name := range hostile {
			// Every link leads to the resource of that name and no other.
			link := "#/resource/" + url.QueryEscape(name)
			ask[bool](p, "location.hash = "+quote(link)+", true")
			p.until("the resource "+url.QueryEscape(name), `document.querySelector(".rule .last")?.textContent.includes("Last refusal")`)
			require.Len(t, ask[[]string](p, `[...document.querySelectorAll(".rule .title")].map((h) => h.textContent)`), 1)
			sane()
			ask[bool](p, `location.hash = "#/", true`)
			p.until("all rows", names+`.length === `+strconv.Itoa(len(hostile)))
		}
		ask[bool](p, `location.hash = "#/rules", true`)
		p.until("all rules", `document.querySelectorAll(".rule").length === `+strconv.Itoa(len(hostile)))
		sane()
		p.shoot("hostile-rules-" + strconv.Itoa(int(width)))
	}
}

// TestName_WithALineBreakSurvivesTheForm: a field of one line cannot hold it, and must not change it.
func TestName_WithALineBreakSurvivesTheForm(t *testing.T) {
	t.Parallel()
	const name = "line\nbreak \"and\" <b>"
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: name, Resource: name, Threshold: 5}}))
	p := open(t, serve(t, gate, dashboard.Config{Authorize: everybody}).url+"#/rules")
	p.click(".rule .edit")
	p.until("the form", `document.querySelector("dialog[open]")`)
	p.fill("#rule-threshold", "7")
	p.click("dialog button[type=submit]")
	p.until("saved", `!document.querySelector("dialog")`)
	rules := gate.FlowRules()
	require.Len(t, rules, 1)
	require.Equal(t, name, rules[0].ID)
	require.Equal(t, name, rules[0].Resource)
	require.Equal(t, 7.0, rules[0].Threshold)
}
