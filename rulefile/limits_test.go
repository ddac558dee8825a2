package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

func ptr[T any](v T) *T { return &v }

const everyLimit = `
limits:
  per-tenant:
    limit: 60
    window: 1m
    plans: {acme: 600, partner: -1, banned: 0, 12345: 7, "a: b": 8}
    mode: shadow
  uploads:
    limit: 1e3
    burst: 5
  "only plans":
    plans:
      acme: 2
  off: {mode: off}
`

func TestLimits_Read(t *testing.T) {
	t.Parallel()
	want := map[string]Limit{
		"per-tenant": {
			Limit: ptr[int64](60), Window: time.Minute, Mode: ptr(rule.Shadow),
			Plans: map[string]int64{"acme": 600, "partner": -1, "banned": 0, "12345": 7, "a: b": 8},
		},
		"uploads":    {Limit: ptr[int64](1000), Burst: 5},
		"only plans": {Plans: map[string]int64{"acme": 2}},
		"off":        {Mode: ptr(rule.Off)},
	}
	f, err := ParseFile("f.yaml", []byte(everyLimit))
	require.NoError(t, err)
	require.Equal(t, File{Limits: want}, f, "limits alone are no empty file")
	rules, err := Parse("f.yaml", []byte(everyLimit+ruleText(1)))
	require.NoError(t, err)
	require.Equal(t, 1, rules.Len())

	for text, want := range map[string]map[string]Limit{
		"limits: {}":                             nil,
		"limits: null\n" + ruleText(1):           nil,
		`{"limits": {"a": {"limit": 0}}}`:        {"a": {Limit: ptr[int64](0)}},
		"flow: []\nlimits: {a: {mode: enforce}}": {"a": {Mode: ptr(rule.Enforce)}},
	} {
		f, err := ParseFile("f", []byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, f.Limits, text)
	}
	require.Equal(t, "60 per key in 1m; keys with limits of their own: 5 (1 exempt, 1 blocked); mode shadow", want["per-tenant"].String())
	require.Equal(t, "1000 per key; 5 at once", want["uploads"].String())
	require.Equal(t, "in 1h", Limit{Window: time.Hour}.String())
}

func TestLimits_AreWrittenAsTheyWere(t *testing.T) {
	t.Parallel()
	f, err := ParseFile("f.yaml", []byte(everyLimit))
	require.NoError(t, err)
	f.Rules.Flow = []flow.Rule{{ID: "a", Resource: "x", Threshold: 2}}
	f.Limits["null"] = Limit{Limit: ptr[int64](limit.MaxLimit), Plans: map[string]int64{
		"true": 1, "-": 2, "# no": 3, "é\n\"\x01": 4, " ": 5, "<<": 6, "~": 7, strings.Repeat("x", 1024): 8, strings.Repeat("\x01", 1024): 9, "?": 10, "*a": 11,
	}}
	for name, write := range map[string]func() ([]byte, error){"f.yaml": f.YAML, "f.json": f.JSON} {
		data, err := write()
		require.NoError(t, err)
		again, err := ParseFile(name, data)
		require.NoError(t, err, "%s", data)
		require.Equal(t, f, again)
	}
	for _, bad := range []map[string]Limit{
		{"a": {}}, {"": {Burst: 1}}, {"\xff": {Burst: 1}}, {"a": {Mode: ptr(rule.Mode(9))}}, {"a": {Plans: map[string]int64{"\xff": 1}}},
	} {
		_, err := File{Limits: bad}.YAML()
		require.ErrorIs(t, err, ErrRuleFile)
	}
}

func TestLimits_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := ParseFile("f", []byte(`flow: [{id: a, resource: x, threshold: -1}]
limits:
  a:
    limt: 5
    limit: -1
    window: 60
    burst: 0
    plans: {acme: -2, "": 1, acme: 5, b: many, c: }
    mode: Off
    burst: 3
  b: 5
  c: {}
  a: {limit: 1}
  d: {window: 1us, plans: [acme], threshold: 1, colour: red, limit: }
`))
	want := `f:1:40: flow rule "a": threshold is -1; want a finite number of at least 0
f:4:5: limit "a": unknown field "limt"; did you mean limit?
f:5:12: limit "a": limit is -1; want 0 to 2305843009213693951
f:6:13: limit "a": window is 60; want a duration such as "250ms", "1s" or "1h30m"; a number has no unit
f:7:12: limit "a": burst is 0; want 1 to 2305843009213693951
f:8:19: limit "a": the plan of "acme" is -2; want -1 to 2305843009213693951; -1 admits all, 0 none
f:8:23: limit "a": a plan of a key of 0 bytes; want 1 to 1024
f:8:30: limit "a": the plan of "acme" is there twice, first in line 8
f:8:42: limit "a": the plan of "b" is "many"; want a whole number; -1 admits all, 0 none
f:8:51: limit "a": the plan of "c" is empty; want a whole number; -1 admits all, 0 none
f:9:11: limit "a": mode is "Off"; want enforce, shadow or off, in small letters
f:10:5: limit "a": burst is there twice, first in line 7
f:11:6: limit "b": 5; want a mapping with any of limit, window, burst, plans, mode
f:12:6: limit "c": empty; want a mapping with any of limit, window, burst, plans, mode
f:13:3: limit "a": it is there twice, first at f:3
f:14:15: limit "d": window is "1us"; want 1ms to 8784h
f:14:27: limit "d": plans is a list; want a mapping of keys to their limits, such as {acme: 600, partner: -1}
f:14:35: limit "d": unknown field "threshold"; did you mean limit?
f:14:49: limit "d": unknown field "colour"; want one of limit, window, burst, plans, mode
f:14:69: limit "d": limit is empty; want a whole number`
	require.EqualError(t, err, want)
	for text, want := range map[string]string{
		"limits:":                   "f:1:1: limits is empty; want a mapping of limits by the names of limiters, or {} if none are meant",
		"limits: [a]":               "f:1:9: limits is a list; want a mapping of limits by the names of limiters",
		"limit: {a: {limit: 1}}":    `f:1:1: unknown field "limit"; want flow, isolation, breaker, param or system; did you mean limits?`,
		"limiters: {a: {burst: 1}}": `f:1:1: unknown field "limiters"; want flow, isolation, breaker, param or system; did you mean limits?`,
	} {
		_, err := Parse("f", []byte(text))
		require.EqualError(t, err, want)
	}
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "a.yaml"), "limits: {a: {limit: 1}}")
	writeFile(t, filepath.Join(folder, "b.yaml"), "\nlimits: {b: {limit: 1}, a: {limit: 2}}")
	_, err = Read(folder)
	require.EqualError(t, err, fmt.Sprintf(`%s/b.yaml:2:25: limit "a": it is there twice, first at %[1]s/a.yaml:1`, folder))

	// A file of rubbish is told of in a hundred lines.
	_, err = Parse("f", []byte("limits: {a: {plans: {"+strings.Repeat("x: y, ", 10_000)+"}}}"))
	var errs Errors
	require.ErrorAs(t, err, &errs)
	require.Len(t, errs, 101)
}

// tenants is a program's limiters, and a watcher of a file for them whose goroutine does not run.
type tenants struct {
	counter, burst *limit.RateLimiter
	places         *limit.InFlight
	gate           *memory
	path           string
	log            bytes.Buffer
	*Watcher
}

func newTenants(t *testing.T, text string) *tenants {
	t.Helper()
	w := &tenants{gate: &memory{}, path: filepath.Join(t.TempDir(), "rules.yaml")}
	now := func() int64 { return 1_800_000_000e9 }
	var err error
	w.counter, err = limit.NewCounter(limit.Config{Name: "c", Limit: 5, Window: time.Minute, MaxLimit: 1000, Now: now})
	require.NoError(t, err)
	w.burst, err = limit.NewBurst(limit.Config{Name: "b", Limit: 10, Burst: 3, MaxLimit: 100, Now: now, Mode: rule.Shadow})
	require.NoError(t, err)
	w.places, err = limit.NewInFlight(limit.Config{Limit: 2, MaxLimit: 4})
	require.NoError(t, err)
	writeFile(t, w.path, text)
	cfg := Config{
		Path: w.path, Gate: w.gate, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Limits: map[string]Limiter{"per-tenant": w.counter, "uploads": w.burst, "exports": w.places},
	}
	require.NoError(t, cfg.complete())
	w.Watcher = newWatcher(cfg)
	require.NoError(t, w.Reload())
	return w
}

func (w *tenants) load(t *testing.T, text string) {
	t.Helper()
	writeFile(t, w.path, text)
	require.NoError(t, w.Reload())
}

// terms are the limit of a key, and what the limiters are.
func (w *tenants) terms() string {
	all := []any{w.counter.Peek("acme").Limit, w.counter.Peek("any").Limit}
	for _, l := range []Limiter{w.counter, w.burst, w.places} {
		d := l.Describe()[0]
		all = append(all, d.Limit, d.Burst, d.Mode)
	}
	return fmt.Sprint(all...)
}

func TestLimits_AreThoseOfTheFileWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	w := newTenants(t, ruleText(1))
	made := w.terms()
	require.Equal(t, "5 5 5 0 enforce 10 3 shadow 2 0 enforce", made)
	require.Zero(t, w.Status().Limits)

	w.load(t, `
limits:
  per-tenant: {limit: 60, window: 1m, plans: {acme: 600, partner: -1, banned: 0}}
  uploads: {burst: 7, mode: enforce}
  exports: {limit: 4, plans: {acme: 1}, mode: shadow}
`)
	require.Equal(t, "600 60 60 0 enforce 10 7 enforce 4 0 shadow", w.terms())
	require.Equal(t, limit.Exempt, w.counter.Peek("partner").Limit)
	require.Equal(t, limit.Never, w.counter.Peek("banned").RetryAfter)
	require.Equal(t, 3, w.Status().Limits)
	require.Empty(t, w.gate.flow)
	require.Contains(t, w.log.String(), "limits=3")

	// What was counted stays; what is left out is as the program has made it.
	d, err := w.counter.AllowN(t.Context(), "acme", 500)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	w.load(t, "limits: {per-tenant: {plans: {acme: 550}}, uploads: {limit: 20}}")
	require.Equal(t, "550 5 5 0 enforce 20 3 shadow 2 0 enforce", w.terms())
	require.EqualValues(t, 50, w.counter.Peek("acme").Remaining)
	w.load(t, ruleText(1))
	require.Equal(t, made, w.terms())
	require.False(t, w.counter.Peek("acme").Allowed)

	// A file that is gone, or no good, changes nothing.
	w.load(t, "limits: {per-tenant: {limit: 60}}")
	require.NoError(t, os.Remove(w.path))
	require.Error(t, w.Reload())
	require.EqualValues(t, 60, w.counter.Describe()[0].Limit)
}

func TestLimits_WhatTheProgramHasNotIsAFault(t *testing.T) {
	t.Parallel()
	w := newTenants(t, ruleText(1)+"limits: {per-tenant: {limit: 60}}")
	terms := w.terms()
	writeFile(t, w.path, `flow: [{id: a, resource: x, threshold: 2}]
limits:
  per-tenant: {limit: 1001, window: 1h, burst: 3, plans: {acme: 5000, ok: 1000}}
  uploads: {burst: 5, limit: 100}
  exports: {window: 1s, limit: 4}
  per-tenat: {limit: 1}
  login: {limit: 1}
`)
	err := w.Reload()
	want := fmt.Sprintf(`%[1]s:3:23: limit "per-tenant": limit is 1001; want at most 1000, the MaxLimit with which the program has made the limiter
%[1]s:3:37: limit "per-tenant": window is "1h"; want 1m, with which the program has made the limiter: that of a running one cannot change
%[1]s:3:48: limit "per-tenant": burst is 3; want none: the limiter has no burst, as those of limit.NewBurst have
%[1]s:3:65: limit "per-tenant": the plan of "acme" is 5000; want at most 1000, the MaxLimit with which the program has made the limiter
%[1]s:5:21: limit "exports": window is "1s"; want none: the limiter counts calls in flight
%[1]s:6:3: the program has no limiter "per-tenat"; did you mean per-tenant?
%[1]s:7:3: the program has no limiter "login"; want one of exports, per-tenant, uploads`, w.path)
	require.EqualError(t, err, want)
	require.Equal(t, terms, w.terms(), "nothing is half applied")
	require.Equal(t, 1.0, w.gate.threshold())
	require.EqualError(t, w.Status().Err, want)
	at, failed := w.LastLoad() // what RuleSources of metrics and the page go by
	require.False(t, at.IsZero())
	require.Error(t, failed)

	gate := &memory{}
	cfg := Config{Path: w.path, Gate: gate}
	require.NoError(t, cfg.complete())
	writeFile(t, w.path, "limits: {a: {limit: 1}}")
	require.EqualError(t, newWatcher(cfg).Reload(), w.path+`:1:10: the program has no limiter "a"; want no limits: it has none for files`)

	// What cannot be read is told once, and not that it is also too large.
	writeFile(t, w.path, "limits: {per-tenant: {limit: 1e30, window: soon}}")
	require.Len(t, strings.Split(w.Reload().Error(), "\n"), 2)
}

func TestLimits_WhenTheGateRefusesNoneChanges(t *testing.T) {
	t.Parallel()
	w := newTenants(t, ruleText(1)+"limits: {per-tenant: {limit: 60}}")
	terms := w.terms()
	w.gate.refuse = errors.New("not now")
	writeFile(t, w.path, ruleText(2)+"limits: {per-tenant: {limit: 70}}")
	require.ErrorContains(t, w.Reload(), "not now")
	require.Equal(t, terms, w.terms())
	w.gate.refuse = nil
	require.NoError(t, w.Reload())
	require.EqualValues(t, 70, w.counter.Describe()[0].Limit)
}

// stubborn is a limiter of a program, which has neither plans nor MaxLimit.
type stubborn struct {
	limit int64
	mode  rule.Mode
}

func (s *stubborn) Describe() []limit.Description {
	return []limit.Description{{Name: "s", Limit: s.limit, Window: time.Second, Mode: s.mode}}
}

func (s *stubborn) SetLimit(n int64) error {
	if n > 10 {
		return errors.New("no more\nthan 10")
	}
	s.limit = n
	return nil
}

func (s *stubborn) SetMode(mode rule.Mode) error {
	s.mode = mode
	return nil
}

func TestLimits_OfALimiterOfTheProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	own, gate := &stubborn{limit: 3}, &memory{}
	first, err := limit.NewLog(limit.Config{Limit: 1, MaxLimit: 50})
	require.NoError(t, err)
	cfg := Config{Path: path, Gate: gate, Limits: map[string]Limiter{"own": own, "first": first}, Logger: slog.New(slog.DiscardHandler)}
	require.NoError(t, cfg.complete())
	w := newWatcher(cfg)
	writeFile(t, path, ruleText(1)+"limits: {own: {limit: 7, mode: shadow}, first: {limit: 20}}")
	require.NoError(t, w.Reload())
	require.Equal(t, stubborn{7, rule.Shadow}, *own)

	writeFile(t, path, ruleText(2)+"limits: {own: {limit: 11}, first: {limit: 30}}")
	require.EqualError(t, w.Reload(), path+`:2:10: the limiter "own" refused: no more; than 10`)
	require.Equal(t, stubborn{7, rule.Shadow}, *own, "all is as it was")
	require.EqualValues(t, 20, first.Describe()[0].Limit)
	require.Equal(t, 1.0, gate.threshold())

	writeFile(t, path, "limits: {own: {plans: {a: 1}, burst: 2}}")
	require.ErrorContains(t, w.Reload(), "plans is a mapping; want none: the limiter has no limits of single keys")
}

func TestLimits_WithoutAGate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	l, err := limit.NewCounter(limit.Config{Limit: 1, MaxLimit: 50})
	require.NoError(t, err)
	cfg := Config{Path: path, Limits: map[string]Limiter{"a": l}, Logger: slog.New(slog.DiscardHandler)}
	writeFile(t, path, "limits: {a: {limit: 9}}")
	w, err := Watch(cfg)
	require.NoError(t, err)
	defer w.Close()
	require.EqualValues(t, 9, l.Describe()[0].Limit)
	writeFile(t, path, "limits: {a: {limit: 8}}\n"+ruleText(1))
	require.EqualError(t, w.Reload(), path+":2:8: the program has no gate for rules; want limits alone")
	require.EqualValues(t, 9, l.Describe()[0].Limit)

	for want, limits := range map[string]map[string]Limiter{
		"Gate is nil":                         {},
		`Limits["n"] is nil`:                  {"n": nil},
		"Limits has a limiter without a name": {"": l},
		`Limits["two"] describes 2 limits`:    {"two": two{l}},
	} {
		_, err := Watch(Config{Path: path, Limits: limits})
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, want)
	}
}

// two describes two limits.
type two struct{ *limit.RateLimiter }

func (l two) Describe() []limit.Description {
	return append(l.RateLimiter.Describe(), l.RateLimiter.Describe()...)
}

// An edit of rules on the page changes no limit and loses no comment.
func TestSave_KeepsLimitsAndTheirComments(t *testing.T) {
	t.Parallel()
	const before = `# the shop
flow:
  - id: a
    resource: x
    threshold: 1
limits: # of tenants
  # one for each
  per-tenant:
    limit: 60 # as sold
    plans:
      acme: 600 # until May
      partner: -1
`
	w := newTenants(t, before)
	require.False(t, w.Status().LosesComments)
	require.NoError(t, w.Save(of(2)))
	data, err := os.ReadFile(w.path)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(before, "threshold: 1", "threshold: 2", 1), string(data))
	require.EqualValues(t, 600, w.counter.Peek("acme").Limit)
	require.NoError(t, w.Save(just(leapgate.Rules{})))
	data, err = os.ReadFile(w.path)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(before, "\n  - id: a\n    resource: x\n    threshold: 1", " []", 1), string(data))
	require.Equal(t, 1, w.Status().Limits)

	// Where nothing can stay as it was written, the limits stay all the same.
	limits := map[string]Limit{"a": {Limit: ptr[int64](5), Plans: map[string]int64{"acme": 600}}}
	written, err := File{Rules: leapgate.Rules{Flow: []flow.Rule{{ID: "a", Resource: "x", Threshold: 1}}}, Limits: limits}.JSON()
	require.NoError(t, err)
	for _, name := range []string{"f.json", "f.yaml"} {
		data, _, err := rewrite(leapgate.Rules{Flow: []flow.Rule{{ID: "b", Resource: "y", Threshold: 1}}}, name, written)
		require.NoError(t, err)
		f, err := ParseFile(name, data)
		require.NoError(t, err)
		require.Equal(t, limits, f.Limits)
		require.Equal(t, "b", f.Rules.Flow[0].ID)
	}
}

// A program may let the file say what cannot be changed while it runs.
func TestLimit_Config(t *testing.T) {
	t.Parallel()
	made := limit.Config{Name: "n", Limit: 5, Window: time.Second, MaxLimit: 20, Mode: rule.Shadow}
	require.Equal(t, made, Limit{}.Config(made))
	require.Equal(t, limit.Config{Name: "n", Limit: 60, Window: time.Minute, MaxLimit: 600, Burst: 3},
		Limit{Limit: ptr[int64](60), Window: time.Minute, Burst: 3, Mode: ptr(rule.Enforce), Plans: map[string]int64{"a": 600, "b": -1}}.Config(made))
	cfg := Limit{Limit: ptr[int64](2)}.Config(limit.Config{Limit: 5})
	require.EqualValues(t, 5, cfg.MaxLimit, "the file may go back to what the program says")
}

// While the file changes under traffic, never is more admitted than the larger limit, and what
// was counted stays.
func TestLimits_HammerWithCallers(t *testing.T) {
	t.Parallel()
	w := newTenants(t, "limits: {per-tenant: {plans: {acme: 1000}}}")
	var charged atomic.Int64
	gatetest.AtOnce(8, func(id int) {
		for i := range 200 {
			if id == 0 && i%10 == 0 {
				text := fmt.Sprintf("limits: {per-tenant: {limit: %d, plans: {acme: %d}}}", i+1, []int{1000, 100, -1}[i/10%2])
				assert.NoError(t, os.WriteFile(w.path, []byte(text), 0o600))
				assert.NoError(t, w.Reload())
			}
			if d, err := w.counter.Allow(t.Context(), "acme"); err == nil && d.Allowed {
				charged.Add(1)
			}
		}
	})
	require.LessOrEqual(t, charged.Load(), int64(1000))
	w.load(t, "limits: {per-tenant: {plans: {acme: 1000}}}")
	require.EqualValues(t, 1000-charged.Load(), w.counter.Peek("acme").Remaining)
}
