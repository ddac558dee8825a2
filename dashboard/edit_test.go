package dashboard_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

// versions returns If-Match for a rule.
func ifMatch(t testing.TB, d http.Handler, kind, id string) []string {
	t.Helper()
	answer, v := ask(t, d, http.MethodGet, "rule?kind="+kind+"&id="+id, "")
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
	require.Equal(t, `"`+v["version"].(string)+`"`, answer.Header.Get("ETag"))
	return []string{"If-Match", answer.Header.Get("ETag")}
}

func TestEdit_AddChangeRemove(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "old", Resource: "a", Threshold: 9})
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))})
	require.Equal(t, map[string]any{
		"title": "Leapgate", "version": 1.0, "capabilities": map[string]any{"edit": true, "keys": true}, "who": "ann", "sources": []any{""}, "hiddenKeys": false, "ruleSources": []any{},
	}, get(t, d, "about"))

	answer, v := ask(t, d, http.MethodPost, "rules?kind=flow", `{"resource": "a", "threshold": 5, "interval": "2s"}`)
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	require.Equal(t, map[string]any{"id": "a/1", "resource": "a", "threshold": 5.0, "interval": "2s", "buckets": 10.0}, v["rule"])
	require.Equal(t, []any{"flow", "a/1", true}, []any{v["kind"], v["id"], v["editable"]})
	version := ifMatch(t, d, "flow", "a/1")
	require.Equal(t, answer.Header.Get("ETag"), version[1])

	answer, v = ask(t, d, http.MethodPut, "rule?kind=flow&id=a/1", `{"resource": "a", "threshold": 5, "interval": "2s", "mode": "shadow"}`, version...)
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
	require.Equal(t, "shadow", v["rule"].(map[string]any)["mode"])
	require.Equal(t, rule.Shadow, g.FlowRules()[1].Mode)
	require.NotEqual(t, version[1], answer.Header.Get("ETag"))

	answer, v = ask(t, d, http.MethodPost, "rules?kind=isolation&source=", `{"id": "few", "match": "default", "maxInFlight": 3}`)
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	require.Equal(t, []isolation.Rule{{ID: "few", Resource: "*", Match: rule.Default, MaxInFlight: 3}}, g.Rules().Isolation)

	answer, _ = ask(t, d, http.MethodDelete, "rule?kind=flow&id=old", "", ifMatch(t, d, "flow", "old")...)
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Len(t, g.FlowRules(), 1)
	answer, _ = ask(t, d, http.MethodDelete, "rule?kind=isolation&id=few", "", "If-Match", "W/"+ifMatch(t, d, "isolation", "few")[1])
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Empty(t, g.Rules().Isolation)

	require.Equal(t, `level=INFO msg="leapgate: rule changed on the dashboard" who=ann action=add kind=flow id=a/1 to="{\"id\": \"a/1\", \"resource\": \"a\", \"threshold\": 5, \"interval\": \"2s\", \"buckets\": 10}"
level=INFO msg="leapgate: rule changed on the dashboard" who=ann action=change kind=flow id=a/1 from="{\"id\": \"a/1\", \"resource\": \"a\", \"threshold\": 5, \"interval\": \"2s\", \"buckets\": 10}" to="{\"id\": \"a/1\", \"resource\": \"a\", \"threshold\": 5, \"interval\": \"2s\", \"buckets\": 10, \"mode\": \"shadow\"}"
level=INFO msg="leapgate: rule changed on the dashboard" who=ann action=add kind=isolation id=few to="{\"id\": \"few\", \"resource\": \"*\", \"match\": \"default\", \"maxInFlight\": 3}"
level=INFO msg="leapgate: rule changed on the dashboard" who=ann action=remove kind=flow id=old from="{\"id\": \"old\", \"resource\": \"a\", \"threshold\": 9, \"interval\": \"1s\", \"buckets\": 10}"
level=INFO msg="leapgate: rule changed on the dashboard" who=ann action=remove kind=isolation id=few from="{\"id\": \"few\", \"resource\": \"*\", \"match\": \"default\", \"maxInFlight\": 3}"
`, log.String())
}

// The state of a rule whose threshold is changed here goes on, as with any loading.
func TestEdit_CountsGoOn(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	g := gates.New(t, c, flow.Rule{ID: "q", Resource: "a", Threshold: 4}, flow.Rule{ID: "r", Resource: "b", Threshold: 4})
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	require.Equal(t, 4, call(t, c, g, "a", 6, 0))
	answer, v := ask(t, d, http.MethodPut, "rule?kind=flow&id=q", `{"resource": "a", "threshold": 5}`, ifMatch(t, d, "flow", "q")...)
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
	require.Equal(t, 1, call(t, c, g, "a", 6, 0))
}

func TestEdit_FaultsAreShownAtTheirFields(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "q", Resource: "a", Threshold: 4})
	require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{ID: "few", Resource: "a", MaxInFlight: 2}}
		return nil
	}))
	before, beforeToo := g.FlowRules(), g.Rules().Isolation
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	version := ifMatch(t, d, "flow", "q")
	for _, tt := range []struct {
		method, path, body string
		want               []string
	}{
		{"POST", "rules?kind=flow", `{"resource": "a", "threshold": -1, "interval": 5, "mode": "maybe", "tresh": 4}`, []string{
			`interval: interval is 5; want a duration such as "250ms", "1s" or "1h30m"; a number has no unit`,
			`mode: mode is "maybe"; want enforce, shadow or off`,
			`tresh: unknown field "tresh"; want one of id, resource, match, origin, threshold, candidate, interval, buckets, strict, behavior, maxWait, strategy, warmUpPeriod, coldFactor, highMemoryThreshold, lowMemory, highMemory, associated, mode`,
			"threshold: threshold is -1; want a finite number of at least 0",
		}},
		{"POST", "rules?kind=flow", `{}`, []string{
			"threshold: threshold is missing; want how many calls are admitted per interval; 0 blocks all",
			"resource: resource is missing; want a name of 1 to 1024 bytes",
		}},
		{"POST", "rules?kind=flow", `{"id": "q", "resource": "a", "threshold": 1}`, []string{`id: id is "q"; want one that no other flow rule has`}},
		{"POST", "rules?kind=flow", `{"resource": "a", "threshold": 1, "warmUpPeriod": "5s"}`, []string{`warmUpPeriod: warmUpPeriod is "5s"; want nothing, it is for strategy warm-up`}},
		{"POST", "rules?kind=flow", `{"resource": "a[", "match": "regexp", "threshold": 1}`, []string{"resource: resource is \"a[\"; want a good regexp: error parsing regexp: missing closing ]: `[`"}},
		{"POST", "rules?kind=flow", `{"resource": "a", "threshold": 1, "threshold": 2}`, []string{`threshold: threshold is there twice`}},
		{"POST", "rules?kind=flow", `{"resource": "a", "threshold": 1, "source": "x"}`, []string{`source: unknown field "source"; want one of id, resource, match, origin, threshold, candidate, interval, buckets, strict, behavior, maxWait, strategy, warmUpPeriod, coldFactor, highMemoryThreshold, lowMemory, highMemory, associated, mode`}},
		{"POST", "rules?kind=isolation", `{"resource": "a", "maxInFlight": 0}`, []string{"maxInFlight: maxInFlight is 0; want 1 to 1000000000"}},
		{"POST", "rules?kind=isolation", `{"resource": "a", "threshold": 5, "maxInFlight": 1}`, []string{`threshold: unknown field "threshold"; want one of id, resource, match, maxInFlight, strategy, minInFlight, initialInFlight, tolerance, maxRT, maxWait, maxQueue, mode`}},
		{"POST", "rules?kind=system", `{"match": "all", "maxCPU": 90, "maxRT": "soon"}`, []string{
			`maxRT: maxRT is "soon"; want a duration such as "250ms", "1s" or "1h30m"`,
			"maxCPU: maxCPU is 90; want more than 0 and at most 1, or 0 for none",
		}},
		{"POST", "rules?kind=system", `{"match": "all", "maxRT": "soon"}`, []string{`maxRT: maxRT is "soon"; want a duration such as "250ms", "1s" or "1h30m"`}},
		{"PUT", "rule?kind=flow&id=q", `{"id": "r", "resource": "a", "threshold": 1}`, []string{`id: id is "r"; want "q" or nothing: a rule keeps its ID`}},
		{"POST", "rules?kind=flow", `[]`, []string{": the body is a list; want an object: a rule"}},
		{"POST", "rules?kind=flow", `null`, []string{": the body is null; want an object: a rule"}},
		{"POST", "rules?kind=flow", `{"resource": "a", "threshold": 1}], "isolation": [{}`, []string{": the body is not JSON: invalid character ']' after top-level value"}},
		{"POST", "rules?kind=flow", `{"resource": "a", "threshold": 1}, {"resource": "b", "threshold": 1}`, []string{": the body is not JSON: invalid character ',' after top-level value"}},
		{"POST", "rules?kind=flow", `{"resource": "a`, []string{": the body is not JSON: unexpected end of JSON input"}},
		{"POST", "rules?kind=flow", " ", []string{": the body is not JSON: unexpected end of JSON input"}},
	} {
		faults, detail := refused(t, d, http.StatusUnprocessableEntity, tt.method, tt.path, tt.body, version...)
		require.Equal(t, tt.want, faults, tt.body)
		for _, fault := range tt.want {
			_, message, _ := strings.Cut(fault, ": ")
			require.Contains(t, detail, message)
		}
	}
	faults, _ := refused(t, d, http.StatusUnprocessableEntity, "POST", "rules?kind=flow", "{\"resource\": \"a\xff\", \"threshold\": 1}")
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "UTF-8")

	// What is said of the query.
	faults, _ = refused(t, d, http.StatusBadRequest, "POST", "rules?kind=hot&source=rules.yaml", `{}`)
	require.Equal(t, []string{`kind: kind is "hot"; want one of flow, isolation, breaker, param, system`, `source: source is "rules.yaml"; want one of the sources that about tells`}, faults)
	refused(t, d, http.StatusBadRequest, "PUT", "rule?kind=flow", `{}`, version...)
	refused(t, d, http.StatusBadRequest, "DELETE", "rule?id=q", "", version...)
	require.Equal(t, before, g.FlowRules())
	require.Equal(t, beforeToo, g.Rules().Isolation)
}

func TestEdit_OnlyWhatWasSeenIsChanged(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "q", Resource: "a", Threshold: 4})
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	seen := ifMatch(t, d, "flow", "q")
	change := `{"resource": "a", "threshold": 7}`
	_, detail := refused(t, d, http.StatusPreconditionRequired, "PUT", "rule?kind=flow&id=q", change)
	require.Contains(t, detail, "If-Match")
	refused(t, d, http.StatusPreconditionRequired, "DELETE", "rule?kind=flow&id=q", "")
	for _, tag := range []string{`"0"`, "*", `"`, strings.Repeat("x", 3000)} {
		refused(t, d, http.StatusPreconditionFailed, "PUT", "rule?kind=flow&id=q", change, "If-Match", tag)
	}

	// The program loads another rule: this one can still be changed. Then it loads this one.
	require.NoError(t, g.LoadFlowRules(append(g.FlowRules(), flow.Rule{Resource: "b", Threshold: 1})))
	require.Equal(t, seen, ifMatch(t, d, "flow", "q"))
	require.NoError(t, setFlow(g, "a", flow.Rule{ID: "q", Threshold: 5}))
	answer, v := ask(t, d, "PUT", "rule?kind=flow&id=q", change, seen...)
	require.Equal(t, http.StatusPreconditionFailed, answer.StatusCode)
	require.Equal(t, 5.0, v["current"].(map[string]any)["rule"].(map[string]any)["threshold"])
	refused(t, d, http.StatusPreconditionFailed, "DELETE", "rule?kind=flow&id=q", "", seen...)
	require.Equal(t, 5.0, g.FlowRules()[1].Threshold)

	require.NoError(t, setFlow(g, "a"))
	refused(t, d, http.StatusNotFound, "PUT", "rule?kind=flow&id=q", change, seen...)
	refused(t, d, http.StatusNotFound, "GET", "rule?kind=flow&id=q", "")
	require.NoError(t, g.Close())
	_, detail = refused(t, d, http.StatusConflict, "POST", "rules?kind=flow", change)
	require.Equal(t, "the gate is closed", detail)
}

func TestEdit_WhoMay(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "q", Resource: "a", Threshold: 4})
	const good = `{"resource": "b", "threshold": 1}`
	every := func(d http.Handler, status int, headers ...string) (detail string) {
		t.Helper()
		for _, request := range [][3]string{{"POST", "rules?kind=flow", good}, {"PUT", "rule?kind=flow&id=q", good}, {"DELETE", "rule?kind=flow&id=q", ""}} {
			_, detail = refused(t, d, status, request[0], request[1], request[2], append([]string{"If-Match", `"x"`}, headers...)...)
		}
		require.Len(t, g.FlowRules(), 1)
		return detail
	}

	// Off by default.
	d := dashboard.Handler(g, dashboard.Config{})
	require.Contains(t, every(d, http.StatusForbidden), "cannot be changed here")
	about := get(t, d, "about")
	require.Equal(t, []any{map[string]any{"edit": false, "keys": false}, []any{}}, []any{about["capabilities"], about["sources"]})
	require.NotContains(t, about, "who")
	require.Equal(t, false, get(t, d, "rule?kind=flow&id=q")["editable"])

	// Not for everybody.
	asked := 0
	d = dashboard.Handler(g, dashboard.Config{Logger: quiet(), Authorize: func(r *http.Request) (string, error) {
		asked++
		switch name, _, _ := r.BasicAuth(); name {
		case "ann":
			return "ann", nil
		case "":
			return "", fmt.Errorf("first of all: %w", dashboard.Challenge(`Basic realm="rules"`))
		default:
			return "", errors.New("only \x07ann may")
		}
	}})
	require.NotContains(t, get(t, d, "about"), "who")
	require.Equal(t, true, get(t, d, "rule?kind=flow&id=q")["editable"])
	require.Contains(t, every(d, http.StatusUnauthorized), "say who you are")
	answer, _ := ask(t, d, "POST", "rules?kind=flow", good)
	require.Equal(t, `Basic realm="rules"`, answer.Header.Get("WWW-Authenticate"))
	require.Equal(t, `you may not change rules: "only \aann may"`, every(d, http.StatusForbidden, "Authorization", "Basic Ym9iOg=="))

	// Not from elsewhere: nobody is even asked.
	asked = 0
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "http://evil.example"},
		{"Origin", "null"},
	} {
		every(d, http.StatusForbidden, append(headers, "Authorization", "Basic YW5uOg==")...)
	}
	require.Zero(t, asked)
	answer, v := ask(t, d, "POST", "rules?kind=flow", good, "Authorization", "Basic YW5uOg==", "Sec-Fetch-Site", "same-origin", "Origin", "http://localhost")
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	require.Len(t, g.FlowRules(), 2)
}

func TestEdit_BodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start))
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	for _, mediaType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json;;", "application/jsonp"} {
		refused(t, d, http.StatusUnsupportedMediaType, "POST", "rules?kind=flow", `{"resource": "a", "threshold": 1}`, "Content-Type", mediaType)
	}
	for _, encoding := range []string{"gzip", "br", "x", "identity, gzip"} {
		_, detail := refused(t, d, http.StatusUnsupportedMediaType, "POST", "rules?kind=flow", `{"resource": "a", "threshold": 1}`, "Content-Encoding", encoding)
		require.Equal(t, "want no Content-Encoding, or identity", detail)
	}
	_, detail := refused(t, d, http.StatusRequestEntityTooLarge, "POST", "rules?kind=flow", `{"resource": "`+strings.Repeat("a", 64<<10))
	require.Equal(t, "want at most 65536 bytes", detail)
	require.Empty(t, g.FlowRules())
	faults, _ := refused(t, d, http.StatusUnprocessableEntity, "POST", "rules?kind=flow", `{"resource": "`+strings.Repeat("a", 10_000)+`", "threshold": 1}`)
	require.Len(t, faults, 1)
	require.Less(t, len(faults[0]), 200, "what is shown is shortened")
	require.NotEmpty(t, faults[0])
	faults, _ = refused(t, d, http.StatusUnprocessableEntity, "POST", "rules?kind=flow", strings.Repeat("[", 60_000))
	require.Len(t, faults, 1)
	faults, _ = refused(t, d, http.StatusUnprocessableEntity, "POST", "rules?kind=flow", `{"resource": "a", "threshold": 1`+strings.Repeat(`, "x": 1`, 7000)+"}")
	require.LessOrEqual(t, len(faults), 101)
	answer, _ := ask(t, d, "POST", "rules?kind=flow", `{"resource": "a", "threshold": 1}`, "Content-Type", "application/json; charset=utf-8", "Content-Encoding", "Identity")
	require.Equal(t, http.StatusCreated, answer.StatusCode)

	answer, _ = ask(t, d, "PATCH", "rule?kind=flow&id=a/1", "{}")
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
	require.Equal(t, "GET, PUT, DELETE, HEAD", answer.Header.Get("Allow"))
}

// Names that nobody should have, in the log and back again.
func TestEdit_NamesOfAllKinds(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	g := gates.New(t, gatetest.ClockAt(start))
	who := "an\x1b[31mn\nlevel=ERROR\xff"
	d := dashboard.Handler(g, dashboard.Config{
		Authorize: func(*http.Request) (string, error) { return who, nil },
		Logger:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NotContains(t, get(t, d, "about")["who"], "\xff")
	for i, name := range oddNames {
		if strings.ToValidUTF8(name, "") != name {
			// Such a rule can only come from the program, and stays as it is.
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: name, Resource: "x", Threshold: 1}}))
			v := list(get(t, d, "rules"), "rules")[0]
			headers := []string{"If-Match", v["version"].(string)}
			refused(t, d, http.StatusConflict, "PUT", "rule?kind=flow&id="+v["raw"].(string), `{"resource": "x", "threshold": 2}`, headers...)
			refused(t, d, http.StatusConflict, "DELETE", "rule?kind=flow&id="+v["raw"].(string), "", headers...)
			require.NoError(t, g.LoadFlowRules(nil))
			continue
		}
		body := jsonOf(t, map[string]any{"id": name, "resource": name, "origin": name, "threshold": i})
		answer, v := ask(t, d, "POST", "rules?kind=flow", body)
		require.Equal(t, http.StatusCreated, answer.StatusCode, v)
		require.Equal(t, name, v["id"])
		answer, v = ask(t, d, "PUT", "rule?kind=flow&id="+query(name), body, ifMatch(t, d, "flow", query(name))...)
		require.Equal(t, http.StatusOK, answer.StatusCode, v)
		require.Equal(t, name, v["rule"].(map[string]any)["origin"])
		answer, _ = ask(t, d, "DELETE", "rule?kind=flow&id="+query(name), "", "If-Match", answer.Header.Get("ETag"))
		require.Equal(t, http.StatusNoContent, answer.StatusCode)
	}
	require.Empty(t, g.FlowRules())
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for _, line := range lines {
		require.True(t, strings.HasPrefix(line, "time="), line)
		require.NotContains(t, line, "\x1b")
		require.NotContains(t, line, "\u202e")
	}
	require.Zero(t, len(lines)%3)
}

// Many operators add one to a threshold, and the program loads rules meanwhile: no edit is
// lost, and none is made of what was not seen.
func TestEdit_Hammer(t *testing.T) {
	t.Parallel()
	const editors, edits = 6, 15
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "sum", Resource: "a", Threshold: 0})
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	var wg sync.WaitGroup
	for editor := range editors {
		wg.Go(func() {
			for done := 0; done < edits; {
				r := httptest.NewRecorder()
				d.ServeHTTP(r, httptest.NewRequest("GET", "http://localhost/api/v1/rule?kind=flow&id=sum", http.NoBody))
				var sum float64
				_, err := fmt.Sscanf(r.Body.String()[strings.Index(r.Body.String(), `"threshold":`):], `"threshold":%f`, &sum)
				if !assert.NoError(t, err) {
					return
				}
				put := httptest.NewRequest("PUT", "http://localhost/api/v1/rule?kind=flow&id=sum", strings.NewReader(fmt.Sprintf(`{"resource": "a", "threshold": %v}`, sum+1)))
				put.Header.Set("Content-Type", "application/json")
				put.Header.Set("If-Match", r.Header().Get("ETag"))
				w := httptest.NewRecorder()
				d.ServeHTTP(w, put)
				if w.Code == http.StatusOK {
					done++
				} else if !assert.Equal(t, http.StatusPreconditionFailed, w.Code, w.Body.String()) {
					return
				}
				// One that comes and goes, and one of the program's.
				post := httptest.NewRequest("POST", "http://localhost/api/v1/rules?kind=isolation", strings.NewReader(`{"resource": "a", "maxInFlight": 9}`))
				post.Header.Set("Content-Type", "application/json")
				w = httptest.NewRecorder()
				d.ServeHTTP(w, post)
				assert.Equal(t, http.StatusCreated, w.Code)
				assert.NoError(t, setFlow(g, "b", flow.Rule{ID: "b", Threshold: float64(done)}))
				assert.NoError(t, g.ReplaceRules(fmt.Sprint("file", editor), leapgate.Rules{Flow: []flow.Rule{{ID: fmt.Sprint("file", editor), Resource: "a", Threshold: 1}}}))
			}
		})
	}
	wg.Wait()
	flows := g.FlowRules()
	require.Len(t, flows, 2+editors)
	for _, r := range flows {
		if r.ID == "sum" {
			require.Equal(t, float64(editors*edits), r.Threshold)
		}
	}
	ids := map[string]bool{}
	for _, r := range g.Rules().Isolation {
		ids[r.ID] = true
	}
	require.Len(t, ids, len(g.Rules().Isolation))
	require.GreaterOrEqual(t, len(ids), editors*edits)
}

// setFlow replaces the flow rules of a resource, and leaves all others.
func setFlow(g *leapgate.Gate, name string, rules ...flow.Rule) error {
	return g.EditRules(func(all *leapgate.Rules) error {
		all.Flow = slices.DeleteFunc(all.Flow, func(r flow.Rule) bool { return r.Resource == name })
		for _, r := range rules {
			r.Resource = name
			all.Flow = append(all.Flow, r)
		}
		return nil
	})
}
