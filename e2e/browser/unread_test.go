//go:build e2e

package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
)

// TestUnread_IsNotTakenForNothing: while the rules, or who may edit them, cannot be read although frames
// come, the page says so; and it asks again.
func TestUnread_IsNotTakenForNothing(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	e, err := gate.Entry("a")
	require.NoError(t, err)
	e.Exit()
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: strings.Repeat("W", 1000), Resource: "a", Threshold: 5}}))
	d := dashboard.Handler(gate, dashboard.Config{Logger: quiet(), Authorize: token("open")})
	var good atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !good.Load() && (strings.HasSuffix(r.URL.Path, "/rules") || strings.HasSuffix(r.URL.Path, "/about")) {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		d.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = d.Close() })
	p := open(t, server.URL+"/leapgate/#/rules")
	p.allowed("502")
	p.until("what cannot be read", `document.body.textContent.includes("The rules could not be read.")`)
	require.False(t, ask[bool](p, `["There are no rules", "read-only here"].some((s) => document.querySelector("main").innerText.includes(s))`))
	good.Store(true)
	p.until("the rule", `document.querySelector("main").innerText.includes("WWWW")`)
	p.until("that rules can be changed", `[...document.querySelectorAll(".adds button")].some((b) => b.checkVisibility())`)
	require.False(t, ask[bool](p, `document.body.textContent.includes("could not be read")`))

	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#/resource/a"`))
	p.until("the label of the limit", `!!document.querySelector("text.threshold")`)
	p.is(true, `[...document.querySelectorAll("text.threshold")].every((l) => l.getBBox().x >= 0)`)
}
