//go:build e2e

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/rulefile"
)

// bank is what the resource bank.pay calls, through a breaker.
type bank struct {
	gate  *leapgate.Gate
	away  atomic.Bool // its calls fail
	hangs atomic.Bool // its calls wait for the end of that
}

// newBank makes a gate with a bank under traffic, beside two resources that are well.
func newBank(t *testing.T, edit func(r *breaker.Rule)) *bank {
	t.Helper()
	b := &bank{gate: leapgate.Must(leapgate.Config{})}
	t.Cleanup(func() { _ = b.gate.Close() })
	r := breaker.Rule{
		ID: "bank", Resource: "bank.pay", Interval: 5 * time.Second, MinCalls: 10, ErrorRatio: 0.5,
		OpenFor: 2 * time.Second, ProbeTimeout: time.Minute,
	}
	if edit != nil {
		edit(&r)
	}
	require.NoError(t, b.gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{r}}))
	traffic(t, b.gate, map[string]int{"cache.get": 2, "GET /search": 1})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			<-ticker.C
			running.Go(func() { _ = b.gate.Do(ctx, "bank.pay", b.pay) })
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return b
}

func (b *bank) pay(ctx context.Context) error {
	for b.hangs.Load() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond) // it pretends to hang
	}
	if b.away.Load() {
		return errors.New("the bank is away")
	}
	return nil
}

const (
	ofBank    = "#/resource/bank.pay"
	stateOf   = `document.querySelector(".rule .badge.state")`
	rateChart = `document.querySelector(".chart.wide")`
	bankRow   = `[...document.querySelectorAll(".row")].find((r) => r.querySelector("a").textContent === "bank.pay")`
)

// shootAll makes screenshots in both themes, at widths from that of a desk to that of a phone, and looks
// whether all fits.
func (p *tab) shootAll(name string) {
	p.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1440, 1024, 768, 390} {
			p.choose("#theme", theme)
			p.size(width, 844, width < 500)
			require.LessOrEqual(p.t, ask[int64](p, "document.documentElement.scrollWidth"), width, "%s is wider than the window", name)
			for part, selector := range map[string]string{"top": "body", "rule": ".rule"} {
				if ask[bool](p, `(document.querySelector("`+selector+`")?.scrollIntoView(), Boolean(document.querySelector("`+selector+`")))`) {
					p.shoot(strings.Join([]string{name, part, theme, strconv.FormatInt(width, 10)}, "-"))
				}
			}
		}
	}
	p.size(1280, 800, false)
}

// TestBreaker_Outage goes through an outage: the page shows a breaker that is open, one that
// tries, and one that is closed again, in the list, at the rule and in the chart.
func TestBreaker_Outage(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil)
	p := open(t, serve(t, b.gate, dashboard.Config{}).url)
	p.until("all rows", names+".length === 3")
	require.False(t, ask[bool](p, `[...document.querySelectorAll(".row .badge, .warning.away")].some((e) => e.checkVisibility())`), "all is well")

	b.away.Store(true)
	badge := bankRow + `.querySelector(".badge.state")`
	p.until("an open breaker in the list", badge+`.textContent === "open" && `+badge+`.checkVisibility()`)
	p.until("a link to it, wherever its row is", `document.querySelector(".warning.away a").hash === "`+ofBank+`"`)
	p.until("words for those who do not see it", `document.querySelector("#announce").textContent === "Open: bank.pay."`)
	p.is(1, `[...document.querySelectorAll(".row .badge")].filter((e) => e.checkVisibility()).length`)
	p.shootAll("outage-list")

	b.hangs.Store(true) // the next probes say nothing
	p.click(".warning.away a")
	p.until("half-open", stateOf+`?.dataset.state === "half-open" && `+stateOf+`.textContent === "half-open"`)
	p.until("why", `/^open → half-open .*(ago|now): .+ · changes: \d+$/.test(document.querySelector(".rule .change").textContent)`)
	p.click(".rule .changes summary")
	p.until("the changes before it, with their numbers", `/^\d\d:\d\d:\d\d: closed → open: \d+ of \d+ calls failed in 5s$/.test(document.querySelector(".rule .changes li:last-child").textContent)`)
	p.until("marks", rateChart+`.querySelector("line.mark[data-state=open]") && `+rateChart+`.querySelector("line.mark[data-state=half-open]")`)
	p.until("what the last one was", `/^\d\d:\d\d:\d\d bank: open → half-open: /.test(`+rateChart+`.querySelector(".marks").textContent)`)
	p.until("the same for those who do not see it", `/\d changes? in it, the last at \d\d:\d\d:\d\d: bank: open → half-open: /.test(`+rateChart+`.querySelector(".unseen").textContent)`)
	p.shootAll("half-open")

	b.away.Store(false)
	b.hangs.Store(false)
	p.until("closed", stateOf+`.dataset.state === "closed"`)
	p.until("words for those who do not see it", `document.querySelector("#announce").textContent === "All that was open is closed again."`)
	p.until("a mark", rateChart+`.querySelector("line.mark[data-state=closed]")`)

	// By keyboard, second by second, the chart says what happened.
	p.do(chromedp.Focus(chromedp.CSS(".chart.wide .plot")))
	said := func() string { return ask[string](p, `document.activeElement.getAttribute("aria-valuetext")`) }
	for range 60 {
		p.press(kb.ArrowLeft)
		if strings.Contains(said(), "closed → open") {
			break
		}
	}
	require.Regexp(t, `^\d\d:\d\d:\d\d: (.+; )?bank: closed → open: \d+ of \d+ calls failed in 5s`, said())
	p.matches(`^bank: closed → open: `, rateChart+`.querySelector(".marks").textContent`)
	p.shoot("marks-read")
	p.press(kb.Escape)
	p.click(".chart.wide summary")
	p.until("changes in the table", `[...`+rateChart+`.querySelectorAll("tbody td.text")].some((c) => c.textContent.startsWith("bank: closed → open: "))`)
	p.click(".chart.wide summary")
	p.shootAll("closed-again")

	ask[bool](p, `location.hash = "#/", true`)
	p.until("all is well", names+`.length === 3 && ![...document.querySelectorAll(".row .badge, .warning.away")].some((e) => e.checkVisibility())`)
}

// lines is a log that tests read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// last returns the fields of the last line.
func (l *lines) last(t *testing.T) (n int, fields map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.text.String()), "\n")
	require.NoError(t, json.Unmarshal([]byte(all[len(all)-1]), &fields), l.text.String())
	return len(all), fields
}

// TestBreaker_Force: who may forces a breaker open, and no further, and says why; the log has it,
// whatever it says, and so has the file that owns the rule.
func TestBreaker_Force(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("breaker:\n  - {id: bank, resource: bank.pay, errorRatio: 0.5, openFor: 1s} # ours\n"), 0o600))
	require.NoError(t, b.gate.LoadRules(leapgate.Rules{}))
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: b.gate, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	log := new(lines)
	p := open(t, serve(t, b.gate, dashboard.Config{
		Authorize: token("open-sesame"), RuleKeepers: []dashboard.RuleKeeper{w}, Logger: slog.New(slog.NewJSONHandler(log, nil)),
	}).url+ofBank)
	p.allowed(`status of 40[01]`)
	closed := `!document.querySelector("dialog")`
	position := `[...document.querySelectorAll(".switch button")].map((b) => b.textContent + "=" + b.getAttribute("aria-pressed")).join()`
	p.until("the switch", position+` === "none=true,open=false,closed=false"`)
	require.Equal(t, "Force", ask[string](p, `document.querySelector(".switch").getAttribute("aria-label")`))
	p.until("closed", stateOf+`.textContent === "closed"`)

	// Without a reason, nothing happens.
	p.click(`.switch [value="open"]`)
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Force bank: open?"`)
	require.Equal(t, "dialog-reason", ask[string](p, "document.activeElement.id"))
	p.press("\r")
	p.until("who asks", `document.activeElement.id === "dialog-token"`)
	p.press("open-sesame\r")
	p.until("what is missing", `document.querySelector("#dialog-reason").getAttribute("aria-invalid") === "true"`)
	p.is("reason is missing; want why force goes from none to open, in up to 500 characters", `document.querySelector("#dialog-reason-fault").textContent`)
	require.Equal(t, "dialog-reason", ask[string](p, "document.activeElement.id"))
	require.Equal(t, breaker.None, b.gate.Rules().Breaker[0].Force)
	p.shootAll("force-without-reason")

	const reason = `<img src=x onerror="document.title='owned'">" who=eve ` + "\u202e𝔘"
	ask[bool](p, `document.querySelector("#dialog-reason").value = `+quote(reason)+`, true`) // no key types all of it
	p.press("\r")
	p.until("forced open", closed+` && `+stateOf+`.textContent === "open" && `+position+` === "none=false,open=true,closed=false"`)
	require.Equal(t, breaker.Open, b.gate.Rules().Breaker[0].Force)
	p.is("force: open", `document.querySelector(".rule .turned").textContent`)
	p.until("words for those who do not see it", `["Force of the rule is open.", "Open: bank.pay."].includes(document.querySelector("#announce").textContent)`)
	p.until("nothing passes", `document.querySelector("#total-pass").textContent === "0"`)
	p.until("the mark", `document.querySelector(".chart.wide .marks").textContent.endsWith("bank: closed → open: forced open by the rule")`)
	_, logged := log.last(t)
	require.Equal(t, []any{"ann", "change", "breaker", "bank"}, []any{logged["who"], logged["action"], logged["kind"], logged["id"]})
	require.Equal(t, strconv.Quote(reason), logged["reason"], "what turns text around is escaped")
	require.Contains(t, logged["to"], `"resource": "bank.pay"`)
	require.Contains(t, logged["to"], `"force": "open"`)
	require.NotContains(t, logged["from"], "force")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(file), "force: open")
	require.Contains(t, string(file), "# ours")
	require.False(t, ask[bool](p, `Boolean(document.querySelector("main img, dialog img"))`))
	require.True(t, strings.HasPrefix(ask[string](p, "document.title"), "bank.pay"))
	p.shootAll("forced-open")

	// A position that it is in already asks nothing; the rules have the same switch.
	p.click(`.switch [value="open"]`)
	require.True(t, ask[bool](p, closed))
	ask[bool](p, `location.hash = "#/rules", true`)
	p.until("the rule", `document.querySelector(".rule .badge.state")?.textContent === "open"`)
	p.shootAll("forced-open-rules")

	// In the form it is the same: no reason, no change; and so it is for who removes the rule.
	p.click(".rule .edit")
	p.until("the form", `document.querySelector("dialog[open]")`)
	p.choose("#rule-force", "closed")
	p.shootAll("form-breaker")
	p.click("dialog button[type=submit]")
	p.until("what is missing", `document.querySelector("#dialog-reason").getAttribute("aria-invalid") === "true"`)
	p.fill("#dialog-reason", "drill")
	p.click("dialog button[type=submit]")
	p.until("forced closed", closed+` && `+position+` === "none=false,open=false,closed=true"`)
	_, logged = log.last(t)
	require.Equal(t, "drill", logged["reason"])
	p.click(".rule .remove")
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Remove bank?"`)
	require.Equal(t, "Cancel", ask[string](p, "document.activeElement.textContent"), "what is pressed twice removes nothing")
	p.click("dialog button[type=submit]")
	p.until("what is missing", `document.querySelector("#dialog-reason-fault").textContent === "reason is missing; want why force goes from closed to none, in up to 500 characters"`)
	p.press(kb.Escape)
	p.until("given up", closed)
	n, _ := log.last(t)

	// And none: it decides by itself again.
	p.click(`.switch [value="none"]`)
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Force bank: none?"`)
	p.press("over\r")
	p.until("not forced", closed+` && `+position+` === "none=true,open=false,closed=false"`)
	after, logged := log.last(t)
	require.Equal(t, n+1, after)
	require.Equal(t, "over", logged["reason"])
	require.Equal(t, breaker.None, b.gate.Rules().Breaker[0].Force)
	ask[bool](p, `location.hash = "`+ofBank+`", true`)
	p.until("closed", stateOf+`?.textContent === "closed" && Number(document.querySelector("#total-pass").textContent) > 20`)
}

// TestBreaker_ForceIsForThoseWhoMay: others see that it is forced, and how, and have no buttons; and
// who is not let reads why.
func TestBreaker_ForceIsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	b := newBank(t, func(r *breaker.Rule) { r.Force = breaker.Open })
	p := open(t, serve(t, b.gate, dashboard.Config{}).url+ofBank)
	p.until("the state", stateOf+`?.textContent === "open" && document.querySelector(".rule .turned").textContent === "force: open"`)
	require.False(t, ask[bool](p, `document.querySelector(".switch").checkVisibility()`))

	nobody := func(*http.Request) (string, error) { return "", errors.New("only at <b>noon</b>") }
	p = open(t, serve(t, b.gate, dashboard.Config{Authorize: nobody}).url+ofBank)
	p.allowed(`status of 403`)
	p.until("the switch", `document.querySelector(".switch button")`)
	p.click(`.switch [value="none"]`)
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Force bank: none?"`)
	p.press("let it\r")
	p.until("why not", `document.querySelector("dialog .refused").textContent === "Nothing was changed: you may not change rules: only at <b>noon</b>"`)
	require.Equal(t, breaker.Open, b.gate.Rules().Breaker[0].Force)
}

// TestBreaker_ServerLostAndBack: what was open is no longer known to be, and what was seen of the
// changes stays in the chart.
func TestBreaker_ServerLostAndBack(t *testing.T) {
	t.Parallel()
	b := newBank(t, func(r *breaker.Rule) { r.OpenFor = time.Hour })
	b.away.Store(true)
	s := serve(t, b.gate, dashboard.Config{})
	p := open(t, s.url+ofBank)
	p.allowed(`ERR_|Failed to load resource`)
	p.until("open", stateOf+`?.textContent === "open"`)
	p.until("its mark", rateChart+`.querySelector("line.mark[data-state=open]")`)
	colour := `getComputedStyle(` + stateOf + `).color`
	red := ask[string](p, colour)
	s.stop()
	p.until("the banner", `document.querySelector("#banner").checkVisibility()`)
	require.NotEqual(t, red, ask[string](p, colour), "nobody knows whether it is")
	p.shoot("open-lost")
	s.start(newBank(t, nil).gate, dashboard.Config{})
	p.until("the state at the other server", `document.querySelector("#connection").dataset.state === "live" && `+stateOf+`.textContent === "closed"`)
	p.is(true, `document.querySelector(".rule .change").hidden`) // that one has never changed
	p.until("the mark of what was seen", rateChart+`.querySelector("line.mark[data-state=open]")`)
	ask[bool](p, `location.hash = "#/", true`)
	p.until("all is well", names+`.length === 3 && ![...document.querySelectorAll(".row .badge")].some((e) => e.checkVisibility())`)
}

// TestBreaker_Form: what means nothing with the behavior that is chosen is not there, what goes
// together stands together, and what must be there is told at its field.
func TestBreaker_Form(t *testing.T) {
	t.Parallel()
	b := newBank(t, nil)
	p := open(t, serve(t, b.gate, dashboard.Config{Authorize: everybody}).url+"#/rules")
	p.allowed(`status of 422`)
	p.until("the buttons", `document.querySelectorAll("button.add").length >= 3`)
	p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("button.add")].find((b) => b.textContent === "Add breaker rule").click()`))
	p.until("the form", `document.querySelector("dialog h2")?.textContent === "Add a breaker rule"`)
	labels := `String([...document.querySelectorAll("dialog .asks label")].filter((l) => l.checkVisibility()).map((l) => l.textContent))`
	require.Equal(t, "ID,Resource,Match,Interval,Least calls,Behavior,Error ratio,Slow ratio,Slow after,Error count,In a row,Open for,Probes,Force,Mode,Reason (optional)", ask[string](p, labels))
	beside := func(one, other string) bool {
		return ask[bool](p, `document.querySelector("#rule-`+one+`").getBoundingClientRect().top === document.querySelector("#rule-`+other+`").getBoundingClientRect().top`)
	}
	require.True(t, beside("slowRatio", "slowAfter") && beside("openFor", "probes") && beside("resource", "match"))
	p.fill("#rule-resource", "a")
	p.click("dialog button[type=submit]")
	p.until("what is missing", `document.querySelector("#rule-errorRatio-fault").textContent === "errorRatio is missing; want more than 0 and at most 1, unless one of slowRatio, errorCount and consecutive is set, or behavior throttle"`)
	require.Equal(t, "rule-errorRatio", ask[string](p, "document.activeElement.id"))
	p.shootAll("form-breaker-fault")
	p.choose("#rule-behavior", "throttle")
	p.until("its fields", labels+` === "ID,Resource,Match,Interval,Least calls,Behavior,K,Force,Mode,Reason (optional)"`)
	p.fill("#rule-k", "1.5")
	p.shootAll("form-throttle")
	p.click("dialog button[type=submit]")
	p.until("added", `!document.querySelector("dialog") && document.querySelectorAll(".rule").length === 2`)
	require.Equal(t, 1.5, b.gate.Rules().Breaker[1].K)
	require.Equal(t, breaker.Throttle, b.gate.Rules().Breaker[1].Behavior)
}

// TestBreaker_Accessibility lets axe-core look at breakers in all states, in both themes and at both
// widths.
func TestBreaker_Accessibility(t *testing.T) {
	t.Parallel()
	axe := axeSource(t)
	b := newBank(t, func(r *breaker.Rule) { r.Ramp = time.Minute })
	p := open(t, serve(t, b.gate, dashboard.Config{Authorize: everybody}).url+ofBank)
	look := p.withAxe(axe)
	lookAll := func(what string) {
		t.Helper()
		for _, theme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 360} {
				p.choose("#theme", theme)
				p.size(width, 800, false)
				look(what + ", " + theme)
			}
		}
	}
	turn := func(force, state string) {
		t.Helper()
		ask[bool](p, `location.hash = "`+ofBank+`", true`)
		p.until("the switch", `document.querySelector(".switch button")`)
		p.click(`.switch [value="` + force + `"]`)
		p.until("the question", `document.querySelector("dialog[open]")`)
		p.press("drill\r")
		p.until(state, `!document.querySelector("dialog") && `+stateOf+`.textContent === "`+state+`"`)
		p.until("its mark", rateChart+`.querySelector("text.mark[data-state=`+state+`]")`)
		lookAll(state)
		ask[bool](p, `location.hash = "#/", true`)
		p.until("the rows", names+`.length === 3`)
		lookAll(state + ", in the list")
	}
	p.until("closed", stateOf+`?.textContent === "closed"`)
	ask[bool](p, `document.querySelectorAll(".as-table").forEach((d) => { d.open = true }), true`)
	lookAll("closed")
	p.click(`.switch [value="open"]`)
	p.until("the question", `document.querySelector("dialog[open]")`)
	lookAll("a reason is wanted")
	p.press(kb.Escape)
	turn("open", "open")
	b.hangs.Store(true)
	turn("none", "half-open")
	b.hangs.Store(false)
	ask[bool](p, `location.hash = "`+ofBank+`", true`)
	p.until("ramping", stateOf+`?.textContent === "ramping"`)
	lookAll("ramping")
}
