//go:build e2e

package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/load"
)

// TestLoad_IsSeenWithItsBounds: nothing of the load is there before it is known; then its signals are lines,
// with the bounds of system rules.
func TestLoad_IsSeenWithItsBounds(t *testing.T) {
	t.Parallel()
	var given load.Given
	gate := leapgate.Must(leapgate.Config{Load: &given})
	t.Cleanup(func() { _ = gate.Close() })
	traffic(t, gate, map[string]int{"GET /orders": 5})
	const rules = `{"version": "1", "rules": [
		{"kind": "system", "id": "busy", "version": "1", "summary": "s", "rule": {"id": "busy", "resource": "*", "maxCPU": 0.9, "maxSchedLatency": "1s500ms"}},
		{"kind": "system", "id": "tried", "version": "1", "summary": "s", "rule": {"id": "tried", "resource": "*", "mode": "shadow", "maxCPU": 0.5}},
		{"kind": "system", "id": "idle", "version": "1", "summary": "s", "rule": {"id": "idle", "resource": "*", "mode": "off", "maxCPU": 0.1}},
		{"kind": "flow", "id": "f", "version": "1", "summary": "s", "rule": {"id": "f", "resource": "a", "maxCPU": 0.3}}]}`
	page := dashboard.Handler(gate, dashboard.Config{Logger: quiet()})
	mux := http.NewServeMux()
	mux.Handle("/leapgate/", page)
	mux.HandleFunc("GET /leapgate/api/v1/rules", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, rules)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		_ = page.Close()
		server.Close()
	})
	p := open(t, server.URL+"/leapgate/")
	p.until("figures", `document.querySelectorAll(".table .row").length > 0`)
	require.True(t, ask[bool](p, `document.querySelector(".load").hidden`), "it is not measured")

	given.Set(load.Signals{CPU: load.Known(0.5)})
	p.until("of the shares, the one that is known", `[...document.querySelectorAll(".load .chart:first-child .key")].filter((e) => e.checkVisibility()).map((e) => e.textContent).join() === "CPU 50 %"`)
	given.Set(load.Signals{
		CPU: load.Known(0.75), Throttled: load.Known(0), Pressure: load.Known(0.4), SchedLatency: load.Known(0.0125),
		Processors: 0.5,
	})
	p.until("the signals", `document.querySelector(".load summary").textContent.includes("throttled")`)
	require.Equal(t, "Load CPU 75 % of 0.5 processors · throttled 0 % · pressure 40 % · scheduling latency 13 ms",
		ask[string](p, `document.querySelector(".load summary").textContent`))
	p.until("the bounds", `document.querySelectorAll(".load text.threshold").length === 2`)
	require.Equal(t, []string{"busy: CPU 90 %", "tried: CPU 50 %"},
		ask[[]string](p, `[...document.querySelectorAll(".load text.threshold")].map((e) => e.textContent).sort()`))
	p.is(1, `document.querySelectorAll(".load text.threshold.shadow").length`)
	p.is("Above the chart: busy: scheduling latency 1.5 s", `document.querySelectorAll(".load .beyond")[1].textContent`)
	p.is("75 % 0 % 40 %", `[...document.querySelectorAll(".load .chart:first-child .key b")].map((e) => e.textContent).join(" ")`)
	p.shoot("load")
	look := func(string) {}
	if os.Getenv("AXE") != "" {
		look = p.withAxe(axeSource(t))
	}
	look("load, light")
	p.size(360, 800, true)
	p.prefers("dark", "reduce")
	p.until("no wider than the window", `document.documentElement.scrollWidth <= innerWidth`)
	look("load, dark")
	p.shoot("load-phone-dark")
	p.size(1280, 800, false)

	p.click(".load summary")
	p.until("folded", `!document.querySelector(".load").open`)
	given.Set(load.Signals{CPU: load.Known(1.02)})
	p.until("the figures all the same", `document.querySelector(".load summary").textContent === "Load CPU 102 %"`)
	given.Set(load.Signals{})
	p.until("gone, for nothing is known any more", `document.querySelector(".load").hidden`)
}
