//go:build e2e

package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// TestClock_ThatBeganJustNow: a gate whose clock is not that of the wall, and has not gone for a
// minute, is drawn like any other.
func TestClock_ThatBeganJustNow(t *testing.T) {
	t.Parallel()
	began := time.Now()
	gate := leapgate.Must(leapgate.Config{Now: func() int64 { return int64(time.Since(began)) }})
	t.Cleanup(func() { _ = gate.Close() })
	s := serve(t, gate, dashboard.Config{})
	p := open(t, s.url)
	p.until("words instead of rows", `document.querySelector(".empty:not([hidden])")?.textContent.includes("No resource yet")`)
	traffic(t, gate, map[string]int{"a": 1})
	p.until("a sparkline", `/^M[\d.]+ [\d.]+h0L/.test(document.querySelector(".row .spark-line.pass")?.getAttribute("d"))`)
	ask[bool](p, `location.hash = "#/resource/a", true`)
	p.until("a chart", `document.querySelector(".chart.wide .line.pass")?.getAttribute("d").includes("L")`)
	p.until("percentiles", `document.querySelectorAll(".chart")[1].querySelector(".line.p99")?.getAttribute("d").includes("L")`)
	require.NotContains(t, ask[string](p, `document.querySelector("main").innerHTML`), "NaN")
}

// TestClock_ThatGoesBack: the server that comes back is at an earlier time, as after its clock was
// set right. What is known of later is forgotten, and the charts go on.
func TestClock_ThatGoesBack(t *testing.T) {
	t.Parallel()
	began := time.Now()
	gateAt := func(ahead time.Duration) *leapgate.Gate {
		gate := leapgate.Must(leapgate.Config{Now: func() int64 { return began.UnixNano() + int64(time.Since(began)+ahead) }})
		t.Cleanup(func() { _ = gate.Close() })
		traffic(t, gate, map[string]int{"a": 1})
		return gate
	}
	s := serve(t, gateAt(time.Hour), dashboard.Config{})
	p := open(t, s.url)
	p.allowed(`ERR_|Failed to load resource`)
	line := `document.querySelector(".row .spark-line.pass")?.getAttribute("d")`
	p.until("a sparkline", `/^M[\d.]+ [\d.]+h0L/.test(`+line+`)`)
	s.stop()
	p.until("the banner", `document.querySelector("#banner").checkVisibility()`)
	s.start(gateAt(0), dashboard.Config{})
	p.until("live", `document.querySelector("#connection").dataset.state === "live"`)
	for range 3 {
		before := ask[string](p, "String("+line+")")
		p.until("a sparkline that moves", "String("+line+") !== "+quote(before))
	}
}
