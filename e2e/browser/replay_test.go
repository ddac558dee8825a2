//go:build e2e

package browser

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// hostileLog is an hour of requests of 60 agents, the first of which are called what nobody should be.
func hostileLog() string {
	agents := []string{
		`<script>document.title='owned'</script>`, `<img src=//elsewhere.example/x onerror=document.title='owned'>`,
		`</script></title></style><svg onload=alert(1)>`, `javascript:alert(1)`, `{{.}}${1}`, strings.Repeat("W", 900), "\u202eturned \u200b",
	}
	var b strings.Builder
	began := time.Date(2024, 5, 20, 9, 0, 0, 0, time.UTC)
	for i := range 6000 {
		agent := fmt.Sprint("agent-", i%60)
		if i%60 < len(agents) {
			agent = agents[i%60]
		}
		for range 1 + 300/(10+i%60*3)*(i/600)/2 {
			path := []string{"/items/%d", "/search?q=%d", "/<script>document.title='owned'<%%2Fscript>/%d", "/" + strings.Repeat("long-", 60) + "%d"}[i%4]
			fmt.Fprintf(&b, "192.0.2.%d - - [%s] \"GET %s HTTP/1.1\" 200 5 \"-\" \"%s\"\n",
				i%60, began.Add(time.Duration(i)*600*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), fmt.Sprintf(path, i), agent)
		}
	}
	return b.String()
}

const replayRules = `flow:
  - {id: search, resource: "GET /search", threshold: 40, interval: 1m}
  - {id: "<b>items</b>", resource: "GET /items/{id}", threshold: 2, interval: 1s, strict: true, mode: shadow}
  - {id: typo, resource: "GET /itmes", threshold: 20, interval: 1m}
limits:
  per-agent: {limit: %d, window: 1m}
`

// TestReplayReport_IsRead opens the reports of leapgate replay as files, wide and narrow, in both themes and
// printed. Nothing that a client sent is more than text there, and nothing is loaded.
func TestReplayReport_IsRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(path(name), []byte(text), 0o600))
		return path(name)
	}
	program := path("leapgate")
	out, err := exec.Command("go", "build", "-o", program, "github.com/leapgate-go/leapgate/cmd/leapgate").CombinedOutput()
	require.NoError(t, err, "%s", out)
	log := write("<img src=x>.log", hostileLog())
	live, rules := write("live.yaml", fmt.Sprintf(replayRules, 30)), write("rules.yaml", fmt.Sprintf(replayRules, 10))
	for name, args := range map[string][]string{
		"report":     {"-rules", rules},
		"comparison": {"-rules", rules, "-against", live},
		"suggestion": {"-suggest", "-window", "1m", "-window", "1h", "-train", "..2024-05-20T09:30:00Z", "-test", "2024-05-20T09:30:00Z.."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			html := path(name + ".html")
			args = append(append([]string{"replay", "-key", "http_user_agent", "-html", html}, args...), log)
			out, err := exec.Command(program, args...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			readReport(t, "file://"+html, name)
		})
	}
}

func readReport(t *testing.T, url, name string) {
	t.Helper()
	p := open(t, "about:blank")
	var mu sync.Mutex
	var requests []string // guarded by mu
	require.NoError(t, chromedp.Listen(p.ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, sent.Request.URL)
		}
	}))
	p.do(chromedp.Navigate(url))
	for _, theme := range []string{"light", "dark"} {
		p.prefers(theme, "no-preference")
		for _, width := range []int64{1440, 390} {
			p.size(width, 900, width < 500)
			p.until("the report", `document.querySelector("h1").textContent && document.querySelectorAll("table").length > 0`)
			require.Equal(t, "What if: rules tried on a log", ask[string](p, "document.title"), "no script of a client has run")
			require.Zero(t, ask[int](p, `document.querySelectorAll("img, iframe, link, [onload], [onerror], svg svg, td b b").length`))
			require.LessOrEqual(t, ask[int64](p, "document.documentElement.scrollWidth"), width, "it is wider than the window")
			require.NotEqual(t, ask[string](p, "getComputedStyle(document.body).color"), ask[string](p, "getComputedStyle(document.documentElement).backgroundColor"))
			for _, at := range []string{"0", "document.querySelector('table').offsetTop - 80", "document.body.scrollHeight"} {
				ask[bool](p, "scrollTo(0, "+at+"), true")
				p.shoot(fmt.Sprintf("replay-%s-%d-%s-%.3s", name, width, theme, at))
			}
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	pdf, err := chromedp.Run(ctx, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4)))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(pdf, []byte("%PDF-")))
	require.Greater(t, bytes.Count(pdf, []byte("/Type /Page\n")), 1, "pages")
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "replay-"+name+".pdf"), pdf, 0o644))
	}
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, requests)
	for _, request := range requests {
		require.Equal(t, url, request, "nothing else is loaded")
	}
}
