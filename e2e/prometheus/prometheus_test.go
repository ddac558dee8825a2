//go:build e2e

package prometheus

import (
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	plainText   = "text/plain;version=0.0.4"
	openMetrics = "application/openmetrics-text;version=1.0.0"

	loadTime = 20 * time.Second // of which now and then a minute is left out
)

// Two Prometheuses scrape one program under load: one reads native histograms, the other
// does not know them.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	servers := map[string]*server{
		"native":  startServer(t, p.server.URL, true),
		"classic": startServer(t, p.server.URL, false),
	}
	p.run(t, loadTime)
	want := p.tally
	require.NotZero(t, want.passed)
	require.NotZero(t, want.blocked)
	require.NotZero(t, want.failed)

	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			t.Run("counters are what the load generator counted", func(t *testing.T) { s.checkCounts(t, want) })
			t.Run("breakers are in one state at any scrape", func(t *testing.T) { s.checkStates(t, p, want) })
			t.Run("counters go back only by a reset", func(t *testing.T) { s.checkResets(t, want, name == "native") })
			t.Run("the dashboard has data", func(t *testing.T) { s.checkDashboard(t, name == "native") })
			t.Run("the rules have data", func(t *testing.T) { s.checkRules(t) })
		})
	}
	t.Run("the page and its history have what the load generator counted", func(t *testing.T) { p.checkPage(t, want) })
	t.Run("promtool finds nothing to say", func(t *testing.T) {
		require.Empty(t, run(t, p.text(t, plainText), "promtool", "check", "metrics"))
	})
	t.Run("a strict parser reads it", func(t *testing.T) {
		text := p.text(t, openMetrics)
		require.True(t, strings.HasSuffix(text, "# EOF\n"))
		require.Regexp(t, `^\d+ families\n$`, run(t, text, "/usr/bin/python3", "-c", parse))
	})
	t.Run("no name breaks a line", func(t *testing.T) {
		for line := range strings.Lines(p.text(t, plainText)) {
			require.Regexp(t, `^(# (HELP|TYPE) leapgate_|leapgate_[a-z_]+\{(([a-z]+="([^"\\]|\\["\\n])*",?)+)\} [-+0-9.e]+(Inf)?\n$)`, line)
			require.LessOrEqual(t, len(line), 2000)
		}
		require.Contains(t, p.text(t, plainText), `rule="<b>\"quoted\"</b>\n`)
	})
}

func TestRules_Check(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"leapgate.rules.yml", "leapgate.alerts.yml"} {
		require.Regexp(t, `(?s)^Checking \S+\n  SUCCESS: \d+ rules found\n\n$`, run(t, "", "promtool", "check", "rules", "../../deploy/prometheus/"+file))
	}
	require.Contains(t, run(t, "", "promtool", "test", "rules", "../../deploy/prometheus/leapgate_test.yml"), "SUCCESS")
}

// parse is what a strict reader does.
const parse = `
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(sys.stdin.read()))
assert any(f.name == "leapgate_entries" and f.type == "counter" for f in families), families
assert any(f.name == "leapgate_response_time_seconds" and f.type == "histogram" for f in families), families
print(len(families), "families")
`

// checkCounts waits for a scrape that was made after the last call.
func (s *server) checkCounts(t *testing.T, want tally) {
	t.Helper()
	now := float64(time.Now().UnixMilli()) / 1000
	eventually(t, "scraped again", func() bool { return s.value(t, `timestamp(leapgate_resources{gate="default"})`) > now })
	require.Zero(t, s.value(t, `sum(leapgate_entries_in_flight)`))
	require.NotZero(t, want.panics)
	require.Equal(t, want.panics, s.value(t, `sum(leapgate_guard_faults_total)`))

	// Those of which a rule names the resource are never evicted, so they have all calls.
	for _, name := range named {
		for _, result := range []string{"pass", "block"} {
			require.Equal(t, want.byResource[name+" "+result],
				s.value(t, `leapgate_entries_total{resource="`+name+`", result="`+result+`"}`), "%s %s", name, result)
		}
	}
	require.NotZero(t, want.byRule["orders-qps"])
	require.NotZero(t, want.byRule["db"])
	require.Equal(t, want.byRule["orders-qps"], s.value(t, `leapgate_blocks_total{rule="orders-qps"}`))
	require.Equal(t, want.byRule["db"], s.value(t, `leapgate_blocks_total{rule="db"}`))
	for limiterAnswer, n := range want.answers {
		limiter, answer, _ := strings.Cut(limiterAnswer, " ")
		require.NotZero(t, n)
		require.Equal(t, n, s.value(t, `leapgate_limiter_decisions_total{limiter="`+limiter+`", answer="`+answer+`"}`), limiterAnswer)
	}
	require.Len(t, want.answers, 4)
	require.Greater(t, s.value(t, `max(leapgate_evicted_resources_total)`), 0.0)
	require.Greater(t, s.value(t, `count(leapgate_entries_total{gate="default", result="pass"})`), 6.0, "not only those that rules name")
}

// named are resources that rules name.
var named = []string{"GET /orders", "GET /search", "db.query"}

// checkResets looks at every sample of every counter. Those of resources that may be evicted start from
// zero then. Prometheus takes that for a reset, and adds up no more calls than there were.
func (s *server) checkResets(t *testing.T, want tally, native bool) {
	t.Helper()
	seen, histograms, increase := 0, 0, map[string]float64{}
	for _, r := range s.query(t, `{__name__=~"leapgate_.*(_total|_bucket|_count|_sum)|leapgate_(response|wait)_time_seconds"}[30m]`) {
		samples := r.Values
		if samples == nil {
			samples = r.Histograms
			histograms++
		}
		result, last := r.Metric["result"], 0.0
		for _, sample := range samples {
			now := sample.float(t)
			if name := r.Metric["resource"]; name == "" || slices.Contains(named, name) {
				require.GreaterOrEqual(t, now, last, "%v", r.Metric)
			}
			if now < last {
				last = 0
			}
			increase[result] += now - last
			last = now
		}
		seen++
	}
	require.Greater(t, seen, 50)
	require.Equal(t, native, histograms > 0)
	require.LessOrEqual(t, increase["pass"], want.passed)
	require.LessOrEqual(t, increase["block"], want.blocked)
}

// checkData checks that an expression has had a value, and one that is a number, in the last two
// minutes. On a busy machine a scrape may take too long, and then there is none until the next; and
// the load is over soon.
func (s *server) checkData(t *testing.T, what, expression string) {
	t.Helper()
	eventually(t, what+": a number of "+expression, func() bool {
		return slices.ContainsFunc(s.lately(t, expression), func(r result) bool {
			return slices.ContainsFunc(r.Values, func(v sample) bool { return !math.IsNaN(v.float(t)) })
		})
	})
}

// checkDashboard checks that every expression of the dashboard has a value, but for those that are unknown
// here, and those of metrics that are.
func (s *server) checkDashboard(t *testing.T, native bool, unknown ...string) {
	t.Helper()
	d := readDashboard(t)
	for title, expression := range d.expressions(t) {
		if slices.Contains(unknown, title) || slices.ContainsFunc(metrics(expression), func(m string) bool { return slices.Contains(unknown, m) }) {
			continue
		}
		s.checkData(t, title, expression)
		for _, metric := range metrics(expression) {
			isNative := strings.HasSuffix(metric, "_time_seconds")
			if isNative || strings.HasSuffix(metric, "_time_seconds_bucket") {
				if isNative != native {
					continue
				}
				eventually(t, "a histogram: "+metric, func() bool { return len(s.query(t, metric)) > 0 })
				continue
			}
			s.checkData(t, title, metric)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		query := v.Query.(map[string]any)["query"].(string)
		parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(query)
		require.NotNil(t, parts, query)
		var values []string
		s.api(t, "label/"+parts[2]+"/values", url.Values{"match[]": {variables.Replace(parts[1])}}, &values)
		require.NotEmpty(t, values, query)
	}
}

func (s *server) checkRules(t *testing.T) {
	t.Helper()
	records, _ := rules(t, "../../deploy/prometheus/leapgate.rules.yml")
	_, alerts := rules(t, "../../deploy/prometheus/leapgate.alerts.yml")
	require.NotEmpty(t, records)
	require.NotEmpty(t, alerts)
	for name, expression := range records {
		s.checkData(t, name, expression)
		s.checkData(t, "recorded", name)
	}
	for name, expression := range alerts {
		// What is compared must be there, whether it is above the threshold or not.
		compared := regexp.MustCompile(`(\s*[<>] [\d.]+)+\s*$`).ReplaceAllString(expression, "")
		require.NotEqual(t, compared, expression, name)
		s.checkData(t, name, compared)
	}
	var state struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	s.api(t, "rules", nil, &state)
	healthy := map[string]bool{}
	for _, g := range state.Groups {
		for _, r := range g.Rules {
			require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
			healthy[r.Name] = true
		}
	}
	for name := range maps.Keys(records) {
		require.True(t, healthy[name], name)
	}
	require.Len(t, healthy, len(records)+len(alerts))
}

// checkPage asks the dashboard for the resources that are never evicted.
func (p *program) checkPage(t *testing.T, want tally) {
	t.Helper()
	read := func(path string, into any) {
		require.NoError(t, json.Unmarshal([]byte(get(t, p.page.URL+"/api/v1/"+path, nil)), into))
	}
	for _, name := range []string{"GET /orders", "GET /search", "db.query"} {
		var now struct {
			Pass, Block float64
			Rules       []struct {
				ID      string
				Figures struct{ Blocked float64 }
			}
		}
		read("resource?name="+url.QueryEscape(name), &now)
		require.Equal(t, want.byResource[name+" pass"], now.Pass, name)
		require.Equal(t, want.byResource[name+" block"], now.Block, name)
		for _, r := range now.Rules {
			require.Equal(t, want.byRule[r.ID], r.Figures.Blocked, r.ID)
		}
		p.ahead.Add(int64(6 * time.Second)) // the step is done then
		eventually(t, "the history of "+name, func() bool {
			var past struct {
				Resource struct {
					Columns []string
					Rows    [][]float64
				}
			}
			read("history?name="+url.QueryEscape(name), &past)
			require.Equal(t, []string{"pass", "block"}, past.Resource.Columns[1:3])
			pass, block := 0.0, 0.0
			for _, row := range past.Resource.Rows {
				pass, block = pass+row[1], block+row[2]
			}
			return pass == now.Pass && block == now.Block
		})
	}
}
