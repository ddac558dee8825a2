//go:build e2e

package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/limit"
)

// What a page of an attacker tries when its name has come to lead to the dashboard: to the browser,
// they are one and the same site.
const attack = `(async () => {
	const found = [];
	for (const path of ["", "app.js", "api/v1/about", "api/v1/resources", "api/v1/rules", "api/v1/limiters", "api/v1/resource?name=secret", "api/v1/events"]) {
		const answer = await fetch("/leapgate/" + path);
		found.push(answer.status);
		if (path.endsWith("events")) { answer.body.cancel(); continue; }
		if ((await answer.text()).includes("secret")) found.push("secret");
	}
	const change = await fetch("/leapgate/api/v1/rules?kind=flow", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"resource": "x", "threshold": 0}'});
	return String([...found, change.status]);
})()`

// overPlainHTTP is what a browser complains of where there is neither TLS nor localhost.
const overPlainHTTP = `Cross-Origin-Opener-Policy header has been ignored`

// TestRebinding leads the name of an attacker's page to the dashboard, as DNS can, while the page is open
// in a browser that can reach it. What the page asks for then is refused.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		hosts      []string
		rules      int
	}{
		{"refused", "421,421,421,421,421,421,421,421,421", nil, 1},
		{"let in by a program that wants no check", "200,200,200,200,secret,200,secret,200,200,secret,200,201", []string{"*"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gate := leapgate.Must(leapgate.Config{})
			t.Cleanup(func() { _ = gate.Close() })
			require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "secret", Threshold: 5}}))
			gate.Resource("secret")
			page, err := dashboard.New(gate, dashboard.Config{Hosts: tt.hosts, Authorize: everybody, Logger: quiet()})
			require.NoError(t, err)
			var rebound atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if rebound.Load() {
					page.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, `<link rel="icon" href="data:,"><p>Win a prize!</p>`)
			}))
			t.Cleanup(func() {
				_ = page.Close()
				server.Close()
			})
			at, err := url.Parse(server.URL)
			require.NoError(t, err)
			p := open(t, fmt.Sprintf("http://prize.attacker.example:%s/", at.Port()))
			p.allowed(`status of 421`)
			p.until("the page of the attacker", `document.body.innerText.includes("Win a prize!")`)
			rebound.Store(true)
			require.Equal(t, tt.want, ask[string](p, attack))
			require.Len(t, gate.FlowRules(), tt.rules)
		})
	}
}

// TestHost_OverPlainHTTP uses the page under a name of a private network, where browsers do not tell from
// what site a request comes, but tell the origin of changes.
func TestHost_OverPlainHTTP(t *testing.T) {
	t.Parallel()
	gate := newShop(t)
	s := serve(t, gate, dashboard.Config{Authorize: everybody})
	own := strings.Replace(s.url, "127.0.0.1", "gate.shop.internal", 1)
	p := open(t, own+"#/rules")
	p.allowed(overPlainHTTP)
	p.until("live", `document.querySelector("#connection").dataset.state === "live"`)
	p.click(".rule .edit")
	p.until("the form", `document.querySelector("dialog[open]")`)
	p.fill("#rule-threshold", "70")
	p.click("dialog button[type=submit]")
	p.until("saved", `!document.querySelector("dialog")`)
	require.Equal(t, 70.0, gate.FlowRules()[0].Threshold)

	// A page of another origin: it reads nothing, and changes nothing.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<link rel="icon" href="data:,"><p>Elsewhere</p>`)
	}))
	t.Cleanup(other.Close)
	p = open(t, strings.Replace(other.URL, "127.0.0.1", "other.shop.internal", 1))
	p.allowed(`CORS|ERR_|status of 4|blocked`)
	for _, mode := range []string{"cors", "no-cors"} {
		for _, path := range []string{"api/v1/resources", "api/v1/limiters", "app.js"} {
			require.Regexp(t, "^TypeError|^opaque 0 0$", ask[string](p, fmt.Sprintf(
				`fetch(%q, {mode: %q}).then(async (r) => r.type + " " + r.status + " " + (await r.text()).length, String)`, own+path, mode)))
		}
		require.Regexp(t, "^TypeError|^opaque 0$", ask[string](p, fmt.Sprintf(
			`fetch(%q, {mode: %q, method: "POST", body: '{"resource": "x", "threshold": 0}'}).then((r) => r.type + " " + r.status, String)`, own+"api/v1/rules?kind=flow", mode)))
	}
	require.Len(t, gate.FlowRules(), 2)
}

// TestHost_NotNamed: who opens the page under another name reads what to do.
func TestHost_NotNamed(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{})
	p := open(t, strings.Replace(s.url, "127.0.0.1", "gate.example", 1))
	p.allowed(overPlainHTTP + `|status of (421|404)`)
	p.until("what to do", `document.body.innerText.includes("name it in Config.Hosts")`)
	named := serve(t, newShop(t), dashboard.Config{Hosts: []string{"gate.example"}})
	p = open(t, strings.Replace(named.url, "127.0.0.1", "gate.example", 1))
	p.allowed(overPlainHTTP + `|status of 404`)
	p.until("live", `document.querySelector("#connection").dataset.state === "live"`)
}

// TestKeys_AreShownToWhoSaysWhoHeIs: others see hashes, and are told so.
func TestKeys_AreShownToWhoSaysWhoHeIs(t *testing.T) {
	t.Parallel()
	logins, err := limit.NewCounter(limit.Config{Name: "logins", Limit: 1, Window: time.Minute, Offenders: 20})
	require.NoError(t, err)
	for range 3 {
		_, err := logins.Allow(t.Context(), "192.0.2.7")
		require.NoError(t, err)
	}
	gate := newShop(t)
	limiters := []dashboard.Limiter{logins}
	p := open(t, serve(t, gate, dashboard.Config{Authorize: token("open-sesame"), Limiters: limiters}).url+"#/limiters")
	p.allowed(`status of 401`)
	first := `document.querySelector(".frequent th").textContent`
	p.until("a hash", `/^key-[0-9a-f]{16}$/.test(`+first+`)`)
	p.until("why", `document.querySelector(".note").textContent.includes("are shown as hashes to those who may not change rules")`)
	p.shoot("keys-hidden")
	p.click("#show-keys")
	p.until("the question", `document.querySelector("dialog h2")?.textContent === "Show keys"`)
	p.click("dialog button[type=submit]")
	p.until("words about who asks", `document.querySelector("dialog .refused").textContent === "They stay hidden: the server wants to know who you are."`)
	p.press("wrong\r")
	p.until("words about the token", `document.querySelector("dialog .refused").textContent.includes("does not know this token")`)
	p.shoot("keys-dialog")
	p.fill("#dialog-token", "open-sesame")
	p.click("dialog button[type=submit]")
	p.until("the key", first+` === "192.0.2.7"`)
	require.False(t, ask[bool](p, `document.querySelector("#show-keys").checkVisibility() || document.querySelector("#banner").checkVisibility()`))
	p.until("words for those who do not see it", `document.querySelector("#announce").textContent === "The keys are shown."`)
	p.shoot("keys-shown")

	closed := open(t, serve(t, gate, dashboard.Config{Limiters: limiters}).url+"#/limiters")
	closed.until("a hash", `/^key-[0-9a-f]{16}$/.test(`+first+`)`)
	closed.until("why", `document.querySelector(".note").textContent === "Keys, which may tell who a client is, are shown as hashes here."`)
	require.False(t, ask[bool](closed, `document.querySelector("#show-keys").checkVisibility()`))
}

// TestAttempts_TooMany: who tried too often reads how long to wait.
func TestAttempts_TooMany(t *testing.T) {
	t.Parallel()
	s := serve(t, newShop(t), dashboard.Config{Authorize: token("open-sesame")})
	p := open(t, s.url+"#/rules")
	p.allowed(`status of (401|429)`)
	for i := range 10 {
		require.Equal(t, 401, ask[int](p, fmt.Sprintf(`fetch("api/v1/who", {headers: {Authorization: "Bearer guess %d"}}).then((r) => r.status)`, i)))
	}
	p.click(".rule .remove")
	p.click("dialog button[type=submit]")
	p.until("the reason", `/^Nothing was changed: too many failed attempts from your address; try again in \d+ s$/.test(document.querySelector("dialog .refused").textContent)`)
	p.until("the figures, which everybody may see", `document.querySelector("#connection").dataset.state === "live"`)
}
