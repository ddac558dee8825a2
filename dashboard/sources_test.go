package dashboard_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rulefile"
)

// source is a source of rules as it is told.
type source struct {
	name      string
	files     []string
	at, since time.Time
	err       func() error
}

func (s *source) Source() string          { return s.name }
func (s *source) Files() []string         { return s.files }
func (s *source) FailingSince() time.Time { return s.since }
func (s *source) LastLoad() (time.Time, error) {
	if s.err == nil {
		return s.at, nil
	}
	return s.at, s.err()
}

// rulesFor are so many good rules.
func rulesFor(n int) []flow.Rule {
	rules := make([]flow.Rule, n)
	for i := range rules {
		rules[i] = flow.Rule{ID: fmt.Sprint(n, " ", i), Resource: "a"}
	}
	return rules
}

func at(seconds int64) time.Time { return time.Unix(1_700_000_000+seconds, 0) }

func TestRuleSources_StateOfEach(t *testing.T) {
	t.Parallel()
	good := &source{name: "db", at: at(0)}
	never := &source{name: "other", since: at(60), err: func() error { return errors.New("no answer\n" + strings.Repeat("x", 5000)) }}
	refused := &source{name: "rules.d", files: []string{"rules.d/a.yaml", "rules.d/b.yaml"}, at: at(0), since: at(90), err: func() error {
		errs := rulefile.Errors{{File: "rules.d/a\xff.yaml", Line: 3, Column: 16, Field: "threshold", Message: "threshold is -1; want more"}}
		for range 50 {
			errs = append(errs, &rulefile.Error{File: "rules.d/b.yaml", Message: "it is no YAML"})
		}
		return fmt.Errorf("folder: %w", errs)
	}}
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{Resource: "a"})
	require.NoError(t, g.ReplaceRules("db", leapgate.Rules{Flow: rulesFor(2), Isolation: []isolation.Rule{{Resource: "a", MaxInFlight: 1}}}))
	require.NoError(t, g.ReplaceRules("rules.d", leapgate.Rules{Flow: rulesFor(7)}))
	d := dashboard.Handler(g, dashboard.Config{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{good, never, refused}})
	sources := list(get(t, d, "about"), "ruleSources")
	require.Len(t, sources, 3)
	require.Equal(t, map[string]any{"source": "db", "files": []any{}, "rules": 3.0, "loadedAt": "2023-11-14T22:13:20.000Z"}, sources[0])

	faults := list(sources[1], "errors")
	require.Len(t, faults, 1)
	require.Less(t, len(faults[0]["message"].(string)), 1100)
	require.Equal(t, []any{"other", 0.0, nil, "2023-11-14T22:14:20.000Z"},
		[]any{sources[1]["source"], sources[1]["rules"], sources[1]["loadedAt"], sources[1]["failingSince"]})

	faults = list(sources[2], "errors")
	require.Len(t, faults, 17)
	require.Equal(t, map[string]any{"file": "rules.d/a\ufffd.yaml", "line": 3.0, "column": 16.0, "field": "threshold", "message": "threshold is -1; want more"}, faults[0])
	require.Equal(t, map[string]any{"message": "and more"}, faults[16])
	require.Equal(t, []any{[]any{"rules.d/a.yaml", "rules.d/b.yaml"}, 7.0, "2023-11-14T22:13:20.000Z", "2023-11-14T22:14:50.000Z"},
		[]any{sources[2]["files"], sources[2]["rules"], sources[2]["loadedAt"], sources[2]["failingSince"]})
}

// brief is a source that knows no more than it must.
type brief struct{ err error }

func (b brief) Source() string               { return "plain" }
func (b brief) LastLoad() (time.Time, error) { return time.Time{}, b.err }

func TestRuleSources_ThatKnowLittle(t *testing.T) {
	t.Parallel()
	ends := errors.Join(errors.New("no answer"), &rulefile.Error{Line: 3, Column: 1, Message: "no rule"})
	for want, err := range map[string]error{
		`[{"source": "plain", "files": [], "rules": 0}]`:                                                                                       nil,
		`[{"source": "plain", "files": [], "rules": 0, "errors": [{"message": "no answer"}]}]`:                                                 errors.New("no answer"),
		`[{"source": "plain", "files": [], "rules": 0, "errors": [{"message": "no answer"}, {"line": 3, "column": 1, "message": "no rule"}]}]`: ends,
	} {
		d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{brief{err}}})
		require.JSONEq(t, want, jsonOf(t, get(t, d, "about")["ruleSources"]))
	}
}

// A file that is refused is told by the watcher, and that it is good again; the files that are
// written on the page are shown without being named twice.
func TestRuleSources_OfAWatchedFile(t *testing.T) {
	t.Parallel()
	path, g, w := watched(t)
	for _, cfg := range []dashboard.Config{
		{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{w}},
		{Authorize: ann, Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{w}},
		{Authorize: ann, Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{w}, RuleSources: []dashboard.RuleSource{w}},
	} {
		d := dashboard.Handler(g, cfg)
		state := func() map[string]any {
			all := list(get(t, d, "about"), "ruleSources")
			require.Len(t, all, 1)
			require.Equal(t, path, all[0]["source"])
			return all[0]
		}
		before := state()
		require.Equal(t, []any{[]any{path}, 2.0}, []any{before["files"], before["rules"]})
		require.NotContains(t, before, "errors")

		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(fileText, "threshold: 5", "threshold: -5", 1)), 0o600))
		require.Error(t, w.Reload())
		failing := state()
		require.Equal(t, before["loadedAt"], failing["loadedAt"])
		require.NotEmpty(t, failing["failingSince"])
		fault := list(failing, "errors")[0]
		require.Equal(t, []any{path, 4.0, "threshold"}, []any{fault["file"], fault["line"], fault["field"]})
		require.Contains(t, fault["message"], "threshold is -5; want a finite number of at least 0")

		require.NoError(t, os.WriteFile(path, []byte(fileText), 0o600))
		require.NoError(t, w.Reload())
		require.Equal(t, before, state())
		require.NotContains(t, before, "losesComments")
	}
	require.NoError(t, os.WriteFile(path, []byte("flow: [ # where no comment can be kept\n  {resource: a, threshold: 5}\n]\n"), 0o600))
	require.NoError(t, w.Reload())
	d := dashboard.Handler(g, dashboard.Config{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{w}})
	require.Equal(t, true, list(get(t, d, "about"), "ruleSources")[0]["losesComments"])
}

func TestRuleSources_InFramesWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Error
		db := &source{name: "db", at: at(0), since: at(5), err: failing.Load}
		g := gates.New(t, gatetest.ClockAt(start))
		require.NoError(t, g.ReplaceRules("db", leapgate.Rules{Flow: rulesFor(2)}))
		d := dashboard.Handler(g, dashboard.Config{ShowKeys: dashboard.Everybody, RuleSources: []dashboard.RuleSource{db}})
		pipe, _ := serve(t, d)
		w := watch(t, pipe)
		const asGood = `[{"source": "db", "files": [], "rules": 2, "loadedAt": "2023-11-14T22:13:20.000Z"}]`
		require.JSONEq(t, asGood, string(w.next().RuleSources))
		require.Nil(t, w.next().RuleSources)
		failing.Store(errors.New("gone"))
		require.JSONEq(t, `[{"source": "db", "files": [], "rules": 2, "loadedAt": "2023-11-14T22:13:20.000Z", "failingSince": "2023-11-14T22:13:25.000Z", "errors": [{"message": "gone"}]}]`,
			string(w.next().RuleSources))
		late := watch(t, pipe)
		require.Contains(t, string(late.next().RuleSources), "gone")
		failing.Store(nil)
		require.JSONEq(t, asGood, string(w.next().RuleSources))
	})
}

// One that the program brought breaks down: the others are shown, and the program goes on.
func TestRuleSources_ThatPanic(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), RuleSources: []dashboard.RuleSource{
		&source{err: func() error { panic("no\nstatus") }}, &source{name: "good"},
	}})
	for range 3 {
		sources := list(get(t, d, "about"), "ruleSources")
		require.Len(t, sources, 1)
		require.Equal(t, "good", sources[0]["source"])
	}
	require.Equal(t, 1, strings.Count(log.String(), "panicked"))
}

// unnamed is a keeper without a name.
type unnamed struct{ *keeper }

func (unnamed) Source() string { return "" }

func TestRuleSources_ThatAreNil(t *testing.T) {
	t.Parallel()
	var none *rulefile.Watcher
	var noLimiter *fakeLimiter
	_, err := dashboard.New(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{
		RuleSources: []dashboard.RuleSource{nil, none}, Limiters: []dashboard.Limiter{noLimiter}, Authorize: ann, RuleKeepers: []dashboard.RuleKeeper{none, nil, &keeper{}, unnamed{}, &keeper{}},
	})
	require.EqualError(t, err, `dashboard: bad configuration: Limiters[0] is nil; want a limiter
dashboard: bad configuration: RuleSources[0] is nil; want a source of rules
dashboard: bad configuration: RuleSources[1] is nil; want a source of rules
dashboard: bad configuration: RuleKeepers[0] is nil; want a keeper of rules
dashboard: bad configuration: RuleKeepers[1] is nil; want a keeper of rules
dashboard: bad configuration: RuleKeepers[3] has no name; want one
dashboard: bad configuration: RuleKeepers[4] has the name "db", as RuleKeepers[2]; want another`)
}
