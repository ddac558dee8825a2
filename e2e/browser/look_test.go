//go:build e2e

package browser

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// names returns the names of the rows that are in the page, in order.
const names = `[...document.querySelectorAll(".row .name a")].map((a) => a.textContent)`

// newShop makes a gate under traffic: orders beyond their rule, search below its own.
func newShop(t *testing.T) *leapgate.Gate {
	t.Helper()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 60, Candidate: 40},
		{ID: "search-try", Resource: "GET /search", Threshold: 80, Mode: rule.Shadow},
	}))
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{ID: "orders-places", Resource: "GET /orders", MaxInFlight: 20}}
		return nil
	}))
	traffic(t, gate, map[string]int{"GET /orders": 2, "GET /search": 1, "cache.get": 4})
	return gate
}

func TestRows_MoveFilterAndSort(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{Title: "Shop of <b>Ann</b>"})
	p := open(t, s.url+"#/?sort=pass")

	p.until("three rows", names+".length === 3")
	p.until("the title", `document.title === "Shop of <b>Ann</b>"`)
	p.until("the busiest first", `String(`+names+`) === "cache.get,GET /orders,GET /search"`)
	p.until("live", `document.querySelector("#connection").dataset.state === "live"`)
	p.until("about 200 + 60 + 50 that pass", `Number(document.querySelector("#total-pass").textContent) > 200`)
	p.until("a blocked share", `document.querySelector("#total-share").textContent.endsWith("%") && document.querySelector("#total-share").textContent !== "0 %"`)
	line := ask[string](p, `document.querySelector(".row .spark-line.pass").getAttribute("d")`)
	p.until("a sparkline that moves", `document.querySelector(".row .spark-line.pass").getAttribute("d") !== `+quote(line))

	p.press("/")
	require.Equal(t, "filter", ask[string](p, "document.activeElement.id"), "/ goes to the filter")
	p.press("SEAR")
	p.until("one row", `String(`+names+`) === "GET /search"`)
	p.is("1 of 3", `document.querySelector("#matched").textContent`)
	p.press(kb.Escape)
	p.until("all rows", names+".length === 3")
	p.fill("#filter", "no such thing")
	p.until("words instead of rows", `document.querySelector(".empty:not([hidden])")?.textContent.includes("No resource has a name like that")`)
	p.fill("#filter", "")

	// With the keyboard alone: to the header of the column, and there.
	p.do(chromedp.Focus(chromedp.CSS(".column.name button")))
	p.press("\r")
	p.until("sorted by name", `String(`+names+`) === "GET /orders,GET /search,cache.get"`)
	p.press(" ")
	p.until("the other way", `String(`+names+`) === "cache.get,GET /search,GET /orders"`)
	require.Equal(t, "descending", ask[string](p, `document.querySelector(".column.name").getAttribute("aria-sort")`))
	p.click(".column.share button")
	p.until("the most blocked first", names+`[0] === "GET /orders"`)
	p.click(".column.p99 button")
	p.until("sorted by latency", `document.querySelector(".column.p99").getAttribute("aria-sort") === "descending"`)
	p.click(".column.pass button")

	// The arrows go from row to row, and Enter opens one.
	p.do(chromedp.Focus(chromedp.CSS("#filter")))
	p.press(kb.ArrowDown)
	p.press(kb.ArrowDown)
	require.Equal(t, "GET /orders", ask[string](p, "document.activeElement.textContent"))
	p.until("rows that stay while one is chosen", `document.querySelector("#matched").textContent.includes("Order held")`)
	p.press("\r")
	p.until("the resource", `location.hash === "#/resource/GET%20%2Forders" && document.querySelector("h1").textContent === "GET /orders"`)
}

// TestResource_ChartsMove reads the charts of a resource, with the mouse and with the keyboard.
func TestResource_ChartsMove(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	p := open(t, serve(t, gate, dashboard.Config{}).url+"#/resource/GET%20%2Forders")

	rates := `document.querySelector(".chart.wide")`
	p.until("the threshold as a line", rates+`.querySelector("text.threshold")?.textContent === "orders-qps 60/s"`)
	p.matches("orders-qps, candidate 40/s", rates+".textContent")
	p.until("a threshold for calls in flight", `document.querySelectorAll(".chart")[2].textContent.includes("orders-places 20")`)
	p.until("blocks in the chart", `/block: \d+ now/.test(`+rates+`.querySelector(".unseen").textContent)`)
	line := ask[string](p, rates+`.querySelector(".line.pass").getAttribute("d")`)
	p.until("a chart that moves", rates+`.querySelector(".line.pass").getAttribute("d") !== `+quote(line))
	p.until("percentiles", `document.querySelectorAll(".chart")[1].querySelector(".line.p99").getAttribute("d").includes("L")`)
	p.until("whole seconds at the threshold", `(() => { const m = /pass: [^.]* at most (\d+) /.exec(`+rates+`.querySelector(".unseen").textContent); return m && m[1] === "60" })()`)

	// The rule's line and a pass of 60 a second are at the same height.
	heights := ask[[]float64](p, `[`+rates+`.querySelector("line.threshold").y1.baseVal.value,
		Math.min(...`+rates+`.querySelector(".line.pass").getAttribute("d").match(/[ML][\d.]+ [\d.]+/g).map((s) => Number(s.split(" ")[1])))]`)
	require.InDelta(t, heights[0], heights[1], 1)

	p.until("some seconds", `(`+rates+`.querySelector(".line.pass").getAttribute("d").match(/L/g) ?? []).length > 4`)

	// The read-out.
	box := ask[[]float64](p, `(() => { const b = `+rates+`.querySelector(".plot").getBoundingClientRect(); return [b.right - 40, b.top + 80] })()`)
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box[0], box[1]))
	p.until("a cross and its time", rates+`.querySelector(".cross") && /^\d\d:\d\d:\d\d$/.test(`+rates+`.querySelector(".when").textContent)`)
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 5, 5))
	p.until("no cross", `!`+rates+`.querySelector(".cross")`)
	p.do(chromedp.Focus(chromedp.CSS(".chart.wide .plot")))
	read := false
	for range 3 { // seconds, of which some may be missing
		p.press(kb.ArrowLeft)
		read = read || ask[bool](p, `/^\d\d:\d\d:\d\d: pass \d+, block \d+$/.test(document.activeElement.getAttribute("aria-valuetext"))`)
	}
	require.True(t, read)
	p.press(kb.Escape)
	p.until("no cross", `!`+rates+`.querySelector(".cross")`)
	p.click(".chart.wide summary")
	p.until("sixty rows of figures", rates+`.querySelectorAll("tbody tr").length === 60 && Number(`+rates+`.querySelector("tbody td").textContent) > 0`)

	// The rules, and whom they refused.
	p.until("the last refusal", `document.querySelector(".rule .last").textContent.includes("flow rule \"orders-qps\" on \"GET /orders\"")`)
	require.False(t, ask[bool](p, `document.querySelectorAll(".rule")[1].querySelector(".earlier").checkVisibility()`), "a rule that refused nothing")
	p.until("those before it", `document.querySelectorAll(".rule .earlier li").length === 4`)
	p.click(".rule .earlier summary")
	earlier := `[document.querySelector(".rule .last"), ...document.querySelectorAll(".rule .earlier li")].map((e) => e.innerText)`
	said := ask[[]string](p, earlier)
	for _, refusal := range said {
		require.Regexp(t, `^(Last refusal )?(now|\d+ s ago): flow rule "orders-qps" on "GET /orders": 6\d of 60 in 1s; retry in `, refusal)
	}
	p.until("newer ones, and no more than that", `document.querySelectorAll(".rule .earlier li").length === 4 && String(`+earlier+`) !== `+quote(strings.Join(said, ",")))
	p.shoot("refusals")
	blocked := `[...document.querySelectorAll(".rule")].map((r) => r.querySelector(".block dd").textContent.replaceAll(",", ""))`
	p.until("blocks that grow", `Number(`+blocked+`[0]) > 20`)
	p.is("orders-qps,orders-places", `String([...document.querySelectorAll(".rule .title")].map((h) => h.textContent))`)
	require.False(t, ask[bool](p, `[...document.querySelectorAll("button.add, .acts")].some((e) => e.checkVisibility())`), "nothing can be changed")
	require.Contains(t, p.text(), "Rules are read-only here")
	total, err := strconv.ParseInt(strings.ReplaceAll(ask[string](p, `[...document.querySelectorAll(".panel dt")].find((d) => d.textContent === "Pass").nextSibling.textContent`), ",", ""), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, gate.Resource("GET /orders").Snapshot().Pass, total, 300)

	p.do(chromedp.Navigate(strings.TrimSuffix(ask[string](p, "location.href"), ask[string](p, "location.hash")) + "#/resource/no%20such"))
	p.until("words about a resource that is not there", `document.querySelector(".empty:not([hidden])")?.textContent.includes("no such resource")`)
	p.allowed(`status of 404`)
}

func TestLimiters_ShowWhomTheyRefuse(t *testing.T) {
	t.Parallel()
	counter, err := limit.NewCounter(limit.Config{Name: "per <i>address</i>", Limit: 3, Window: time.Minute, MaxKeys: 50, Offenders: 20})
	require.NoError(t, err)
	for range 9 {
		_, err := counter.Allow(t.Context(), "192.0.2.7")
		require.NoError(t, err)
	}
	for _, key := range []string{"a", "b\x00\u202e<script>", strings.Repeat("long ", 204)} {
		for range 5 {
			_, err := counter.Allow(t.Context(), key)
			require.NoError(t, err)
		}
	}
	p := open(t, serve(t, newShop(t), dashboard.Config{Limiters: []dashboard.Limiter{counter}, ShowKeys: dashboard.Everybody}).url+"#/limiters")
	p.until("the panel", `document.querySelector(".limiter .title")?.textContent === "per <i>address</i>"`)
	p.until("its figures", `document.querySelector(".limiter").innerText.includes("4 of at most 50 keys kept")`)
	p.until("its answers", `[...document.querySelectorAll(".limiter dl.figures > div")].slice(0, 2).map((f) => f.innerText.replace(/\s+/, " ")).join() === "Allowed 12,Refused 12"`)
	offenders := `[...document.querySelectorAll(".frequent tr")].map((r) => r.children[0].textContent + "=" + r.children[1].textContent)`
	p.until("the worst first", offenders+`[0] === "192.0.2.7=6"`)
	p.is(4, offenders+".length")
	_, err = counter.Allow(t.Context(), "192.0.2.7")
	require.NoError(t, err)
	p.until("one more", offenders+`[0] === "192.0.2.7=7"`)
	require.True(t, ask[bool](p, "document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the window")
}

func TestResource_ShowsTheBusiestValuesAndCallsWithoutTheArgument(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadRules(leapgate.Rules{Param: []param.Rule{
		{ID: "hot", Resource: "a", Arg: "item", Threshold: 2, Interval: time.Hour, Top: 3}, {ID: "silent", Resource: "a", Arg: "other", Threshold: 1},
	}}))
	for range 5 {
		e, _ := gate.EntryContext(t.Context(), "a", leapgate.WithArg("item", "<b>7</b>\u202e"))
		e.Exit()
	}
	e, err := gate.EntryContext(t.Context(), "a")
	require.NoError(t, err)
	e.Exit()
	p := open(t, serve(t, gate, dashboard.Config{ShowKeys: dashboard.Everybody}).url+"#/resource/a")
	p.until("the busiest value, and how often it was refused", `[...document.querySelectorAll(".rule")[0].querySelectorAll(".frequent:not([hidden]) tr")].map((r) => r.innerText.replace(/\s+/, " ")).join() === "<b>7</b>\ufffd 5,<b>7</b>\ufffd 3"`)
	without := `[...document.querySelectorAll(".rule .without dd")].map((f) => f.textContent).join()`
	p.until("calls without the arguments", without+` === "1,all 3"`)
	require.True(t, ask[bool](p, "document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the window")
}

// TestTheme_IsKept: the system's, until another is chosen, which is kept.
func TestTheme_IsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{})
	p := open(t, s.url)
	ground := `getComputedStyle(document.documentElement).backgroundColor`
	p.prefers("light", "reduce")
	light := ask[string](p, ground)
	p.prefers("dark", "reduce")
	dark := ask[string](p, ground)
	require.NotEqual(t, light, dark)
	p.choose("#theme", "light")
	require.Equal(t, light, ask[string](p, ground))
	p.do(chromedp.Reload())
	p.until("the page again", names+".length === 3")
	require.Equal(t, light, ask[string](p, ground))
	require.Equal(t, "light", ask[string](p, `document.querySelector("#theme").value`))
	require.Equal(t, "none", ask[string](p, `getComputedStyle(document.querySelector(".light")).animationName`), "nothing moves for those who want that")
}
