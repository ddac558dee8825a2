package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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
	"github.com/leapgate-go/leapgate/rule"
)

func TestEdits_AreToldWithWhoAndWhat(t *testing.T) {
	t.Parallel()
	c := gatetest.ClockAt(start)
	g := gates.New(t, c, flow.Rule{ID: "a-qps", Resource: "a", Threshold: 5}, flow.Rule{ID: "b-qps", Resource: "b", Threshold: 5})
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	editsOf := func() []map[string]any {
		return list(get(t, d, "resource?name=a"), "edits")
	}
	gates.Enter(t, g, "a")
	require.Empty(t, get(t, d, "resource?name=a")["edits"])
	version := func() string { return get(t, d, "rule?kind=flow&id=a-qps")["version"].(string) }
	change := func(threshold int, reason string) {
		answer, v := ask(t, d, "PUT", "rule?kind=flow&id=a-qps"+reason, `{"resource": "a", "threshold": `+strconv.Itoa(threshold)+`, "candidate": 3}`,
			"If-Match", strconv.Quote(version()))
		require.Equal(t, http.StatusOK, answer.StatusCode, v)
	}
	change(7, "&reason="+url.QueryEscape("the sale\nbegins"))
	all := editsOf()
	require.Len(t, all, 1)
	require.Equal(t, map[string]any{
		"at": "2023-11-14T22:13:20.000Z", "kind": "flow", "id": "a-qps", "action": "change", "who": "ann",
		"what": `threshold 5 → 7, candidate none → 3: "the sale\nbegins"`,
	}, all[0])

	// Those of other resources are theirs, and those of a rule that is gone stay.
	answer, _ := ask(t, d, "DELETE", "rule?kind=flow&id=a-qps", "", "If-Match", strconv.Quote(version()))
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	all = editsOf()
	require.Len(t, all, 2)
	require.Equal(t, "remove", all[1]["action"])
	require.Empty(t, get(t, d, "resource?name=b")["edits"])

	c.Advance(61 * time.Minute)
	require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
		all.Flow = append(all.Flow, flow.Rule{ID: "a-qps", Resource: "a", Threshold: 1})
		return nil
	}))
	for i := range 300 {
		change(2+i, "&reason="+strings.Repeat("x", 500))
	}
	all = editsOf()
	require.Len(t, all, 200, "those before them are forgotten")
	require.Len(t, []rune(all[0]["what"].(string)), 301)
}

func TestEdits_WhoIsForThoseWhoMayEdit(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start))
	d := dashboard.Handler(g, dashboard.Config{Logger: quiet(), Authorize: func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") == "" {
			return "", dashboard.Challenge("Bearer")
		}
		return "ann", nil
	}})
	answer, v := ask(t, d, "POST", "rules?kind=flow", `{"resource": "a", "threshold": 7}`, "Authorization", "Bearer x")
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	require.NotContains(t, list(get(t, d, "resource?name=a"), "edits")[0], "who")
	_, v = ask(t, d, "GET", "resource?name=a", "", "Authorization", "Bearer x")
	require.Equal(t, "ann", list(v, "edits")[0]["who"])
}

func TestResource_TellsWhetherItsHistoryIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		defer g.Close()
		d := keeping(t, g, 0)
		gates.Enter(t, g, "a")
		require.NotContains(t, get(t, d, "resource?name=a"), "kept", "nobody has looked yet")
		time.Sleep(2 * time.Second)
		require.Equal(t, true, get(t, d, "resource?name=a")["kept"])
	})
}

// A change is told of each resource that the rule bound before or after it, by name or by pattern.
func TestEdits_OfPatternsAndOfRulesThatMove(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start))
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	gates.Enter(t, g, "x")
	gates.Enter(t, g, "y")
	told := func(name string) (all []string) {
		for _, e := range list(get(t, d, "resource?name="+name), "edits") {
			all = append(all, e["action"].(string)+" "+e["id"].(string))
		}
		return all
	}
	do := func(method, path, body string) {
		version, _ := get(t, d, "rule?"+path)["version"].(string)
		answer, v := ask(t, d, method, "rule?"+path, body, "If-Match", strconv.Quote(version))
		require.Less(t, answer.StatusCode, 300, v)
	}
	answer, v := ask(t, d, "POST", "rules?kind=flow", `{"id": "pat", "resource": "x*", "match": "glob", "threshold": 5}`)
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	do("DELETE", "kind=flow&id=pat", "")
	answer, v = ask(t, d, "POST", "rules?kind=flow", `{"id": "mv", "resource": "x", "threshold": 5}`)
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	do("PUT", "kind=flow&id=mv", `{"resource": "y", "threshold": 5}`)
	do("PUT", "kind=flow&id=mv", `{"resource": "y", "threshold": 6}`)
	require.Equal(t, []string{"add pat", "remove pat", "add mv", "change mv"}, told("x"))
	require.Equal(t, []string{"change mv", "change mv"}, told("y"))
}

// What a rule file or the program changes is told as well, and not what was changed here once more.
func TestEdits_OfWhatWasChangedElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "own", Resource: "a", Threshold: 1}}))
		d, err := dashboard.New(g, dashboard.Config{KeepHistory: true, Authorize: ann, Logger: quiet()})
		require.NoError(t, err)
		defer d.Close()
		gates.Enter(t, g, "a")
		time.Sleep(1500 * time.Millisecond)
		file := func(rules ...flow.Rule) {
			require.NoError(t, g.ReplaceRules("rules.yaml", leapgate.Rules{Flow: rules}))
		}
		file(flow.Rule{ID: "kept", Resource: "a*", Match: rule.Glob, Threshold: 5, Source: "rules.yaml"})
		time.Sleep(time.Second)
		version := get(t, d, "rule?kind=flow&id=own")["version"].(string)
		answer, v := ask(t, d, "PUT", "rule?kind=flow&id=own", `{"resource": "a", "threshold": 2}`, "If-Match", strconv.Quote(version))
		require.Equal(t, http.StatusOK, answer.StatusCode, v)
		file(flow.Rule{ID: "kept", Resource: "a*", Match: rule.Glob, Threshold: 7, Source: "rules.yaml"})
		time.Sleep(time.Second)
		file()
		time.Sleep(time.Second)
		var told []string
		for _, e := range list(get(t, d, "resource?name=a"), "edits") {
			told = append(told, fmt.Sprint(e["action"], " ", e["id"], " ", e["what"], " ", e["who"], " ", e["source"]))
		}
		require.Equal(t, []string{
			"add kept <nil> <nil> rules.yaml", "change own threshold 1 → 2 ann <nil>",
			"change kept threshold 5 → 7 <nil> rules.yaml", "remove kept <nil> <nil> rules.yaml",
		}, told)
	})
}
