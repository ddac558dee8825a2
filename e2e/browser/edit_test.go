//go:build e2e

package browser

import (
	"errors"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// navigateAway leaves the page, which ends its stream.
var navigateAway = chromedp.Navigate("about:blank")

const ofOrders = "#/resource/GET%20%2Forders"

// TestRule_IsEdited edits, tries, adds and removes rules as somebody who may, and each change
// takes effect in the gate.
func TestRule_IsEdited(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	p := open(t, serve(t, gate, dashboard.Config{Authorize: token("open-sesame")}).url+ofOrders)
	p.allowed(`status of (401|422)`)
	refused := `document.querySelector("dialog .refused").textContent`
	closed := `!document.querySelector("dialog")`
	p.until("the rules", `document.querySelectorAll(".rule").length === 2`)

	// Without the token nothing happens, and the page says why.
	p.click(".rule .edit")
	p.until("the form", `document.querySelector("dialog[open] h2")?.textContent === "Edit flow rule orders-qps"`)
	require.Equal(t, "60", ask[string](p, `document.querySelector("#rule-threshold").value`))
	p.fill("#rule-threshold", "30")
	p.click("dialog button[type=submit]")
	p.until("words about who asks", refused+`.includes("who you are")`)
	require.Equal(t, 60.0, gate.FlowRules()[0].Threshold)
	require.Equal(t, "dialog-token", ask[string](p, "document.activeElement.id"))
	p.press("wrong\r")
	p.until("words about the token", refused+`.includes("does not know this token")`)
	require.Equal(t, 60.0, gate.FlowRules()[0].Threshold)

	// Nor with what no header can hold as it is, such as quotes that came along.
	p.fill("#dialog-token", "“open-sesame”")
	p.click("dialog button[type=submit]")
	p.until("the same words", refused+`.includes("does not know this token")`)

	// With it, faults are told at their fields.
	p.fill("#dialog-token", "open-sesame")
	p.fill("#rule-threshold", "-1")
	p.fill("#rule-interval", "soon")
	p.click("dialog button[type=submit]")
	p.until("faults at two fields", `document.querySelectorAll("dialog [aria-invalid=true]").length === 2`)
	for field, want := range map[string]string{"threshold": "threshold is -1; want a finite number of at least 0", "interval": "soon"} {
		said := ask[string](p, `document.querySelector("#rule-`+field+`").getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id).textContent).join(" ")`)
		require.Contains(t, said, want)
	}
	require.Equal(t, "rule-threshold", ask[string](p, "document.activeElement.id"), "the first of them has the focus")
	p.shoot("faults")

	p.fill("#rule-threshold", "30")
	p.fill("#rule-interval", "500ms")
	p.click("dialog button[type=submit]")
	p.until("saved", closed)
	given := gate.FlowRules()[0]
	require.Equal(t, flow.Rule{
		ID: "orders-qps", Resource: "GET /orders", Threshold: 30, Candidate: 40,
		Interval: given.Interval, Buckets: 10, Mode: rule.Enforce,
	}, given)
	require.Equal(t, "500ms", given.Interval.String())
	p.until("the new line", `document.querySelector(".chart.wide text.threshold").textContent === "orders-qps 30 in 500 ms"`)

	// Into shadow: it blocks no more.
	p.click(".rule .acts button:nth-child(2)")
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Put orders-qps into shadow?"`)
	p.press(kb.Escape)
	p.until("given up", closed)
	require.Equal(t, rule.Enforce, gate.FlowRules()[0].Mode)
	p.click(".rule .acts button:nth-child(2)")
	p.click("dialog button[type=submit]")
	p.until("in shadow", `document.querySelector(".rule .badge.shadow")`)
	require.Equal(t, rule.Shadow, gate.FlowRules()[0].Mode)
	p.until("nothing is blocked", `document.querySelector("#total-block").textContent === "0"`)

	// A new rule, which blocks all.
	p.click("button.add")
	p.until("the form", `document.querySelector("dialog h2")?.textContent === "Add a flow rule"`)
	require.Equal(t, "GET /orders", ask[string](p, `document.querySelector("#rule-resource").value`))
	p.fill("#rule-id", "stop")
	p.fill("#rule-threshold", "0")
	p.click("dialog button[type=submit]")
	p.until("the new rule", `[...document.querySelectorAll(".rule .title")].some((h) => h.textContent === "stop")`)
	require.Len(t, gate.FlowRules(), 3)
	p.until("nothing passes", `document.querySelector("#total-pass").textContent === "0" && document.querySelector("#total-share").textContent === "100 %"`)

	// And gone again.
	p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".rule")].find((r) => r.querySelector(".title").textContent === "stop").querySelector(".remove").focus()`))
	p.press("\r")
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Remove stop?"`)
	p.is("The log will say that it was ann.", `document.querySelector("dialog .who").textContent`)
	p.shoot("remove")
	p.click("dialog button[type=submit]")
	p.until("the rule gone", `![...document.querySelectorAll(".rule .title")].some((h) => h.textContent === "stop")`)
	require.Len(t, gate.FlowRules(), 2)
	require.True(t, ask[bool](p, `document.querySelector("#main").contains(document.activeElement)`), "the focus went with the rule")
	p.until("calls pass again", `Number(document.querySelector("#total-pass").textContent) > 50`)
}

// TestRule_NobodyMay: who may not change a rule reads why, and reads it once.
func TestRule_NobodyMay(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	nobody := func(*http.Request) (string, error) { return "", errors.New("only at <b>noon</b>") }
	p := open(t, serve(t, gate, dashboard.Config{Authorize: nobody}).url+"#/rules")
	p.allowed(`status of 403`)
	p.click(".rule .remove")
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Remove orders-qps?"`)
	p.click("dialog button[type=submit]")
	p.until("the reason", `document.querySelector("dialog .refused").textContent`)
	require.Equal(t, "Nothing was changed: you may not change rules: only at <b>noon</b>", ask[string](p, `document.querySelector("dialog .refused").textContent`))
	require.Len(t, gate.FlowRules(), 2)
}

// TestRule_NotSaved: the rules are kept elsewhere, and that is out of order.
func TestRule_NotSaved(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	require.NoError(t, gate.ReplaceRules("db", leapgate.Rules{Flow: []flow.Rule{{ID: "kept", Resource: "GET /orders", Threshold: 1000}}}))
	p := open(t, serve(t, gate, dashboard.Config{Authorize: everybody, RuleKeepers: []dashboard.RuleKeeper{away{}}}).url+"#/rules")
	p.allowed(`status of 502`)
	p.until("the rules", `document.querySelectorAll(".rule").length === 4`)
	p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".rule")].find((r) => r.querySelector(".title").textContent === "kept").querySelector(".remove").click()`))
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Remove kept?"`)
	p.click("dialog button[type=submit]")
	p.until("the reason", `document.querySelector("dialog .refused").textContent`)
	require.Equal(t, "Nothing was changed: the rule was not saved: the database is away", ask[string](p, `document.querySelector("dialog .refused").textContent`))
	require.Len(t, gate.FlowRules(), 3)
}

// away is a RuleKeeper that cannot be reached.
type away struct{}

func (away) Source() string { return "db" }
func (away) Save(func() (leapgate.Rules, error)) error {
	return errors.New("the database is away")
}

// TestRule_ChangedMeanwhile: who saves over the change of another is told, and asked again.
func TestRule_ChangedMeanwhile(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	p := open(t, serve(t, gate, dashboard.Config{Authorize: everybody}).url+"#/rules")
	p.allowed(`status of 412`)
	p.click(".rule .edit")
	p.until("the form", `document.querySelector("dialog[open]")`)
	rules := gate.FlowRules()
	rules[0].Threshold = 70
	require.NoError(t, gate.LoadFlowRules(rules))
	p.fill("#rule-threshold", "80")
	p.click("dialog button[type=submit]")
	p.until("words about the other", `document.querySelector("dialog .refused").textContent.includes("threshold is 70 now")`)
	require.Equal(t, 70.0, gate.FlowRules()[0].Threshold)
	p.click("dialog button[type=submit]")
	p.until("saved", `!document.querySelector("dialog")`)
	require.Equal(t, 80.0, gate.FlowRules()[0].Threshold)
}

// TestRule_ReadOnly: what nobody may change has no buttons, and the page says why.
func TestRule_ReadOnly(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	require.NoError(t, gate.ReplaceRules("rules.yaml", leapgate.Rules{Flow: []flow.Rule{{ID: "of-a-file", Resource: "GET /orders", Threshold: 1000}}}))
	editable := open(t, serve(t, gate, dashboard.Config{Authorize: everybody}).url+ofOrders)
	editable.until("the rules", `document.querySelectorAll(".rule").length === 3`)
	file := `[...document.querySelectorAll(".rule")].find((r) => r.querySelector(".title").textContent === "of-a-file")`
	editable.until("why not this one", file+`.innerText.includes("read-only: kept in rules.yaml")`)
	require.False(t, ask[bool](editable, file+`.querySelector(".edit").checkVisibility()`))
	editable.until("that the others can be changed", `document.querySelector(".rule .edit").checkVisibility()`)

	closed := open(t, serve(t, gate, dashboard.Config{}).url+"#/rules")
	closed.allowed(`status of 403`)
	closed.until("the rules", `document.querySelectorAll(".rule").length === 4`)
	closed.until("why not", `document.body.innerText.includes("Rules are read-only here: the program does not let this page change them.")`)
	require.False(t, ask[bool](closed, `[...document.querySelectorAll(".acts, button.add")].some((e) => e.checkVisibility())`))
	// And who asks all the same is refused.
	require.Equal(t, 403, ask[int](closed, `fetch("api/v1/rules?kind=flow", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"resource":"x","threshold":1}'}).then((r) => r.status)`))
	require.Len(t, gate.FlowRules(), 3)
}
