//go:build e2e

package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

// TestMinute_IsThereAtOnce: what the server has kept of all is in the list, in that of rules and at a rule, soon after
// the page was opened.
func TestMinute_IsThereAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{KeepHistory: true})
	time.Sleep(25 * time.Second) // in which nobody looks
	p := open(t, s.url)
	length := func(line string) string {
		return `(document.querySelector(".row ` + line + `")?.getAttribute("d").match(/[ML]/g) ?? []).length`
	}
	p.until("a sparkline", length(".spark-line.pass")+" > 0")
	began := time.Now()
	p.until("that of all seconds", length(".spark-line.pass")+" > 20")
	ask[bool](p, `location.hash = "#/rules", true`)
	p.until("that of a rule", length(".spark-line.pass")+" > 20")
	ask[bool](p, `location.hash = "#/rule/flow/orders-qps", true`)
	p.until("the seconds of the rule", points("block")+" > 20")
	p.matches(`^In the last (minute|[2-5]\d s): refused [\d,]{2,} `, `document.querySelector(".shares").textContent`)
	require.Less(t, time.Since(began), 15*time.Second, "sooner than by looking")
}

// TestRule_NamesTheTimeThatItKnows: that of the frames it has seen, if nothing is kept.
func TestRule_NamesTheTimeThatItKnows(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, newShop(t), dashboard.Config{}).url+"#/rule/flow/orders-qps")
	p.until("some seconds", `/^In the last \d+ s: refused \d+/.test(document.querySelector(".shares")?.textContent)`)
}

// TestRule_WithAPattern shows what it binds, and where it refuses.
func TestRule_WithAPattern(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "tenants", Match: rule.Glob, Resource: "tenant/*", Threshold: 30}}))
	traffic(t, gate, map[string]int{"tenant/a": 1, "tenant/b": 0})
	e, err := gate.Entry("tenant/b")
	require.NoError(t, err)
	e.Exit()
	p := open(t, serve(t, gate, dashboard.Config{KeepHistory: true}).url+"#/rule/flow/tenants")
	p.until("where it refuses, first", `/^tenant\/a\s/.test(document.querySelector(".bound tbody tr").textContent.replace("tenant/a", "tenant/a ")) && Number(document.querySelector(".bound tbody td:nth-child(4)").textContent) > 0`)
	p.is("#/resource/tenant%2Fb", `[...document.querySelectorAll(".bound a")].find((a) => a.textContent === "tenant/b").getAttribute("href")`)
	p.until("its last refusal", `/^Last refusal .*on "tenant\/a"/.test(document.querySelector(".rule .last").textContent)`)
	p.click(`.choice button[value="hour"]`)
	p.until("its hour", `/^In the last \d+ s: refused [1-9]/.test(document.querySelector(".shares").textContent) && `+points("block")+" > 1")
}

// TestHandles: a limit above the chart has one, those of limits close together keep clear of each other, and one of which
// nothing can be told has none.
func TestHandles(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{
		{ID: "far", Resource: "cache.get", Threshold: 2000},
		{ID: "one", Resource: "GET /search", Threshold: 60},
		{ID: "two", Resource: "GET /search", Threshold: 61},
		{ID: "of-one", Resource: "GET /orders", Threshold: 500, Origin: "somebody"},
	}))
	s := serve(t, gate, dashboard.Config{KeepHistory: true})
	p := open(t, s.url+"#/resource/cache.get")
	p.until("its handle", `document.querySelector(".handle")?.ariaValueText === "2,000/s"`)
	p.matches("far 2,000/s", `document.querySelector(".chart.wide .beyond").textContent`)
	p.do(chromedp.Focus(chromedp.CSS(".handle")))
	p.press(kb.ArrowDown)
	p.until("another limit", `document.querySelector(".handle").ariaValueNow === "1900" && document.querySelector(".chart.wide").textContent.includes("far at 1,900/s?")`)
	ask[bool](p, `location.hash = "#/resource/GET%20%2Fsearch", true`)
	p.until("both", `document.querySelectorAll(".handle").length === 2`)
	p.until("they are apart", `(() => { const [a, b] = [...document.querySelectorAll(".handle")].map((h) => h.getBoundingClientRect().top); return Math.abs(a - b) >= 24 })()`)
	ask[bool](p, `location.hash = "`+ofOrders+`", true`)
	p.until("its limit", `document.querySelector(".chart.wide").textContent.includes("of-one for key-")`)
	p.is(0, `document.querySelectorAll(".handle").length`)
	require.False(t, ask[bool](p, `document.querySelector(".trial").checkVisibility()`))
}

// TestThreshold_BeginsWithItsRule: before that the chart has no line of it.
func TestThreshold_BeginsWithItsRule(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	p := open(t, serve(t, gate, dashboard.Config{KeepHistory: true}).url+"#/resource/cache.get")
	p.until("some seconds", points("pass")+" > 12")
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Flow = append(all.Flow, flow.Rule{ID: "late", Resource: "cache.get", Threshold: 150})
		return nil
	}))
	begin := func(of string) string {
		return `Number(document.querySelector(".chart.wide ` + of + `")?.getAttribute("d").match(/^M([\d.]+)/)?.[1])`
	}
	p.until("its line, in the last seconds", begin("path.threshold")+" > "+begin(".line.pass")+" + 80")
}

// TestSecond_OlderThanTheMinute: a link to it opens the hour.
func TestSecond_OlderThanTheMinute(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-3 * time.Minute)
	p := open(t, serve(t, newShop(t), dashboard.Config{KeepHistory: true}).url+fmt.Sprintf("%s?at=%d", ofOrders, at.Unix()))
	p.until("the hour", `document.querySelector('.choice button[value="hour"]')?.ariaPressed === "true"`)
	p.until("the step of that second", `document.querySelector(".chart.wide .when").textContent !== ""`)
}

// TestFigures_AreNotCut on a phone: a number without its end is another number.
func TestFigures_AreNotCut(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Flow = append(all.Flow, flow.Rule{ID: "day", Resource: "cache.get", Threshold: 100_000, Interval: 24 * time.Hour})
		return nil
	}))
	p := open(t, serve(t, gate, dashboard.Config{}).url+"#/rules")
	for _, width := range []int64{390, 360} {
		p.size(width, 844, true)
		ask[bool](p, `location.hash = "#/rules", true`)
		p.until("the use of a limit", `/^\d+ of 100k$/.test([...document.querySelectorAll(".gauge-text")].find((g) => g.checkVisibility() && g.textContent.includes("100k")).textContent)`)
		const cut = `[...document.querySelectorAll(".gauge-text, .strip dd, .strip dt")].filter((e) => e.checkVisibility() && (e.scrollWidth > e.clientWidth + 1 || e.getBoundingClientRect().right > e.closest(".cell, .strip > div").getBoundingClientRect().right + 1)).map((e) => e.textContent)`
		require.Empty(t, ask[[]string](p, cut))
		ask[bool](p, `location.hash = "`+ofOrders+`", true`)
		p.until("a resource", `document.querySelector("#total-waitP95")`)
		require.Empty(t, ask[[]string](p, cut))
	}
}

// TestHeads_SayWhatTheyMean: each figure of a strip and each column has a title.
func TestHeads_SayWhatTheyMean(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, newShop(t), dashboard.Config{}).url)
	for hash, there := range map[string]string{"#/": "#total-resources", ofOrders: "#total-waitP95", "#/rules": ".of-rules .row"} {
		ask[bool](p, `location.hash = "`+hash+`", true`)
		p.until("the view", `document.querySelector("`+there+`")`)
		require.Empty(t, ask[[]string](p, `[...document.querySelectorAll(".strip > div, [role=columnheader]")].filter((e) => !e.title).map((e) => e.textContent)`), hash)
	}
}
