//go:build e2e

package browser

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

// why returns why a resource needs attention: "word detail", empty if it does not.
func why(name string) string {
	return `(() => { const r = [...document.querySelectorAll(".row")].find((r) => r.querySelector("a").textContent === ` + quote(name) + `);
		return r.dataset.why ? [...r.querySelector(".attention").children].map((e) => e.textContent).join(" ") : "" })()`
}

// newTroubled makes a gate with a resource for each reason to look, and two that are well.
func newTroubled(t *testing.T) *leapgate.Gate {
	t.Helper()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadRules(leapgate.Rules{
		Flow: []flow.Rule{
			{ID: "few", Resource: "blocks", Threshold: 20},
			{ID: "slowly", Resource: "waits", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour},
		},
		Isolation: []isolation.Rule{{ID: "places", Resource: "full", MaxInFlight: 2}},
		Breaker:   []breaker.Rule{{ID: "fuse", Resource: "opens", ErrorRatio: 0.5, Force: breaker.Open}},
	}))
	traffic(t, gate, map[string]int{"blocks": 1, "well": 1, "also well": 2})
	require.NoError(t, gate.Do(t.Context(), "other", func(context.Context) error { return nil }))
	away := errors.New("away")
	require.Error(t, gate.Do(t.Context(), "opens", func(context.Context) error { return nil }))
	for range 2 {
		e, err := gate.Entry("full")
		require.NoError(t, err)
		t.Cleanup(e.Exit)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 4)
	for range 3 {
		go func() {
			_ = gate.Do(ctx, "waits", func(context.Context) error { <-ctx.Done(); return nil })
			done <- struct{}{}
		}()
	}
	go func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-ticker.C
			_ = gate.Do(ctx, "fails", func(context.Context) error {
				if i%4 == 0 {
					return away
				}
				return nil
			})
		}
		done <- struct{}{}
	}()
	t.Cleanup(func() {
		cancel()
		for range cap(done) {
			<-done
		}
	})
	return gate
}

// TestOverview_WhatNeedsAttentionComesFirst: in the order of how bad it is, with a word, a number, the rule, and an edge.
func TestOverview_WhatNeedsAttentionComesFirst(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, newTroubled(t), dashboard.Config{}).url)
	p.until("the worst first, and the others by name", `String(`+names+`) === "opens,fails,blocks,full,waits,also well,other,well"`)
	for name, want := range map[string]string{
		"opens": `^open `, "fails": `^failing \d+(\.\d)? % of the calls$`, "blocks": `^blocking \d+(\.\d)? % by few$`, "full": `^saturated 100 % of places$`,
		"waits": `^waiting [1-3] calls?`, "well": `^$`, "other": `^$`,
	} {
		p.matches(want, why(name))
	}
	edge := func(name string) string {
		return ask[string](p, `getComputedStyle([...document.querySelectorAll(".row")].find((r) => r.querySelector("a").textContent === `+quote(name)+`), "::before").backgroundColor`)
	}
	require.Equal(t, "rgba(0, 0, 0, 0)", edge("well"))
	colours := map[string]bool{edge("opens"): true, edge("blocks"): true, edge("waits"): true}
	require.Len(t, colours, 3, "as bad as it is")
	p.is("opens,fails", `String([...document.querySelectorAll(".warning.away a")].map((a) => a.textContent))`)
	p.until("exceptions", `[...document.querySelectorAll(".row")].find((r) => r.querySelector("a").textContent === "fails").querySelector(".cell.exception.some")`)
	p.until("exceptions of all", `Number(document.querySelector("#total-exception").textContent) > 0`)
	p.until("what waits", `Number(document.querySelector("#total-waiting").textContent) > 0`)

	// What it says can be read without a mouse.
	require.False(t, ask[bool](p, `[...document.querySelectorAll(".head .column")].some((c) => c.title.length < 20)`))
	p.do(chromedp.Focus(chromedp.CSS(".meanings summary")))
	p.press("\r")
	p.until("what all columns say, and what other is", `document.querySelectorAll(".meanings dt").length === 13 && document.querySelector(".meanings").innerText.includes("no room")`)
	look := func(string) {}
	if os.Getenv("AXE") != "" {
		look = p.withAxe(axeSource(t))
	}
	for _, theme := range []string{"light", "dark"} {
		p.choose("#theme", theme)
		for _, width := range []int64{1440, 1280, 1024, 800, 768, 761, 390, 360} {
			p.size(width, 900, width < 500)
			require.LessOrEqual(t, ask[int64](p, "document.documentElement.scrollWidth"), width, "wider than the window")
			require.Empty(t, ask[string](p, `[...document.querySelectorAll(".row, .head")].flatMap((r) => {
				const box = r.getBoundingClientRect();
				return [...r.children].filter((c) => c.checkVisibility() && c.getBoundingClientRect().right > box.right + 1).map((c) => c.className);
			}).join()`), "cells run out of the table at %d", width)
			look(theme + " at " + strconv.FormatInt(width, 10))
			p.shoot("attention-" + theme + "-" + strconv.FormatInt(width, 10))
		}
	}
}

// TestOverview_RowsStayWhileOneReads: they do not move while one is chosen, nor more than every five seconds.
func TestOverview_RowsStayWhileOneReads(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "none", Resource: "z", Threshold: 0, Mode: rule.Shadow}}))
	traffic(t, gate, map[string]int{"a": 1, "m": 1, "z": 1})
	p := open(t, serve(t, gate, dashboard.Config{}).url)
	p.until("by name", `String(`+names+`) === "a,m,z"`)

	// A row has the focus: nothing moves, and it is said.
	p.do(chromedp.Focus(chromedp.CSS("#filter")))
	p.press(kb.ArrowDown)
	p.until("it is said", `document.querySelector("#matched").textContent === "Order held while you choose"`)
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "none", Resource: "z", Threshold: 0}}))
	p.until("the reason", why("z")+`.startsWith("blocking")`)
	time.Sleep(2500 * time.Millisecond) // nothing must happen for some frames
	require.Equal(t, "a,m,z", ask[string](p, `String(`+names+`)`))
	p.do(chromedp.Focus(chromedp.CSS("#sort-now")))
	p.press("\r")
	p.until("moved when asked", `String(`+names+`) === "z,a,m"`)

	// So it does with a mouse over a row.
	box := ask[[]float64](p, `(() => { const b = document.querySelector(".row").getBoundingClientRect(); return [b.left + 40, b.top + 10] })()`)
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box[0], box[1]))
	p.until("it is said", `document.querySelector("#matched").textContent === "Order held while you choose"`)
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 5, 5))
	require.NoError(t, gate.LoadFlowRules(nil))
	p.until("all is well", why("z")+` === ""`)
	p.until("moved by itself", `String(`+names+`) === "a,m,z"`)
}

// TestOverview_IsInTheAddress: what was chosen can be sent to somebody, and Back comes to where one was.
func TestOverview_IsInTheAddress(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	for i := range 100 {
		e, err := gate.Entry("resource " + strconv.Itoa(i))
		require.NoError(t, err)
		e.Exit()
	}
	s := serve(t, gate, dashboard.Config{})
	p := open(t, s.url)
	p.until("all", `document.querySelector("#total-resources").textContent === "100"`)
	require.Empty(t, ask[string](p, "location.hash"), "nothing was chosen")
	p.fill("#filter", "resource 9&")
	p.until("the filter", `location.hash === "#/?filter=resource+9%26"`)
	p.press("\b")
	p.click(".column.name button")
	p.click(".column.name button")
	p.until("all of it", `location.hash === "#/?filter=resource+9&sort=name&order=desc"`)
	p.until("the last first", names+`[0] === "resource 99"`)
	address := ask[string](p, "location.href")
	sent := open(t, address)
	sent.until("the same", `String(`+names+`) === "resource 99,resource 98,resource 97,resource 96,resource 95,resource 94,resource 93,resource 92,resource 91,resource 90,resource 9"`)
	require.Equal(t, "resource 9", ask[string](sent, `document.querySelector("#filter").value`))

	// Back, with the keyboard alone.
	p.fill("#filter", "")
	p.until("all rows", names+`[0] === "resource 99"`)
	p.press(kb.ArrowDown)
	p.press(kb.End)
	p.until("the last row", `document.activeElement.textContent.startsWith("resource")`)
	p.until("far down", "scrollY > 2000")
	y := ask[float64](p, "scrollY")
	p.press("\r")
	p.until("a resource, from its top", `location.hash.startsWith("#/resource/") && document.querySelector("h1.two") && scrollY === 0`)
	require.True(t, strings.HasPrefix(ask[string](p, "document.title"), ask[string](p, `document.querySelector("h1").textContent`)))
	ask[bool](p, "history.back(), true")
	p.until("where one was", "document.querySelector('.row') && scrollY === "+strconv.FormatFloat(y, 'f', -1, 64))
	require.Equal(t, "#/?sort=name&order=desc", ask[string](p, "location.hash"))
	ask[bool](p, "history.forward(), true")
	p.until("the resource, from its top", `location.hash.startsWith("#/resource/") && scrollY === 0`)
	ask[bool](p, `document.querySelector(".crumb a").click(), true`)
	p.until("a link begins at the top, with what was chosen", `location.hash === "#/?sort=name&order=desc" && scrollY === 0`)
}

// What is chosen in one chart is shown in all, and wherever the address is opened.
func TestChart_SelectedSecondIsInTheAddress(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{})
	p := open(t, s.url+ofOrders)
	p.until("some seconds", `(document.querySelector(".line.pass").getAttribute("d").match(/L/g) ?? []).length > 4`)
	p.do(chromedp.Focus(chromedp.CSS(".chart.wide .plot")))
	p.press(kb.ArrowLeft)
	p.press(kb.ArrowLeft)
	p.until("a second", `/^#\/resource\/GET%20%2Forders\?at=\d+$/.test(location.hash)`)
	when := ask[string](p, `document.querySelector(".chart.wide .when").textContent`)
	p.do(chromedp.Focus(chromedp.CSS(".crumb a")))
	all := `String([...document.querySelectorAll(".chart .when")].map((w) => w.textContent))`
	p.until("the same in all charts", all+" === "+quote(when+","+when+","+when))
	sent := open(t, ask[string](p, "location.href"))
	sent.until("the same for others", all+" === "+quote(when+","+when+","+when))
	p.do(chromedp.Focus(chromedp.CSS(".chart.wide .plot")))
	p.press(kb.Escape)
	p.until("none", `location.hash === "#/resource/GET%20%2Forders" && !document.querySelector(".cross")`)
}
