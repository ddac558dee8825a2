package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
)

// withBreakers makes a gate with breakers that open at a failure, for a second.
func withBreakers(t *testing.T, c *gatetest.Clock, rules ...breaker.Rule) *leapgate.Gate {
	t.Helper()
	g := gates.New(t, c)
	for i := range rules {
		rules[i].MinCalls, rules[i].Consecutive, rules[i].Probes, rules[i].OpenFor = 1, 1, 1, time.Second
	}
	require.NoError(t, g.LoadRules(leapgate.Rules{Breaker: rules}))
	return g
}

// attempt makes a call that fails, or not, and reports whether it was admitted.
func attempt(g *leapgate.Gate, name string, err error) bool {
	var admitted bool
	_ = g.Do(context.Background(), name, func(context.Context) error {
		admitted = true
		return err
	})
	return admitted
}

var errAway = errors.New("the backend is away")

// logTo returns a logger without times.
func logTo(w *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// A page finds out which field is a switch, and its positions.
func TestKinds_TellSwitches(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{})
	var switches []string
	for _, kind := range list(get(t, d, "kinds"), "kinds") {
		for _, field := range list(kind, "fields") {
			if field["switch"] == true {
				switches = append(switches, fmt.Sprint(kind["name"], " ", field["name"], " ", field["options"]))
			}
		}
	}
	require.Equal(t, []string{"breaker force [none open closed]"}, switches)
}

// A switch is turned with a reason, which is logged beside who it was, and without one nothing
// changes: by changing, adding and removing a rule alike.
func TestSwitch_WantsAReason(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	g := withBreakers(t, gatetest.ClockAt(start), breaker.Rule{ID: "b", Resource: "a"})
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: logTo(&log)})
	const standing = `"resource": "a", "minCalls": 1, "consecutive": 1`
	const open, none = `{` + standing + `, "force": "open"}`, `{` + standing + `}`
	const missing = "reason: reason is missing; want why force goes from "
	change := func(body, why string) (int, map[string]any) {
		answer, v := ask(t, d, http.MethodPut, "rule?kind=breaker&id=b"+why, body, ifMatch(t, d, "breaker", "b")...)
		return answer.StatusCode, v
	}

	for _, why := range []string{"", "&reason=", "&reason=%20%0A%09", "&reason=%E2%80%8B%20%EF%BB%BF%E2%81%A0"} {
		faults, detail := refused(t, d, http.StatusBadRequest, http.MethodPut, "rule?kind=breaker&id=b"+why, open, ifMatch(t, d, "breaker", "b")...)
		require.Equal(t, []string{missing + "none to open, in up to 500 characters"}, faults)
		require.Equal(t, "reason is missing; want why force goes from none to open, in up to 500 characters", detail)
	}
	faults, _ := refused(t, d, http.StatusBadRequest, http.MethodPost, "rules?kind=breaker", open)
	require.Equal(t, []string{missing + "none to open, in up to 500 characters"}, faults)
	require.True(t, attempt(g, "a", nil), "nothing has changed")
	require.Len(t, g.Rules().Breaker, 1)
	require.Empty(t, log.String())

	status, v := change(open, "&reason=the+bank+is+away")
	require.Equal(t, http.StatusOK, status, v)
	require.False(t, attempt(g, "a", nil))
	status, v = change(`{`+standing+`, "force": "open", "mode": "shadow"}`, "")
	require.Equal(t, http.StatusOK, status, "what is no switch needs no reason: %v", v)
	faults, _ = refused(t, d, http.StatusBadRequest, http.MethodDelete, "rule?kind=breaker&id=b", "", ifMatch(t, d, "breaker", "b")...)
	require.Equal(t, []string{missing + "open to none, in up to 500 characters"}, faults)
	faults, _ = refused(t, d, http.StatusBadRequest, http.MethodPut, "rule?kind=breaker&id=b", none, ifMatch(t, d, "breaker", "b")...)
	require.Equal(t, []string{missing + "open to none, in up to 500 characters"}, faults)
	status, v = change(none, "&reason="+query("  it is back\t"))
	require.Equal(t, http.StatusOK, status, v)
	require.Equal(t, breaker.None, g.Rules().Breaker[0].Force)
	answer, v := ask(t, d, http.MethodDelete, "rule?kind=breaker&id=b&reason=not+needed", "", ifMatch(t, d, "breaker", "b")...)
	require.Equal(t, http.StatusNoContent, answer.StatusCode, v)

	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 4)
	require.Regexp(t, `^level=INFO msg="leapgate: rule changed on the dashboard" who=ann action=change kind=breaker id=b `+
		`from="\{.*\\"resource\\": \\"a\\".*\}" to="\{.*\\"force\\": \\"open\\".*\}" reason="the bank is away"$`, lines[0])
	require.NotContains(t, lines[1], "reason=")
	require.Regexp(t, ` reason="it is back"$`, lines[2])
	require.Regexp(t, ` action=remove .* reason="not needed"$`, lines[3])
}

// Whatever is sent as a reason, the log has one line of bounded length for it, and it says nothing
// else.
func TestSwitch_ReasonCannotBreakTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	g := withBreakers(t, gatetest.ClockAt(start), breaker.Rule{ID: "b", Resource: "a"})
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	bodies := []string{`{"resource": "a", "consecutive": 1, "force": "open"}`, `{"resource": "a", "consecutive": 1}`}
	for i, reason := range []string{
		"x\nlevel=INFO msg=\"leapgate: rule changed on the dashboard\" who=eve",
		"red \x1b[31m\x00\r", "turned \u202e around\u2028", `" who=eve reason="`, "<script>alert(1)</script>",
		strings.Repeat("é", 500),
	} {
		log.Reset()
		answer, v := ask(t, d, http.MethodPut, "rule?kind=breaker&id=b&reason="+query(reason), bodies[i%2], ifMatch(t, d, "breaker", "b")...)
		require.Equal(t, http.StatusOK, answer.StatusCode, v)
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		var line map[string]any
		require.NoError(t, json.Unmarshal(log.Bytes(), &line))
		require.Equal(t, []any{"ann", "change", "b"}, []any{line["who"], line["action"], line["id"]})
		gatetest.RequirePrintable(t, line["reason"].(string))
		require.NotContains(t, line["reason"], "\n")
		require.Less(t, log.Len(), 3000)
	}
	log.Reset()
	for _, reason := range []string{strings.Repeat("é", 501), "\xff\xfe"} {
		faults, _ := refused(t, d, http.StatusBadRequest, http.MethodPut, "rule?kind=breaker&id=b&reason="+query(reason), bodies[0], ifMatch(t, d, "breaker", "b")...)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "; want text of up to 500 characters, in UTF-8")
		require.Less(t, len(faults[0]), 1000)
	}
	require.Empty(t, log.String())
}

// A switch of a rule that a file owns is turned in the file.
func TestSwitch_OfARuleFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("breaker:\n  - {id: b, resource: a, consecutive: 3} # of the bank\n"), 0o600))
	var log bytes.Buffer
	g := gates.New(t, gatetest.ClockAt(start))
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: g, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: logTo(&log), RuleKeepers: []dashboard.RuleKeeper{w}})
	const body = `{"resource": "a", "consecutive": 3, "force": "open"}`
	kept := func() string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(data)
	}
	before := kept()
	faults, _ := refused(t, d, http.StatusBadRequest, http.MethodPut, "rule?kind=breaker&id=b", body, ifMatch(t, d, "breaker", "b")...)
	require.Len(t, faults, 1)
	require.Equal(t, before, kept())
	answer, v := ask(t, d, http.MethodPut, "rule?kind=breaker&id=b&reason=drill", body, ifMatch(t, d, "breaker", "b")...)
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
	require.Contains(t, kept(), "force: open")
	require.Contains(t, kept(), "# of the bank")
	require.False(t, attempt(g, "a", nil))
	require.Regexp(t, ` reason=drill source=.*rules.yaml$`, strings.TrimSpace(log.String()))
}

// Viewers are told which rules are in another state than at first, each time that changes, and by
// the rows of what they know.
func TestStream_States(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := withBreakers(t, c,
			breaker.Rule{ID: "a/1", Resource: "a"}, breaker.Rule{ID: "b/1", Resource: "b"}, breaker.Rule{ID: "all", Match: rule.Glob, Resource: "*"},
			breaker.Rule{ID: "tried", Resource: "b", Mode: rule.Shadow})
		for _, name := range []string{"a", "b"} {
			require.True(t, attempt(g, name, nil))
		}
		d := dashboard.Handler(g, dashboard.Config{})
		defer d.Close()
		client, _ := serve(t, d)
		w := watch(t, client)
		require.Nil(t, w.next().States, "all are as they began")
		require.Nil(t, w.next().States)

		require.True(t, attempt(g, "b", errAway))
		require.ElementsMatch(t, []string{"b b/1 open", "b all open"}, w.states(w.next()))
		require.Nil(t, w.next().States, "nothing has changed")
		second := watch(t, client)
		require.ElementsMatch(t, []string{"b b/1 open", "b all open"}, second.states(second.next()))

		c.Advance(time.Second)
		require.True(t, attempt(g, "b", nil), "a probe")
		require.Equal(t, []string{}, w.states(w.next()))
		require.Nil(t, w.next().States)
	})
}
