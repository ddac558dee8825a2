package dashboard_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rulefile"
)

// annWith lets those in who know the password.
func annWith(password string) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") != "Bearer "+password {
			return "", dashboard.Challenge("Bearer")
		}
		return "ann", nil
	}
}

const client = "192.0.2.7"

// refusing is a gate and a limiter that have refused a client.
func refusing(t *testing.T, c *gatetest.Clock) (*leapgate.Gate, dashboard.Limiter) {
	t.Helper()
	g := gates.New(t, c, flow.Rule{ID: "none", Resource: "a"})
	_, err := g.EntryContext(t.Context(), "a", leapgate.WithOrigin(client))
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	l := newLimiter(t, c)
	refuse(t, l, client, 3)
	return g, l
}

// Keys and origins tell who a client is, and are shown to those alone who are to see them.
func TestKeys_AreShownToThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	g, l := refusing(t, gatetest.ClockAt(start))
	for _, tt := range []struct {
		name          string
		cfg           dashboard.Config
		reader, ann   bool // what they see
		signInForKeys bool
	}{
		{"by default, without editors", dashboard.Config{}, false, false, false},
		{"by default", dashboard.Config{Authorize: annWith("x")}, false, true, true},
		{"everybody", dashboard.Config{Authorize: annWith("x"), ShowKeys: dashboard.Everybody}, true, true, false},
		{"everybody, without editors", dashboard.Config{ShowKeys: dashboard.Everybody}, true, true, false},
		{"nobody", dashboard.Config{Authorize: annWith("x"), ShowKeys: dashboard.Nobody}, false, false, false},
	} {
		tt.cfg.Limiters, tt.cfg.Logger = []dashboard.Limiter{l}, quiet()
		d := dashboard.Handler(g, tt.cfg)
		for who, sees := range map[string]bool{"": tt.reader, "Bearer x": tt.ann, "Bearer wrong": tt.reader} {
			headers := []string{"Authorization", who}
			_, limiters := ask(t, d, http.MethodGet, "limiters", "", headers...)
			key := list(list(limiters, "limiters")[0], "offenders")[0]["key"].(string)
			_, resource := ask(t, d, http.MethodGet, "resource?name=a", "", headers...)
			last := list(resource, "rules")[0]["figures"].(map[string]any)["lastRefusal"].(map[string]any)
			_, about := ask(t, d, http.MethodGet, "about", "", headers...)
			require.Equal(t, !sees, about["hiddenKeys"], "%s, %q", tt.name, who)
			require.Equal(t, tt.signInForKeys, about["capabilities"].(map[string]any)["keys"], tt.name)
			if sees {
				require.Equal(t, []any{client, client}, []any{key, last["origin"]}, "%s, %q", tt.name, who)
				continue
			}
			require.Regexp(t, "^key-[0-9a-f]{16}$", key, "%s, %q", tt.name, who)
			require.Equal(t, key, last["origin"], "%s, %q: one and the same", tt.name, who)
			require.NotContains(t, jsonOf(t, limiters)+jsonOf(t, resource), client)
		}
	}
}

// Values of arguments are what clients have sent.
func TestKeys_ValuesOfArgumentsAreHiddenToo(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start))
	require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{{ID: "hot", Resource: "a", Arg: "item", Threshold: 1, Top: 3}}}))
	for range 3 {
		e, _ := g.EntryContext(t.Context(), "a", leapgate.WithArg("item", "<b>"+client))
		e.Exit()
	}
	e, err := g.EntryContext(t.Context(), "a")
	require.NoError(t, err)
	e.Exit()
	d := dashboard.Handler(g, dashboard.Config{Authorize: annWith("x"), Logger: quiet()})
	figures := func(who string) map[string]any {
		_, resource := ask(t, d, http.MethodGet, "resource?name=a", "", "Authorization", who)
		return list(resource, "rules")[0]["figures"].(map[string]any)
	}
	f := figures("Bearer x")
	require.Equal(t, []any{map[string]any{"value": "<b>" + client, "count": 3.0, "excess": 0.0}}, f["busiest"])
	require.Equal(t, []any{map[string]any{"value": "<b>" + client, "count": 2.0, "excess": 0.0}}, f["refusedMost"])
	require.InDelta(t, 1, f["withoutArgument"], 0)
	f = figures("")
	require.NotContains(t, jsonOf(t, f), client)
	require.Regexp(t, "^key-[0-9a-f]{16}$", list(f, "busiest")[0]["value"])
	require.Equal(t, list(f, "busiest")[0]["value"], list(f, "refusedMost")[0]["value"])
}

// Each who watches gets frames of his own sight, whoever else watches.
func TestKeys_InFramesOfThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g, l := refusing(t, c)
		d := dashboard.Handler(g, dashboard.Config{Limiters: []dashboard.Limiter{l}, Authorize: annWith("x"), Logger: quiet()})
		pipe, _ := serve(t, d)
		reader, ann := watch(t, pipe), watch(t, pipe, "Authorization", "Bearer x")
		late := func() *watching { return watch(t, pipe, "Authorization", "Bearer wrong") }
		for turn := range 3 {
			if turn > 0 {
				refuse(t, l.(*limit.RateLimiter), client, 1)
			}
			hidden, shown := string(reader.next().Limiters), string(ann.next().Limiters)
			require.Contains(t, hidden, `"key":"key-`)
			require.NotContains(t, hidden, client)
			require.Contains(t, shown, `"key":"`+client+`"`)
			require.NotContains(t, string(late().next().Limiters), client)
		}
		require.Nil(t, reader.next().Limiters, "nothing has changed")
		require.Nil(t, ann.next().Limiters)
	})
}

// Whatever names a client, a user or a folder of the machine is for those who may change rules, in every answer.
func TestHide_EveryAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g, l := refusing(t, c)
		const folder = "/etc/secret-folder/"
		file := &source{name: folder + "rules.yaml", files: []string{folder + "rules.yaml"}, err: func() error {
			return rulefile.Errors{
				{File: folder + "rules.yaml", Line: 3, Column: 5, Field: "items", Message: "items: secret-item is bad"},
				{File: folder + "rules.yaml", Line: 4, Field: "secret-field", Message: "unknown field secret-field"},
				{File: folder + "rules.yaml", Message: "open " + folder + "rules.yaml: no such file"},
				{File: folder + "rules.yaml", Line: 5, Field: "threshold", Message: "threshold is -1; want more"},
			}
		}}
		require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
			all.Flow = append(all.Flow, flow.Rule{ID: "of one", Resource: "a", Threshold: 5, Origin: "secret-origin", Source: file.name})
			all.Param = append(all.Param, param.Rule{ID: "of values", Resource: "a", Arg: "item", Threshold: 5, Items: "secret-item=3"})
			return nil
		}))
		d := dashboard.Handler(g, dashboard.Config{
			Limiters: []dashboard.Limiter{l}, RuleSources: []dashboard.RuleSource{file}, Logger: quiet(), Authorize: annWith("x"),
			RuleKeepers: []dashboard.RuleKeeper{&keeper{gate: g, name: file.name}},
		})
		auth := []string{"Authorization", "Bearer x"}
		rule := func(id string, headers ...string) map[string]any {
			_, v := ask(t, d, http.MethodGet, "rule?kind=param&id="+id, "", headers...)
			return v
		}
		change := func(v map[string]any, changed string) {
			body := strings.Replace(jsonOf(t, v["rule"]), `"threshold":`, changed+`"threshold":`, 1)
			answer, v := ask(t, d, http.MethodPut, "rule?kind=param&id=of+values&reason=for+secret-customer", body,
				append(auth, "If-Match", strconv.Quote(v["version"].(string)))...)
			require.Equal(t, http.StatusOK, answer.StatusCode, v)
		}
		// One who signs in with the edit itself has not seen what is hidden, and does not change it.
		hidden := rule("of+values")
		require.NotContains(t, jsonOf(t, hidden), "secret")
		change(hidden, `"candidate": 2, `)
		require.Equal(t, "secret-item=3", g.Rules().Param[0].Items)
		require.InDelta(t, 2, g.Rules().Param[0].Candidate, 0)
		change(map[string]any{"rule": map[string]any{"resource": "a", "arg": "item", "items": "secret-item=4", "threshold": 5}, "version": rule("of+values", auth...)["version"]}, "")

		pipe, _ := serve(t, d)
		for _, path := range []string{"about", "resource?name=a", "rules", "rule?kind=flow&id=of+one", "rule?kind=param&id=of+values", "bound?kind=flow&id=none", "limiters", "resources", "events"} {
			answer := func(headers ...string) string {
				if path == "events" {
					frame := watch(t, pipe, headers...).next()
					return string(frame.Limiters) + string(frame.RuleSources)
				}
				_, v := ask(t, d, http.MethodGet, path, "", headers...)
				return jsonOf(t, v)
			}
			require.NotRegexp(t, "secret|"+client+`|"ann"`, answer(), path)
			if path != "resources" {
				require.Regexp(t, "secret|"+client, answer(auth...), path)
			}
		}
		faults := list(list(get(t, d, "about"), "ruleSources")[0], "errors")
		require.Equal(t, []any{"rules.yaml", 3.0, "only those who may change rules see what is wrong"}, []any{faults[0]["file"], faults[0]["line"], faults[0]["message"]})
		require.Equal(t, "threshold is -1; want more", faults[3]["message"])
		require.Equal(t, []any{"", "rules.yaml"}, get(t, d, "about")["sources"])
		answer, v := ask(t, d, http.MethodPost, "rules?kind=flow&source=rules.yaml", `{"resource": "b", "threshold": 1}`, auth...)
		require.Equal(t, http.StatusCreated, answer.StatusCode, v)
		require.Equal(t, file.name, v["source"])
	})
}

func TestKeys_AnAudienceThatIsNone(t *testing.T) {
	t.Parallel()
	_, err := dashboard.New(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{ShowKeys: 3})
	require.EqualError(t, err, "dashboard: bad configuration: ShowKeys is Audience(3); want Editors, Everybody or Nobody")
	require.Equal(t, "Editors, Everybody, Nobody", dashboard.Editors.String()+", "+dashboard.Everybody.String()+", "+dashboard.Nobody.String())
}
