//go:build e2e

package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// TestRules_TableSorts: the rule that refuses most comes first, and what each does is in its row.
func TestRules_TableSorts(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, newShop(t), dashboard.Config{}).url+"#/rules")
	p.until("the one that refuses first", names+`[0] === "orders-qps"`)
	cell := func(rule, column string) string {
		return `[...document.querySelectorAll(".of-rules .row")].find((r) => r.textContent.startsWith("` + rule + `")).querySelector(".cell.` + column + `").innerText`
	}
	p.until("how many a second", `Number(`+cell("orders-qps", "block")+`) > 5`)
	p.until("what its candidate would", `Number(`+cell("orders-qps", "would")+`) > Number(`+cell("orders-qps", "block")+`)`)
	p.until("how much of its limit is used", `/^\d+ of 60$/.test(`+cell("orders-qps", "use")+`.trim())`)
	p.until("when it refused last", `/now|s ago/.test(`+cell("orders-qps", "refusal")+`)`)
	p.is("shadow", cell("search-try", "state"))
	p.until("a sparkline", `document.querySelector(".of-rules .spark-line.block").getAttribute("d").includes("L")`)
	p.until("with the limit in it", `document.querySelector(".of-rules .spark-line.limit").getAttribute("d").includes("H")`)

	p.do(chromedp.Focus(chromedp.CSS(".of-rules .column.name button")))
	p.press("\r")
	p.until("sorted by name", `String(`+names+`) === "orders-places,orders-qps,search-try"`)
	p.press(" ")
	p.until("the other way", `String(`+names+`) === "search-try,orders-qps,orders-places"`)
	require.Equal(t, "descending", ask[string](p, `document.querySelector(".of-rules .column.name").ariaSort`))
	require.Contains(t, ask[string](p, "location.hash"), "sort=name")
	p.do(chromedp.Reload())
	p.until("so it stays", `String(`+names+`) === "search-try,orders-qps,orders-places"`)

	p.do(chromedp.Focus(chromedp.CSS(".of-rules .row:nth-child(2) a")))
	p.press("\r")
	p.until("the page of the rule", `document.querySelector("h1").textContent === "orders-qps"`)
	p.until("what it refuses, and would", points("block")+" > 2 && "+points("p50")+" > 2")
	p.until("in words", `/^In the last (minute|\d+ s): refused \d+ \(\d+ %\), candidate would \d+ \(\d+ %\) of \d+ calls\.$/.test(document.querySelector(".shares").textContent)`)
	p.until("its last refusal", `document.querySelector(".rule .last").textContent.includes("of 60 in 1s")`)
	p.shoot("rule")
	ask[bool](p, `location.hash = "#/rule/flow/none", true`)
	p.until("words about a rule that is not there", `document.querySelector(".empty:not([hidden])")?.textContent === "There is no such rule now."`)
}

// TestRules_WithoutAResource are named above the table.
func TestRules_WithoutAResource(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	p := open(t, serve(t, gate, dashboard.Config{}).url+"#/rules")
	p.until("the rules", names+".length === 3")
	p.is(false, `document.querySelector("#unbound").checkVisibility()`)
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Flow = append(all.Flow, flow.Rule{ID: "typo", Resource: "GET /odrers*", Match: rule.Glob, Threshold: 5})
		return nil
	}))
	p.is("This rule binds no resource now, and so protects nothing: typo.", `document.querySelector("#unbound").textContent`)
	p.is(true, `document.querySelector("#unbound").checkVisibility()`)
}

// TestThreshold_IsDragged with the mouse and with the keyboard, and the page tells how many calls exceeded it.
func TestThreshold_IsDragged(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	p := open(t, serve(t, gate, dashboard.Config{KeepHistory: true, Authorize: everybody}).url+ofOrders)
	const handle = `document.querySelector(".handle")`
	says := `document.querySelector(".trial [role=status]").textContent`
	p.until("a handle", handle)
	p.allowed(`status of 404 .*/history\?`) // until the first sample
	p.until("some history", `window.rows > 4 || (fetch("api/v1/history?span=demand&name=GET%20%2Forders").then((r) => r.json()).then((v) => { window.rows = v.resource?.rows.length }), false)`)
	p.is("60/s", handle+".ariaValueText")

	p.do(chromedp.Focus(chromedp.CSS(".handle")))
	for range 3 {
		p.press(kb.ArrowUp)
	}
	require.Equal(t, "63", ask[string](p, handle+".ariaValueNow"))
	p.until("how many calls exceeded it", `/^About \d+ calls above 63 in the last (minute|\d+ s); above 60, about \d+\.$/.test(`+says+`)`)
	p.until("the line beside the one that holds", `document.querySelector(".chart.wide").textContent.includes("orders-qps at 63/s?")`)
	p.matches("63/s: About ", handle+".ariaValueText")
	p.press(kb.PageDown)
	p.until("of another limit", `/^About \d+ calls above 53 in the last/.test(`+says+`)`)
	p.press(kb.Escape)
	p.until("given up", `!`+says+` && `+handle+`.ariaValueNow === "60"`)

	p.repeat("a higher limit, though the handle may move away under the mouse", func() string {
		at := ask[[]float64](p, `(() => { const b = `+handle+`.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2] })()`)
		p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, at[0], at[1], chromedp.ButtonLeft))
		p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]-30, chromedp.ButtonLeft))
		p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]-60, chromedp.ButtonLeft))
		p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, at[0], at[1]-60, chromedp.ButtonLeft))
		return ask[string](p, `Number(`+handle+`.ariaValueNow) > 65 ? "" : "it is "+`+handle+`.ariaValueNow`)
	})
	p.until("is told", `/^About \d+ calls above \d+ in/.test(`+says+`)`)
	p.shoot("dragged")
	to := ask[float64](p, `Number(`+handle+`.ariaValueNow)`)

	p.click(".trial .try")
	p.until("the question", `/^Try \d+ beside orders-qps\?$/.test(document.querySelector("dialog h2")?.textContent)`)
	p.click("dialog button[type=submit]")
	p.until("the candidate", `!document.querySelector("dialog")`)
	require.InDelta(t, to, gate.Rules().Flow[0].Candidate, 0)
	require.InDelta(t, 60, gate.Rules().Flow[0].Threshold, 0)
	// Until the page has read the rule again, the server refuses its next change.
	p.matches(fmt.Sprintf("orders-qps, candidate %v/s", to), `document.querySelector(".chart.wide").textContent`)

	p.do(chromedp.Focus(chromedp.CSS(".handle")))
	p.press(kb.ArrowUp)
	p.click(".trial .set")
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Set orders-qps to 61?"`)
	p.click("dialog button[type=submit]")
	p.until("the limit", `!document.querySelector("dialog")`)
	require.InDelta(t, 61, gate.Rules().Flow[0].Threshold, 0)
	p.until("who changed what, as marks", `[...document.querySelectorAll(".chart.wide text.mark")].some((m) => m.textContent === "edit")
		&& /^\d\d:\d\d:\d\d orders-qps: threshold 60 → 61, by somebody$/.test(document.querySelector(".chart.wide .marks").textContent)`)
	p.until("as a stair in the chart", `document.querySelector("path.threshold")?.getAttribute("d").includes("L")`)
}
