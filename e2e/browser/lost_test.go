//go:build e2e

package browser

import (
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// TestServer_LostAndBack takes the server away while a resource is looked at. The page says so,
// counts down, leaves a gap in the charts, and goes on by itself with the server that comes.
func TestServer_LostAndBack(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{})
	p := open(t, s.url+"#/resource/GET%20%2Forders")
	p.allowed(`ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|CONNECTION_RESET|EMPTY_RESPONSE)|Failed to load resource`)
	chart := `document.querySelector(".chart.wide")`
	p.until("a chart", chart+`?.querySelector(".line.pass")?.getAttribute("d").includes("L")`)
	p.until("live", `document.querySelector("#connection").dataset.state === "live"`)

	s.stop()
	p.until("the banner", `document.querySelector("#banner").checkVisibility()`)
	p.until("a countdown", `/Next try in \d+ s\./.test(document.querySelector("#banner-when").textContent)`)
	p.until("words for those who do not see it", `document.querySelector("#announce").textContent.startsWith("Connection lost.")`)
	p.shoot("lost")
	p.until("a gap that is going on", chart+`.querySelector("rect.gap")?.width.baseVal.value > 20`)

	s.start(newShop(t), dashboard.Config{})
	p.until("no banner", `!document.querySelector("#banner").checkVisibility()`)
	p.until("live", `document.querySelector("#connection").dataset.state === "live"`)
	p.until("the figures of the new server, after the gap", `(() => {
		const known = [...`+chart+`.querySelector(".line.pass").getAttribute("d").matchAll(/M/g)].length;
		return known >= 2 && `+chart+`.querySelectorAll("rect.gap").length === 1 })()`)
	p.until("words for those who do not see it", `document.querySelector("#announce").textContent === "Connection is back."`)
	p.shoot("gap")
}

// TestServer_FullOfViewers: the page says why it gets nothing, and comes in when there is room.
func TestServer_FullOfViewers(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	s := serve(t, gate, dashboard.Config{MaxViewers: 1})
	first := open(t, s.url)
	first.until("live", `document.querySelector("#connection").dataset.state === "live"`)
	second := open(t, s.url)
	second.allowed(`503`)
	second.until("the reason", `document.querySelector("#banner-what").textContent === "The server says: no place is left: at most 1 may watch."`)
	first.do(navigateAway)
	second.click("#banner-retry")
	second.until("live", `document.querySelector("#connection").dataset.state === "live"`)
}

// TestServer_AwayBehindAProxy: a 503 of somebody else is nothing that the server says.
func TestServer_AwayBehindAProxy(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	page := dashboard.Handler(gate, dashboard.Config{})
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.HandleFunc("/api/v1/events", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<h1>no upstream</h1>", http.StatusServiceUnavailable)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	p := open(t, "http://"+listener.Addr().String())
	p.allowed(`503`)
	p.until("the reason", `document.querySelector("#banner-what").textContent`)
	require.Equal(t, "The server answers 503.", ask[string](p, `document.querySelector("#banner-what").textContent`))
}
