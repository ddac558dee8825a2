//go:build e2e

package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must come. The machine may be loaded.
const patience = time.Minute

// chromium is the browser of all tests. Each opens tabs in it, with storage of their own.
var chromium context.Context // chromedp keeps the browser in it

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(serverRole) != "" {
		os.Exit(serveMany())
	}
	os.Exit(withBrowser(m))
}

func withBrowser(m *testing.M) int {
	path := os.Getenv("CHROMIUM")
	if path == "" {
		path = "/usr/bin/chromium"
	}
	profile, err := os.MkdirTemp("", "leapgate-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(profile)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1, MAP *.internal 127.0.0.1"),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		fmt.Fprintf(os.Stderr, "no browser: %v\nIs %s there? CHROMIUM may name another.\n", err, path)
		return 1
	}
	chromium = ctx //nolint:fatcontext // it is set once
	return m.Run()
}

// A tab is a page that is open.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it

	mu     sync.Mutex // guards what is below
	faults []string   // what the page complained of
	allow  *regexp.Regexp
}

// open opens a page at the size of a desk, unless the options of the emulation say otherwise.
func open(t *testing.T, url string, scripts ...string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			p.heard(m)
		}
	}()
	p.size(1280, 800, false)
	scripts = append(scripts,
		// Violations of the policy are told to the page too, and not all of them to the console.
		`addEventListener("securitypolicyviolation", (e) => console.error("violates " + e.violatedDirective + ": " + e.blockedURI + " " + e.sample))`,
		// What click wants is toClick until it is clicked.
		`addEventListener("click", (e) => { if (window.toClick && e.target.closest(window.toClick)) window.toClick = "" }, {capture: true})`)
	for _, script := range scripts {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		require.NoError(t, err)
	}
	p.do(chromedp.Navigate(url))
	t.Cleanup(func() { // before the tab is closed
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			if p.allow == nil || !p.allow.MatchString(fault) {
				t.Errorf("the page says: %s", fault)
			}
		}
		if t.Failed() {
			p.shoot(strings.ReplaceAll(t.Name(), "/", "_") + "-failed")
		}
	})
	return p
}

// heard notes what a page says, if it is a complaint.
func (p *tab) heard(m chromedp.ConsoleMessage) {
	switch m.Type {
	case chromedp.ConsoleError, chromedp.ConsoleWarning, chromedp.ConsoleException:
	default:
		if m.Source != "security" && m.Source != "violation" {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf("%s %s (%s)", m, m.Source, m.URL))
}

// allowed lets the page complain of what must come: the server that was taken away.
func (p *tab) allowed(pattern string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allow = regexp.MustCompile(pattern)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.fail("%v", err)
	}
}

// fail ends the test, and says what the page looks like.
func (p *tab) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf(format+"\nThe page reads:\n%s", append(args, p.text())...)
}

func (p *tab) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText.slice(0, 3000)"))
	if err != nil {
		return err.Error()
	}
	return text
}

// ask returns the value of an expression in the page.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression to become true. One that throws is not true yet. It asks now
// and then, for the page has no event that tells of all that may be waited for.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	p.repeat(what+"\n"+expression, func() string {
		return ask[string](p, `(() => { try { return (`+expression+`) ? "" : "it is not true" } catch (error) { return String(error) } })()`)
	})
}

// repeat does something until it returns no reason to do it again.
func (p *tab) repeat(what string, do func() (why string)) {
	p.t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) { // between looks at a real browser
		why := do()
		if why == "" {
			return
		}
		if time.Since(began) > patience {
			p.fail("in vain waited for: %s\n%s", what, why)
		}
	}
}

// is waits until an expression has a value. The page draws one answer in several parts.
func (p *tab) is(want any, expression string) {
	p.t.Helper()
	p.until(fmt.Sprint(want), "("+expression+") === "+quote(want))
}

// matches waits until an expression matches a pattern.
func (p *tab) matches(pattern, expression string) {
	p.t.Helper()
	p.until(pattern, "new RegExp("+quote(pattern)+").test("+expression+")")
}

// click clicks an element, and does so again if the element moved away under the mouse.
func (p *tab) click(selector string) {
	p.t.Helper()
	ask[bool](p, "window.toClick = "+quote(selector)+", true")
	p.repeat("a click on "+selector, func() string {
		p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		return ask[string](p, `window.toClick ? "something else was clicked" : ""`)
	})
}

// press presses keys, wherever the focus is.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// fill puts a text where that of a field was.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.do(chromedp.Focus(chromedp.CSS(selector)))
	ask[bool](p, "document.activeElement.select?.(), true")
	if text == "" {
		p.press("\b")
		return
	}
	p.press(text)
}

// choose chooses an option.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	ask[bool](p, fmt.Sprintf(`(() => { const s = document.querySelector(%s); s.value = %s; s.dispatchEvent(new Event("change", {bubbles: true})); return true })()`, quote(selector), quote(value)))
}

// size makes the window so wide and high.
func (p *tab) size(width, height int64, phone bool) {
	p.t.Helper()
	if phone {
		p.do(chromedp.EmulateViewport(width, height, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulateScale(2)))
		return
	}
	p.do(chromedp.EmulateViewport(width, height))
}

// prefers sets what the system of the one who looks says about colours, and about motion.
func (p *tab) prefers(scheme, motion string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}})
	require.NoError(p.t, err)
}

// shoot writes a screenshot of what can be seen, if SCREENSHOTS says where.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), p.image(), 0o644)
	}
	if err != nil {
		p.t.Errorf("no screenshot: %v", err)
	}
}

// image is what can be seen, as a PNG.
func (p *tab) image() []byte {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Errorf("no screenshot: %v", err)
	}
	return image
}

// quote returns a value as a literal of the page's language.
func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
