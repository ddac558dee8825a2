//go:build e2e

package browser

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rulefile"
)

// TestAccessibility lets axe-core look at every view, in both themes and at both widths. It must
// find nothing.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	axe := axeSource(t)
	logins, err := limit.NewCounter(limit.Config{Name: "logins", Limit: 1, Window: time.Minute, Offenders: 20})
	require.NoError(t, err)
	for range 3 {
		_, err := logins.Allow(t.Context(), "192.0.2.7")
		require.NoError(t, err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("flow: [ # a comment\n  {resource: a, threshold: -1}\n]\n"), 0o600))
	gate := newShop(t)
	refusedFile, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Logger: quiet(), Optional: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = refusedFile.Close() })
	goodPath := filepath.Join(t.TempDir(), "good.yaml")
	require.NoError(t, os.WriteFile(goodPath, []byte("flow: [ # a comment\n  {id: of-a-file, resource: cache.get, threshold: 1000}\n]\n"), 0o600))
	goodFile, err := rulefile.Watch(rulefile.Config{Path: goodPath, Gate: gate, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = goodFile.Close() })
	s := serve(t, gate, dashboard.Config{
		Authorize: writers, KeepHistory: true, Limiters: []dashboard.Limiter{logins}, RuleKeepers: []dashboard.RuleKeeper{refusedFile, goodFile},
	})
	p := open(t, s.url)
	look := p.withAxe(axe)
	for _, theme := range []string{"light", "dark"} {
		p.choose("#theme", theme)
		for _, width := range []int64{1280, 360} {
			where := func(view string) string { return view + ", " + theme }
			p.size(width, 800, false)
			ask[bool](p, `location.hash = "#/", true`)
			p.until("rows", names+".length === 3")
			look(where("overview"))
			ask[bool](p, `location.hash = "`+ofOrders+`", true`)
			p.until("a refusal", `document.querySelector(".rule .last")?.textContent.includes("Last refusal")`)
			ask[bool](p, `document.querySelectorAll(".as-table").forEach((d) => { d.open = true }), true`)
			look(where("resource"))
			p.do(chromedp.Focus(chromedp.CSS(".handle")))
			p.press(kb.ArrowUp)
			p.until("an answer", `document.querySelector(".trial [role=status]").textContent`)
			look(where("resource with a limit that is dragged"))
			ask[bool](p, `location.hash = "#/rule/flow/orders-qps", true`)
			p.until("the rule", `document.querySelector(".rule .last")?.textContent.includes("Last refusal")`)
			look(where("rule"))
			ask[bool](p, `location.hash = "`+ofOrders+`", true`)
			p.until("a refusal", `document.querySelector(".rule .last")?.textContent.includes("Last refusal")`)
			p.click(".rule .edit")
			p.until("the form", `document.querySelector("dialog[open]")`)
			ask[bool](p, `document.querySelector("dialog details").open = true`)
			look(where("form"))
			p.fill("#rule-threshold", "x")
			p.click("dialog button[type=submit]")
			p.until("a fault", `document.querySelector("dialog [aria-invalid=true]")`)
			look(where("form with a fault"))
			p.click("dialog .buttons button:first-child")
			ask[bool](p, `location.hash = "#/rules", true`)
			p.until("the rules", `document.querySelectorAll(".rule").length === 4`)
			p.until("a file that is refused, and one that is good", `document.querySelector(".source .faults li") && document.querySelector(".source .badge.good")`)
			look(where("rules"))
			p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".rule")].find((r) => r.querySelector(".title").textContent === "of-a-file").querySelector(".remove").click()`))
			p.until("a warning", `document.querySelector("dialog .warning").checkVisibility()`)
			look(where("warning"))
			p.click("dialog .buttons button:first-child")
			ask[bool](p, `location.hash = "#/limiters", true`)
			p.until("a limiter", `document.querySelector(".frequent td")`)
			look(where("limiters"))
			p.click("#show-keys")
			p.click("dialog button[type=submit]")
			p.until("a token is wanted", `document.querySelector("#dialog-token").checkVisibility()`)
			look(where("show keys"))
			p.click("dialog .buttons button:first-child")
		}
	}
	p.allowed(`status of (401|422)`)
	s.stop()
	p.allowed(`ERR_|Failed to load resource`)
	p.until("the banner", `document.querySelector("#banner").checkVisibility()`)
	look("connection lost")
}

// axeSource is axe-core, if it can be had.
func axeSource(t *testing.T) string {
	t.Helper()
	file := os.Getenv("AXE")
	if file == "" {
		t.Skip("AXE does not name axe.min.js of axe-core: accessibility is not tested")
	}
	axe, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(axe)
}

// withAxe takes axe-core into the page, and returns what lets it look: it must find nothing.
func (p *tab) withAxe(axe string) (look func(where string)) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](axe))
	return func(where string) {
		p.t.Helper()
		found := ask[[]string](p, `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations
			.flatMap((v) => v.nodes.map((n) => v.id + " (" + v.impact + "): " + n.target + ": " + n.failureSummary)))`)
		require.Empty(p.t, found, where)
	}
}

// writers may change rules, and see what others see until they do.
func writers(r *http.Request) (string, error) {
	if r.Method == http.MethodGet {
		return "", dashboard.Challenge("Bearer")
	}
	return "somebody", nil
}

// TestFocus_IsSeen goes through the page with the Tab key: whatever has the focus shows it, and is
// in the window.
func TestFocus_IsSeen(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, newShop(t), dashboard.Config{Authorize: everybody}).url+ofOrders)
	p.until("a refusal", `document.querySelector(".rule .last")?.textContent.includes("Last refusal")`)
	seen := map[string]bool{}
	for range 40 {
		p.press("\t")
		what := ask[string](p, `(() => { const e = document.activeElement; return e === document.body ? "" : e.tagName + "." + e.className + "#" + e.id + " " + e.textContent.slice(0, 30) })()`)
		if what == "" || seen[what] && len(seen) > 20 {
			break
		}
		seen[what] = true
		ask[bool](p, `new Promise((done) => requestAnimationFrame(() => done(true)))`)
		require.True(t, ask[bool](p, `(() => {
			const e = document.activeElement, b = e.getBoundingClientRect(), s = getComputedStyle(e);
			return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && b.width > 0 && b.bottom > 0 && b.top < innerHeight;
		})()`), "%s has the focus, and it cannot be seen", what)
	}
	require.Greater(t, len(seen), 12, "there is more than that to reach: %v", seen)
}
