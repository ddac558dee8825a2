//go:build e2e

package browser

import (
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
)

// points is how many points the line of a series has, and gaps how many gaps there are in the demand, of
// which the server has every second, however busy the machine is.
func points(series string) string {
	return `(document.querySelector(".chart .line.` + series + `")?.getAttribute("d").match(/[ML]/g) ?? []).length`
}

const gaps = `document.querySelectorAll(".chart.wide rect.gap").length`

// TestReload_LosesNothing: charts begin with what the server has kept, also after a connection that was lost.
func TestReload_LosesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{KeepHistory: true})
	p := open(t, s.url+ofOrders)
	p.allowed(`ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|CONNECTION_RESET|EMPTY_RESPONSE)|Failed to load resource`)
	p.until("some seconds", points("pass")+" > 8 && "+points("p95")+" > 8")
	p.do(chromedp.Reload())
	p.until("as many of them again", points("pass")+" > 8 && "+points("p95")+" > 8 && document.querySelectorAll('.chart .threshold').length > 0")
	p.until("no gap", gaps+" === 0")

	// The connection is lost for a while; the dashboard goes on.
	require.NoError(t, s.http.Close())
	p.until("the banner", `document.querySelector("#banner").checkVisibility()`)
	p.until("a gap that is going on", `document.querySelector(".chart.wide rect.gap")?.width.baseVal.value > 60`)
	listener, err := net.Listen("tcp", s.address)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/leapgate/", s.page)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.http.Serve(listener) }()
	p.until("no banner", `!document.querySelector("#banner").checkVisibility()`)
	p.until("no gap any more", gaps+" === 0")

	p.click(`.choice button[value="hour"]`)
	p.until("the hour", `/in the last hour/.test(document.querySelector(".chart.wide .unseen").textContent) && `+points("pass")+" > 2")
	require.Contains(t, ask[string](p, "location.hash"), "?span=hour")
	p.do(chromedp.Reload())
	p.until("the hour again", `/in the last hour/.test(document.querySelector(".chart.wide .unseen")?.textContent) && `+points("pass")+" > 2")
}

// TestFigures_AreThoseOfTheGenerator: what was sent is what the page shows.
func TestFigures_AreThoseOfTheGenerator(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "a-qps", Resource: "a", Threshold: 50}}))
	p := open(t, serve(t, gate, dashboard.Config{KeepHistory: true}).url+"#/resource/a")
	p.until("live", `document.querySelector("#connection").dataset.state === "live"`)
	var passed, refused int
	for range 5 {
		for range 60 { // at once, so that some are refused however busy the machine is
			e, err := gate.Entry("a")
			if err == nil {
				passed++
			} else {
				refused++
			}
			e.Exit()
		}
		time.Sleep(300 * time.Millisecond) // traffic of a while
	}
	require.Positive(t, refused)
	total := func(name string) string {
		return `Number([...document.querySelectorAll(".panel dt")].find((d) => d.textContent === "` + name + `").nextSibling.textContent.replaceAll(",", ""))`
	}
	p.until("its totals", total("Pass")+" === "+strconv.Itoa(passed)+" && "+total("Block")+" === "+strconv.Itoa(refused))
	p.until("the demand as one", `/^wanted \d/.test(document.querySelector(".chart.wide .key.sum").textContent)`)
	p.click(`.chart.wide summary`)
	sum := func(column string) string {
		return `[...document.querySelectorAll(".chart.wide tbody td:nth-child(` + column + `)")].reduce((sum, c) => sum + (Number(c.textContent) || 0), 0)`
	}
	p.until("its seconds", sum("2")+" === "+strconv.Itoa(passed)+" && "+sum("3")+" === "+strconv.Itoa(refused))
}

// TestGauge_OfALongWindow: a rule for a day is no line of so few a second.
func TestGauge_OfALongWindow(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{
		{ID: "a-day", Resource: "a", Threshold: 1000, Interval: 24 * time.Hour}, {ID: "a-second", Resource: "a", Threshold: 1000},
	}))
	for range 610 {
		e, err := gate.Entry("a")
		require.NoError(t, err)
		e.Exit()
	}
	s := serve(t, gate, dashboard.Config{})
	p := open(t, s.url+"#/resource/a")
	p.until("the gauge", `document.querySelector(".gauges").innerText.replace(/\s+/g, " ").startsWith("a-day, 24 h: 610 of 1,000 in this window, 61 %")`)
	p.is("610", `document.querySelector(".gauges [role=meter]").ariaValueNow`)
	drawn := ask[string](p, `document.querySelector(".chart.wide").textContent`)
	require.Contains(t, drawn, "a-second 1,000/s")
	require.NotContains(t, drawn, "a-day 1,000 in 24 h")
	ask[bool](p, `location.hash = "#/rule/flow/a-day", true`)
	p.until("it is on its own page too", `document.querySelector(".gauge-text")?.textContent === "610 of 1,000 in this window, 61 %"`)
}
