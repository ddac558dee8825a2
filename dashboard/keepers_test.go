package dashboard_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
)

// A watched rule file is a source of rules, and keeps them.
var (
	_ dashboard.RuleSource = (*rulefile.Watcher)(nil)
	_ dashboard.RuleKeeper = (*rulefile.Watcher)(nil)
)

const fileText = `# the shop's rules
flow:
  - resource: a
    threshold: 5
isolation:
  - id: few
    resource: a
    maxInFlight: 2
`

// watched returns a gate whose rules are in a file that is watched.
func watched(t *testing.T) (path string, g *leapgate.Gate, w *rulefile.Watcher) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte(fileText), 0o600))
	g = leapgate.Must(leapgate.Config{})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "own", Resource: "a", Threshold: 9}}))
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: g, Logger: quiet(), Poll: 10 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return path, g, w
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestRuleKeepers_FilesWithoutAKeeperTheyAreReadOnly(t *testing.T) {
	t.Parallel()
	path, g, _ := watched(t)
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet()})
	given := get(t, d, "rule?kind=flow&id=a/1")
	require.Equal(t, []any{path, false}, []any{given["source"], given["editable"]})
	version := ifMatch(t, d, "flow", "a/1")
	for _, method := range []string{"PUT", "DELETE"} {
		_, detail := refused(t, d, http.StatusConflict, method, "rule?kind=flow&id=a/1", `{"resource": "a", "threshold": 1}`, version...)
		require.Equal(t, "the rule is kept in "+path+", which cannot be written here: change it there", detail)
	}
	refused(t, d, http.StatusBadRequest, "POST", "rules?kind=flow&source="+query(path), `{"resource": "a", "threshold": 1}`)
	require.Equal(t, fileText, textOf(t, path))
	// The program's own can be changed.
	answer, v := ask(t, d, "PUT", "rule?kind=flow&id=own", `{"resource": "a", "threshold": 1}`, ifMatch(t, d, "flow", "own")...)
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
}

func TestRuleKeepers_FilesAreWrittenAndReloaded(t *testing.T) {
	t.Parallel()
	path, g, w := watched(t)
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{w}})
	require.Equal(t, []any{"", path}, get(t, d, "about")["sources"])
	given := get(t, d, "rule?kind=flow&id=a/1")
	require.Equal(t, []any{path, true}, []any{given["source"], given["editable"]})

	answer, v := ask(t, d, "PUT", "rule?kind=flow&id=a/1", `{"resource": "a", "threshold": 7, "mode": "shadow"}`, ifMatch(t, d, "flow", "a/1")...)
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
	require.Equal(t, []any{7.0, path}, []any{v["rule"].(map[string]any)["threshold"], v["source"]})
	require.Equal(t, v["version"], get(t, d, "rule?kind=flow&id=a/1")["version"])
	require.Equal(t, `# the shop's rules
flow:
  - id: a/1
    resource: a
    threshold: 7
    mode: shadow
isolation:
  - id: few
    resource: a
    maxInFlight: 2
`, textOf(t, path))

	answer, v = ask(t, d, "POST", "rules?kind=flow&source="+query(path), `{"resource": "a", "threshold": 3}`)
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)
	require.Equal(t, []any{"a/2", path}, []any{v["id"], v["source"]})
	answer, _ = ask(t, d, "DELETE", "rule?kind=isolation&id=few", "", ifMatch(t, d, "isolation", "few")...)
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	answer, v = ask(t, d, "POST", "rules?kind=isolation&source="+query(path), `{"resource": "b", "maxInFlight": 3}`)
	require.Equal(t, http.StatusCreated, answer.StatusCode, v)

	// What is in the file is what the gate has, and the watcher is content.
	onDisk, err := rulefile.Read(path)
	require.NoError(t, err)
	require.Equal(t, []flow.Rule{
		{ID: "own", Resource: "a", Threshold: 9, Interval: time.Second, Buckets: 10},
		{ID: "a/1", Resource: "a", Threshold: 7, Interval: time.Second, Buckets: 10, Mode: rule.Shadow, Source: path},
		{ID: "a/2", Resource: "a", Threshold: 3, Interval: time.Second, Buckets: 10, Source: path},
	}, g.FlowRules())
	require.Equal(t, []isolation.Rule{{ID: "b/1", Resource: "b", MaxInFlight: 3, Source: path}}, g.Rules().Isolation)
	require.Equal(t, 3, onDisk.Len())
	require.NoError(t, w.Status().Err)
	before := g.FlowRules()
	require.NoError(t, w.Reload())
	require.Equal(t, before, g.FlowRules())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside it")

	// A rule of the program is not written.
	answer, _ = ask(t, d, "DELETE", "rule?kind=flow&id=own", "", ifMatch(t, d, "flow", "own")...)
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Len(t, g.FlowRules(), 2)
}

// Somebody edits the file at the same time, and is not done. The watcher waits for him.
func TestRuleKeepers_FilesWhatOthersWriteIsNotLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte(fileText), 0o600))
	g := leapgate.Must(leapgate.Config{})
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: g, Logger: quiet(), Poll: time.Hour})
	require.NoError(t, err)
	defer w.Close()
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{w}})
	version := ifMatch(t, d, "flow", "a/1")
	half := fileText + "  - id: more\n"
	require.NoError(t, os.WriteFile(path, []byte(half), 0o600))
	_, detail := refused(t, d, http.StatusConflict, "PUT", "rule?kind=flow&id=a/1", `{"resource": "a", "threshold": 7}`, version...)
	require.Contains(t, detail, "is not the one that is active")
	require.Equal(t, half, textOf(t, path))
	require.Equal(t, 5.0, g.FlowRules()[0].Threshold)

	// He is done, and it is loaded: the version that was seen is still that of the rule.
	require.NoError(t, os.WriteFile(path, []byte(half+"    resource: b\n    maxInFlight: 1\n"), 0o600))
	require.NoError(t, w.Reload())
	answer, v := ask(t, d, "PUT", "rule?kind=flow&id=a/1", `{"resource": "a", "threshold": 7}`, version...)
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
	require.Len(t, g.Rules().Isolation, 2)
	require.Equal(t, 7.0, g.FlowRules()[0].Threshold)

	require.NoError(t, w.Close())
	refused(t, d, http.StatusBadGateway, "DELETE", "rule?kind=flow&id=a/1", "", ifMatch(t, d, "flow", "a/1")...)
}

func TestRuleKeepers_FilesOfAClosedGate(t *testing.T) {
	t.Parallel()
	path, g, w := watched(t)
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{w}})
	version := ifMatch(t, d, "flow", "a/1")
	require.NoError(t, g.Close())
	_, detail := refused(t, d, http.StatusConflict, "PUT", "rule?kind=flow&id=a/1", `{"resource": "a", "threshold": 7}`, version...)
	require.Equal(t, "the gate is closed", detail)
	require.Equal(t, fileText, textOf(t, path))
}

// keeper is a RuleKeeper that keeps what it is told, and fails when it should.
type keeper struct {
	busy  atomic.Int32 // calls of Save at this time
	gate  *leapgate.Gate
	rules leapgate.Rules
	asked int
	fail  error
	first bool // fail before asking
	name  string
}

func (k *keeper) Source() string { return cmp.Or(k.name, "db") }

func (k *keeper) Save(rules func() (leapgate.Rules, error)) error {
	if n := k.busy.Inc(); n > 1 {
		return fmt.Errorf("%d at once", n)
	}
	defer k.busy.Dec()
	if k.first {
		return k.fail
	}
	r, err := rules()
	if err != nil {
		return errors.Join(errors.New("db"), err)
	}
	runtime.Gosched()
	k.asked++
	if k.fail != nil {
		return k.fail
	}
	k.rules = r
	return k.gate.ReplaceRules(k.Source(), r)
}

func TestRuleKeepers_OfTheProgram(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "own", Resource: "a", Threshold: 1}, flow.Rule{ID: "kept", Resource: "a", Threshold: 2, Source: "db"},
		flow.Rule{ID: "file", Resource: "a", Threshold: 2, Source: "rules.yaml"})
	k := &keeper{gate: g}
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{k}})
	put := func(status int, body string) string {
		t.Helper()
		answer, v := ask(t, d, "PUT", "rule?kind=flow&id=kept", body, ifMatch(t, d, "flow", "kept")...)
		require.Equal(t, status, answer.StatusCode, v)
		detail, _ := v["detail"].(string)
		return detail
	}
	put(http.StatusOK, `{"resource": "a", "threshold": 3}`)
	require.Equal(t, []flow.Rule{{ID: "kept", Resource: "a", Threshold: 3, Interval: time.Second, Buckets: 10, Source: "db"}}, k.rules.Flow)
	require.Empty(t, k.rules.Isolation)
	require.Equal(t, 1, k.asked)

	before := g.FlowRules()
	put(http.StatusUnprocessableEntity, `{"resource": "a", "threshold": -3}`)
	refused(t, d, http.StatusPreconditionFailed, "PUT", "rule?kind=flow&id=kept", `{"resource": "a", "threshold": 3}`, "If-Match", `"1"`)
	_, detail := refused(t, d, http.StatusConflict, "DELETE", "rule?kind=flow&id=file", "", ifMatch(t, d, "flow", "file")...)
	require.Contains(t, detail, "rules.yaml")
	require.Equal(t, 1, k.asked, "it is not bothered with what is no good")
	faults, _ := refused(t, d, http.StatusUnprocessableEntity, "POST", "rules?kind=flow&source=db", `{"id": "own", "resource": "a", "threshold": 3}`)
	require.Equal(t, []string{`id: id is "own"; want one that no other flow rule has`}, faults)

	k.fail = errors.New("no\nline")
	require.Equal(t, `the rule was not saved: "no\nline"`, put(http.StatusBadGateway, `{"resource": "a", "threshold": 4}`))
	k.first = true
	put(http.StatusBadGateway, `{"resource": "a", "threshold": 4}`)
	require.Equal(t, before, g.FlowRules())
}

// A RuleKeeper, or an Authorize, that panics ends the request alone: the next goes on.
func TestRuleKeepers_ThatPanics(t *testing.T) {
	t.Parallel()
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "kept", Resource: "a", Threshold: 2, Source: "db"})
	k := &keeper{gate: g}
	breaks := true
	d := dashboard.Handler(g, dashboard.Config{Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{breaking{k, &breaks}}, Authorize: func(r *http.Request) (string, error) {
		if r.Method == http.MethodDelete && r.Header.Get("Authorization") == "" {
			panic("nobody")
		}
		return "ann", nil
	}})
	headers := append(ifMatch(t, d, "flow", "kept"), "Authorization", "ann")
	require.PanicsWithValue(t, "nobody", func() { ask(t, d, "DELETE", "rule?kind=flow&id=kept", "", headers[:2]...) })
	require.PanicsWithValue(t, "half way", func() { ask(t, d, "DELETE", "rule?kind=flow&id=kept", "", headers...) })
	require.Len(t, g.FlowRules(), 1)
	breaks = false
	answer, v := ask(t, d, "DELETE", "rule?kind=flow&id=kept", "", headers...)
	require.Equal(t, http.StatusNoContent, answer.StatusCode, v)
	require.Empty(t, g.FlowRules())
}

// breaking is a keeper that panics when it has been told the rules, if it is to.
type breaking struct {
	*keeper
	now *bool
}

func (b breaking) Save(rules func() (leapgate.Rules, error)) error {
	return b.keeper.Save(func() (leapgate.Rules, error) {
		r, err := rules()
		if *b.now {
			panic("half way")
		}
		return r, err
	})
}

// Many change rules of one source at once: each is written, one after the other.
func TestRuleKeepers_OneAtATime(t *testing.T) {
	t.Parallel()
	const editors, edits = 6, 10
	g := gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "kept", Resource: "a", Threshold: 2, Source: "db"})
	k := &keeper{gate: g}
	d := dashboard.Handler(g, dashboard.Config{Authorize: ann, Logger: quiet(), RuleKeepers: []dashboard.RuleKeeper{k}})
	var wg sync.WaitGroup
	for editor := range editors {
		wg.Go(func() {
			for i := range edits {
				r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/rules?kind=flow&source=db", strings.NewReader(`{"resource": "a", "threshold": 1}`))
				if (editor+i)%2 == 0 {
					r = httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/rules?kind=isolation&source=db", strings.NewReader(`{"resource": "a", "maxInFlight": 1}`))
				}
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				d.ServeHTTP(w, r)
				assert.Equal(t, http.StatusCreated, w.Code, w.Body.String())
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1+editors*edits, k.rules.Len())
	require.Equal(t, leapgate.Rules{Flow: g.FlowRules(), Isolation: g.Rules().Isolation}, k.rules)
}
