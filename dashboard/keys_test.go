package dashboard_test

import (
	"net/http"
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

func TestKeys_AnAudienceThatIsNone(t *testing.T) {
	t.Parallel()
	_, err := dashboard.New(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{ShowKeys: 3})
	require.EqualError(t, err, "dashboard: bad configuration: ShowKeys is Audience(3); want Editors, Everybody or Nobody")
	require.Equal(t, "Editors, Everybody, Nobody", dashboard.Editors.String()+", "+dashboard.Everybody.String()+", "+dashboard.Nobody.String())
}
