//go:build e2e

package browser

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rulefile"
)

// TestSource_RefusedAndGoodAgain writes rule files that are no good: every view says so, the view of
// the rules says what is wrong, by line, and what is in force; and so when it is good again.
func TestSource_RefusedAndGoodAgain(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	path := filepath.Join(t.TempDir(), "rules <b>of <i>the shop.yaml")
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("flow:\n  - id: of-the-file\n    resource: GET /orders\n    threshold: 1000\n")
	watcher, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = watcher.Close() })
	missing, err := rulefile.Watch(rulefile.Config{Path: filepath.Join(t.TempDir(), "missing.yaml"), Gate: gate, Logger: quiet(), Optional: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = missing.Close() })

	p := open(t, serve(t, gate, dashboard.Config{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{watcher}}).url)
	p.until("rows", names+".length === 3")
	require.False(t, ask[bool](p, `document.querySelector("#trouble").checkVisibility()`))
	ask[bool](p, `location.hash = "#/rules", true`)
	panel := `document.querySelector(".source")`
	p.until("a good source", panel+`?.querySelector(".badge.good")?.textContent === "in force"`)
	p.matches(`^1 rule, loaded \d+ \w+ 20\d\d, \d\d:\d\d:\d\d \((now|\d+ s ago)\)\.$`, panel+`.querySelector(".note:last-child").textContent`)
	p.is(path, panel+`.querySelector(".title").textContent`)
	p.shoot("source-good")

	write("flow:\n  - id: of-the-file\n    resource: GET /orders\n    threshold: -1\n    intervall: 1s\n")
	_ = watcher.Reload()
	p.until("words in every view", `document.querySelector("#trouble").checkVisibility()`)
	p.until("what is refused", `document.querySelector("#trouble").innerText.includes(`+quote(path+" is refused: its latest change is not in force.")+`)`)
	p.until("words for those who do not see it", `document.querySelector("#announce").textContent.includes("is refused: its latest change is not in force")`)
	p.until("a refused source", panel+`.querySelector(".badge.away")?.textContent === "refused"`)
	p.matches(`^What it holds has been refused since \d+ \w+ 20\d\d, \d\d:\d\d:\d\d \((now|\d+ s ago)\):$`, panel+`.querySelector(".note").textContent`)
	p.matches(`^Still in force: 1 rule, loaded \d+ `, panel+`.querySelector(".note:last-child").textContent`)
	p.is(2, `document.querySelectorAll(".faults li").length`)
	faults := ask[[]string](p, `[...document.querySelectorAll(".faults li")].map((l) => l.textContent)`)
	require.Len(t, faults, 2)
	require.Regexp(t, `^line 4, column \d+: flow rule "of-the-file": threshold is -1; want `, faults[0])
	require.Regexp(t, `^line 5, column \d+: .*intervall`, faults[1])
	require.False(t, ask[bool](p, `Boolean(document.querySelector("main i, #trouble i, #trouble b"))`), "a name became an element")
	for _, theme := range []string{"light", "dark"} {
		p.choose("#theme", theme)
		for _, width := range []int64{1280, 360} {
			p.size(width, 800, width < 500)
			require.LessOrEqual(t, ask[int64](p, "document.documentElement.scrollWidth"), width, "wider than the window")
			p.shoot("source-refused-" + theme + map[bool]string{true: "-phone"}[width < 500])
		}
	}
	p.size(1280, 800, false)
	ask[bool](p, `location.hash = "#/", true`)
	p.until("words in every view", `document.querySelector("#trouble").checkVisibility()`)
	p.shoot("source-refused-overview")
	p.click("#trouble a")
	p.until("what is wrong", `document.querySelectorAll(".faults li").length === 2`)

	write("flow:\n  - id: of-the-file\n    resource: GET /orders\n    threshold: 900\n  - resource: b\n    threshold: 1\n")
	require.NoError(t, watcher.Reload())
	p.until("good again", panel+`.querySelector(".badge.good")`)
	p.until("no words", `!document.querySelector("#trouble").checkVisibility() && !document.querySelector(".faults").checkVisibility()`)
	p.until("words for those who do not see it", `document.querySelector("#announce").textContent === "All sources of rules are good again."`)
	p.until("the rules of now", panel+`.querySelector(".note:last-child").textContent.startsWith("2 rules, loaded ")`)

	// One that never was any good, beside it.
	p = open(t, serve(t, gate, dashboard.Config{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{watcher, missing}}).url+"#/rules")
	p.until("two sources", `document.querySelectorAll(".source").length === 2`)
	second := `document.querySelectorAll(".source")[1]`
	p.is("refused", second+`.querySelector(".badge").textContent`)
	p.is("No rules have been loaded from it.", second+`.querySelector(".note:last-child").textContent`)
	p.matches(`missing\.yaml is refused: no rules could be loaded from it\.`, `document.querySelector("#trouble").innerText`)

	// A clock of the gate that is not that of the wall does not matter.
	began := time.Now()
	odd := leapgate.Must(leapgate.Config{Now: func() int64 { return int64(time.Since(began)) }})
	t.Cleanup(func() { _ = odd.Close() })
	require.NoError(t, odd.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 1}}))
	p = open(t, serve(t, odd, dashboard.Config{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{watcher}}).url+"#/rules")
	p.until("the age by the clock of the wall", `/\((now|\d+ s ago|\d min ago)\)/.test(`+panel+`?.textContent)`)
}

// TestSource_NoneAtAll: who has no rule files is not told of any.
func TestSource_NoneAtAll(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t, newShop(t), dashboard.Config{}).url+"#/rules")
	p.until("the rules", `document.querySelectorAll(".rule").length === 3`)
	require.False(t, ask[bool](p, `[...document.querySelectorAll("#trouble, section[aria-label='Rule sources']")].some((e) => e.checkVisibility())`))
}

// TestSource_CommentsThatWouldBeLost: who changes a rule of a file is told before, in every dialog, and is
// not where they are kept.
func TestSource_CommentsThatWouldBeLost(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	load := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	load("flow: [ # the list\n  {id: of-the-file, resource: GET /orders, threshold: 1000}\n]\n")
	watcher, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = watcher.Close() })
	p := open(t, serve(t, gate, dashboard.Config{Authorize: everybody, RuleKeepers: []dashboard.RuleKeeper{watcher}}).url+"#/rules")
	p.until("the rules", `document.querySelectorAll(".rule").length === 4`)
	ofFile := `[...document.querySelectorAll(".rule")].find((r) => r.querySelector(".title").textContent === "of-the-file")`
	const own = `document.querySelector(".rule")`
	button := func(panel, which string) {
		t.Helper()
		ask[bool](p, panel+`.querySelector(".acts button:nth-child(`+which+`)").click(), true`)
		p.until("a dialog", `document.querySelector("dialog[open]")`)
	}
	warning := func() string {
		t.Helper()
		text := ask[string](p, `(() => { const w = document.querySelector("dialog .warning"); return w.checkVisibility() ? w.textContent : "" })()`)
		return text
	}
	cancel := func() {
		t.Helper()
		p.click("dialog .buttons button:first-child")
		p.until("no dialog", `!document.querySelector("dialog")`)
	}
	for _, which := range []string{"1", "2", "3"} {
		button(ofFile, which)
		require.Equal(t, "Saving will delete comments: "+path+" has some where they cannot be kept.", warning())
		for _, theme := range []string{"light", "dark"} {
			p.choose("#theme", theme)
			p.shoot("comments-" + which + "-" + theme)
		}
		cancel()
		button(own, which)
		require.Empty(t, warning(), "it is in no file")
		cancel()
	}
	p.click("button.add")
	p.until("the form", `document.querySelector("dialog[open]")`)
	require.Empty(t, warning())
	p.choose("#rule-source", path)
	require.Contains(t, warning(), "Saving will delete comments")
	p.choose("#rule-source", "")
	require.Empty(t, warning())
	cancel()

	// Where they are kept, there is nothing to warn of.
	const commented = "# the shop\nflow:\n  - {id: of-the-file, resource: GET /orders, threshold: 1000} # many\n"
	load(commented)
	require.NoError(t, watcher.Reload())
	p.repeat("a dialog without a warning, once a frame has told of it", func() string {
		button(ofFile, "1")
		still := warning()
		if still != "" {
			cancel()
		}
		return still
	})
	p.is("Comments in "+path+" are kept.", `document.querySelector("dialog .comments").innerText`)
	p.fill("#rule-threshold", "900")
	p.click("dialog button[type=submit]")
	p.until("saved", `!document.querySelector("dialog")`)
	p.is("The rule is saved.", `document.querySelector("#toast").innerText`) // seen, and not only heard
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "# the shop\nflow:\n  - {id: of-the-file, resource: GET /orders, threshold: 900} # many\n", string(data))
}
