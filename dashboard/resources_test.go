package dashboard_test

import (
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

func names(v map[string]any) (names []string) {
	for _, r := range list(v, "resources") {
		names = append(names, r["name"].(string))
	}
	return names
}

func TestResources_FilteredAndLimited(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	g := gates.New(t, c, flow.Rule{Resource: "c", Threshold: 1})
	call(t, c, g, "a", 3, 8*time.Millisecond)
	call(t, c, g, "b", 5, 2*time.Millisecond)
	call(t, c, g, "c", 4, 4*time.Millisecond)
	call(t, c, g, "GET /Orders", 1, time.Millisecond)
	held, err := g.Entry("b")
	require.NoError(t, err)
	defer held.Exit()
	d := dashboard.Handler(g, dashboard.Config{})

	for query, want := range map[string]string{
		"":                     "GET /Orders a b c",
		"?limit=2":             "GET /Orders a",
		"?filter=ORDERS":       "GET /Orders",
		"?filter=nobody":       "",
		"?filter=%2Fo&limit=7": "GET /Orders",
	} {
		v := get(t, d, "resources"+query)
		require.Equal(t, want, strings.Join(names(v), " "), query)
		require.Equal(t, 4.0, v["total"])
	}
	v := get(t, d, "resources?filter=C&limit=1")
	require.Equal(t, []any{1.0, "2023-11-14T22:13:20.015Z"}, []any{v["matched"], v["at"]})
	require.Equal(t, map[string]any{
		"name": "c", "passQPS": 1.0, "blockQPS": 3.0, "successQPS": 1.0, "exceptionQPS": 0.0, "avgRT": 4.0, "minRT": 4.0,
		"p50": 4.075, "p95": 4.075, "p99": 4.075, "concurrency": 0.0, "waiting": 0.0, "waits": 0.0, "waitTime": 0.0, "waitP50": 0.0, "waitP95": 0.0, "waitP99": 0.0, "pass": 1.0, "block": 3.0, "success": 1.0, "exception": 0.0,
		"occupiedPass": 0.0, "wouldBlock": 0.0, "ignored": 0.0, "maxConcurrency": 1.0, "rules": 1.0,
	}, list(v, "resources")[0])

	faults, _ := refused(t, d, http.StatusBadRequest, http.MethodGet, "resources?limit=0&filter=a&filter=b&page=2", "")
	require.Equal(t, []string{
		"filter: filter is 2 values; want one",
		"page: unknown parameter \"page\"; want one of filter, limit",
		"limit: limit is \"0\"; want 1 to 100000",
	}, faults)
	for _, query := range []string{"?limit=1e9", "?limit=100001", "?limit=", "?limit=99999999999999999999", "?a;b", "?%zz=1", "?" + strings.Repeat("x", 5000)} {
		_, detail := refused(t, d, http.StatusBadRequest, http.MethodGet, "resources"+query, "")
		require.Less(t, len(detail), 500)
	}
	require.Equal(t, []string{}, append([]string{}, names(get(t, dashboard.Handler(gates.New(t, c), dashboard.Config{}), "resources"))...))
}

// oddNames are names that ought to break something.
var oddNames = []string{
	"GET /orders?x=1&y=2#z", "../../etc", ".", "..", "a//b", "%2F", "a+b c", "<script>alert(1)</script>", `"quoted" \ back`,
	"line\nbreak\r\n\r\ndata: x\n\nevent: y", "\x00\x1b[31m", "\u2028\u2029\u202e", "日本語 🚦", "\xff\xfe", "a\xffb", "\ufffd", "\xed\xa0\x80",
	strings.Repeat("x", 1024), strings.Repeat("\xff", 1024), "null", "{}", "'; DROP TABLE", " ", "api/v1/events",
}

func TestResource_NamesOfAllKinds(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	g := gates.New(t, c)
	for i, name := range oddNames {
		require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
			all.Flow = append(all.Flow, flow.Rule{Resource: name, Threshold: float64(i)})
			all.Isolation = append(all.Isolation, isolation.Rule{Resource: name, MaxInFlight: int64(i + 1)})
			return nil
		}))
		call(t, c, g, name, i+1, 0)
	}
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	queryOf := func(v map[string]any, field string) string {
		if raw, ok := v["raw"].(string); ok {
			return raw
		}
		return url.QueryEscape(v[field].(string))
	}
	all := list(get(t, d, "resources"), "resources")
	require.Len(t, all, len(oddNames))
	seen := map[string]bool{}
	for _, v := range all {
		one := get(t, d, "resource?name="+queryOf(v, "name"))
		require.Equal(t, v["name"], one["name"])
		require.Equal(t, v["pass"], one["pass"])
		name, err := url.QueryUnescape(queryOf(v, "name"))
		require.NoError(t, err)
		require.Contains(t, oddNames, name)
		require.Equal(t, strings.ToValidUTF8(name, "") != name, v["raw"] != nil, "%q", name)
		seen[name] = true
		for _, rule := range list(one, "rules") {
			same := get(t, d, "rule?kind="+rule["kind"].(string)+"&id="+queryOf(rule, "id"))
			require.Equal(t, rule["rule"], same["rule"])
			require.Equal(t, rule["version"], same["version"])
			require.Equal(t, rule["raw"] == nil, same["editable"], "what is not UTF-8 cannot be sent back")
		}
	}
	require.Len(t, seen, len(oddNames))
	require.Len(t, list(get(t, d, "rules"), "rules"), 2*len(oddNames))
}

func TestResource_NothingIsRegisteredByAsking(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start))
	d := dashboard.Handler(g, dashboard.Config{})
	for _, name := range []string{"unknown", "", strings.Repeat("x", 3000), "%FF"} {
		refused(t, d, http.StatusNotFound, http.MethodGet, "resource?name="+name, "")
	}
	require.Empty(t, g.Snapshot())
	faults, _ := refused(t, d, http.StatusBadRequest, http.MethodGet, "resource", "")
	require.Equal(t, []string{"name: name is missing; want the name of a resource"}, faults)
	// The resource that keeps what has no place is there.
	require.Equal(t, 0.0, get(t, d, "resource?name=other")["pass"])
}

func TestResource_HistoryRulesAndLastRefusals(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	g := gates.New(t, c,
		flow.Rule{ID: "qps", Resource: "a", Threshold: 3},
		flow.Rule{ID: "cold", Resource: "a", Threshold: 90, Strategy: flow.WarmUp, WarmUpPeriod: time.Minute},
		flow.Rule{ID: "every", Resource: "*", Match: rule.Glob, Threshold: 2, Mode: rule.Shadow, Candidate: 1, Interval: 2 * time.Second, Source: "rules.yaml"},
		flow.Rule{ID: "elsewhere", Resource: "b", Threshold: 1})
	require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{ID: "few", Resource: "a", MaxInFlight: 5}}
		return nil
	}))
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})

	call(t, c, g, "a", 3, 20*time.Millisecond)
	_, err := g.EntryContext(t.Context(), "a", leapgate.WithOrigin("mo\xffbile\n"))
	require.Error(t, err)
	c.Advance(2 * time.Second)
	_, err2 := g.EntryContext(t.Context(), "a", leapgate.WithCount(6))
	require.Error(t, err2)
	call(t, c, g, "a", 2, 0)

	v := get(t, d, "resource?name=a")
	history := list(v, "history")
	require.Len(t, history, 61)
	require.Equal(t, map[string]any{"pass": 3.0, "block": 1.0, "success": 3.0, "exception": 0.0, "avgRT": 20.0, "maxConcurrency": 3.0}, history[58])
	require.Equal(t, []any{0.0, 2.0, 6.0}, []any{history[59]["pass"], history[60]["pass"], history[60]["block"]})

	rules := list(v, "rules")
	require.Len(t, rules, 4)
	require.Equal(t, []any{"qps", "cold", "every", "few"}, []any{rules[0]["id"], rules[1]["id"], rules[2]["id"], rules[3]["id"]})
	require.Equal(t, map[string]any{"id": "qps", "resource": "a", "threshold": 3.0, "interval": "1s", "buckets": 10.0}, rules[0]["rule"])
	require.Equal(t, true, rules[0]["editable"])
	require.Equal(t, []any{false, "rules.yaml"}, []any{rules[2]["editable"], rules[2]["source"]})
	figures := func(i int) map[string]any { return rules[i]["figures"].(map[string]any) }
	last := func(i int) map[string]any { return figures(i)["lastRefusal"].(map[string]any) }
	require.Equal(t, err2.Error(), last(0)["reason"])
	require.Equal(t, map[string]any{
		"at": "2023-11-14T22:13:22.020Z", "origin": "", "observed": 6.0, "threshold": 3.0, "retryAfter": 0.0, "reason": `flow rule "qps" on "a": 6 of 3 in 1s`,
	}, last(0))
	require.Equal(t, []any{90.0, true}, []any{figures(1)["threshold"], figures(1)["effective"].(float64) < 90})
	require.Equal(t, []any{"shadow", 2000.0, 2.0, 1.0}, []any{figures(2)["mode"], figures(2)["interval"], figures(2)["threshold"], figures(2)["candidate"]})
	require.NotContains(t, figures(2), "lastRefusal")
	require.Equal(t, []any{0.0, 5.0}, []any{figures(3)["interval"], figures(3)["threshold"]})

	// The words of a refusal are those that the caller got, whatever the rule is now.
	c.Advance(time.Second)
	_, err = g.EntryContext(t.Context(), "a", leapgate.WithOrigin("mo\xffbile\n"), leapgate.WithCount(4))
	require.Error(t, err)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "qps", Resource: "a", Threshold: 8}}))
	rules = list(get(t, d, "resource?name=a"), "rules")
	require.Equal(t, 8.0, figures(0)["threshold"])
	require.Equal(t, []any{err.Error(), 3.0, "mo\ufffdbile\n"}, []any{last(0)["reason"], last(0)["threshold"], last(0)["origin"]})
}

// strange is a guard that a program brings, with figures of all kinds.
type strange struct{ cause resource.Cause }

func (s *strange) Kind() string { return "strange" }
func (s *strange) Bind(string, []resource.Check) ([]resource.Check, bool) {
	return []resource.Check{s}, false
}
func (s *strange) Cause() *resource.Cause { return &s.cause }
func (s *strange) Mode() rule.Mode        { return rule.Enforce }

func (s *strange) Stage() resource.Stage                                      { return resource.Counting }
func (s *strange) Interval() time.Duration                                    { return 0 }
func (s *strange) Reserve(_, _ int64, _ resource.Caller) (v resource.Verdict) { return v }
func (s *strange) Refund(resource.Ticket, int64)                              {}
func (s *strange) Wait(_, _ int64, _ resource.Caller) time.Duration           { return 0 }
func (s *strange) Snapshot(int64) stat.RuleSnapshot {
	return stat.RuleSnapshot{
		ID: "st\xffrange", Kind: "strange", Mode: 77, Threshold: math.NaN(), Effective: math.Inf(1), Candidate: 1e300, Interval: math.MaxInt64,
		Admitted: math.MinInt64, LastRefusal: stat.Refusal{At: time.Unix(1<<40, 0), Observed: math.Inf(-1), Threshold: math.NaN(), RetryAfter: math.MinInt64},
	}
}

// All times are of one clock, the gate's, which need not be that of the wall: a chart is drawn
// from when the dashboard was made, and a frame without resources comes before those with.
func TestTimes_AreOfTheGatesClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := new(gatetest.Clock)
		c.Advance(5 * time.Second)
		g := gates.New(t, c)
		d := dashboard.Handler(g, dashboard.Config{})
		const at = "1970-01-01T00:00:05.000Z"
		require.Equal(t, at, get(t, d, "resources")["at"])
		client, _ := serve(t, d)
		require.Equal(t, at, watch(t, client).next().At.Format("2006-01-02T15:04:05.000Z"))
		call(t, c, g, "a", 1, time.Second)
		a := get(t, d, "resource?name=a")
		require.Equal(t, []any{at, "1970-01-01T00:00:06.000Z"}, []any{a["started"], a["at"]})
	})
}

func TestResource_ShowsTheStateOfARule(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	state := resource.NewState("closed", "open")
	g := leapgate.Must(leapgate.Config{Now: c.Now, Guards: []resource.Guard{&strange{cause: resource.Cause{State: state}}}})
	d := dashboard.Handler(g, dashboard.Config{})
	call(t, c, g, "a", 1, 0)
	figures := func() map[string]any {
		return list(get(t, d, "resource?name=a"), "rules")[0]["figures"].(map[string]any)
	}
	f := figures()
	require.Equal(t, []any{"closed", []any{"closed", "open"}, 0.0, []any{}}, []any{f["state"], f["states"], f["changes"], f["lastChanges"]})
	require.NotContains(t, f, "since")

	state.Set(c.Now(), "open", "<b>20 of 20\xff</b>")
	c.Advance(time.Second)
	f = figures()
	require.Equal(t, []any{"open", "2023-11-14T22:13:20.000Z", 1.0}, []any{f["state"], f["since"], f["changes"]})
	require.Equal(t, []any{map[string]any{
		"at": "2023-11-14T22:13:20.000Z", "from": "closed", "to": "open", "reason": "<b>20 of 20?</b>",
	}}, f["lastChanges"])

	g = gates.New(t, c, flow.Rule{Resource: "a", Threshold: 1})
	d = dashboard.Handler(g, dashboard.Config{})
	for _, field := range []string{"state", "states", "since", "changes", "lastChanges"} {
		require.NotContains(t, figures(), field)
	}
}

// Whatever a guard of the program says, answers and frames are JSON.
func TestResource_FiguresThatAreNone(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	g := leapgate.Must(leapgate.Config{Now: c.Now, Guards: []resource.Guard{&strange{}}})
	call(t, c, g, "a", 1, 0)
	d := dashboard.Handler(g, dashboard.Config{})
	rule := list(get(t, d, "resource?name=a"), "rules")[0]
	require.Equal(t, []any{"strange", "st\ufffdrange", "st%FFrange", false}, []any{rule["kind"], rule["id"], rule["raw"], rule["editable"]})
	require.NotContains(t, rule, "version")
	require.NotContains(t, rule, "rule")
	figures := rule["figures"].(map[string]any)
	require.Equal(t, []any{nil, nil, 1e300, "mode(77)"}, []any{figures["threshold"], figures["effective"], figures["candidate"], figures["mode"]})
	require.Empty(t, list(get(t, d, "rules"), "rules"))
}
