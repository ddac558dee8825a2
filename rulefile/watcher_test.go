package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rule"
)

// memory is a gate that keeps what it is given.
type memory struct {
	mu        sync.Mutex
	source    string
	flow      []flow.Rule
	isolation []isolation.Rule
	calls     int
	refuse    error
}

func (g *memory) ReplaceRules(source string, rules leapgate.Rules) error {
	flow, isolation := rules.Flow, rules.Isolation
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.refuse != nil {
		return g.refuse
	}
	g.source, g.flow, g.isolation = source, flow, isolation
	return nil
}

func (g *memory) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = err
}

func (g *memory) loads() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

func (g *memory) threshold() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.flow) == 0 {
		return -1
	}
	return g.flow[0].Threshold
}

func ruleText(threshold int) string {
	return fmt.Sprintf("flow: [{id: a, resource: x, threshold: %d}]\n", threshold)
}

// still returns a watcher whose goroutine does not run, with the rules of a file loaded.
func still(t *testing.T, path string) (*Watcher, *memory, *bytes.Buffer) {
	t.Helper()
	gate, log := &memory{}, &bytes.Buffer{}
	cfg := Config{Path: path, Gate: gate, Logger: slog.New(slog.NewTextHandler(log, nil))}
	require.NoError(t, cfg.complete())
	w := newWatcher(cfg)
	require.NoError(t, w.Reload())
	return w, gate, log
}

func changed(w *Watcher) bool {
	select {
	case <-w.Changes():
		return true
	default:
		return false
	}
}

func TestReload_LoadsAndMarks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1)+"isolation: [{id: b, resource: x, maxInFlight: 2}]")
	before := time.Now()
	w, gate, _ := still(t, path)
	require.Equal(t, path, gate.source)
	require.Equal(t, []flow.Rule{{ID: "a", Resource: "x", Threshold: 1, Source: path}}, gate.flow)
	require.Equal(t, []isolation.Rule{{ID: "b", Resource: "x", MaxInFlight: 2, Source: path}}, gate.isolation)
	status := w.Status()
	require.WithinRange(t, status.Since, before, time.Now())
	require.Equal(t, Status{Path: path, Files: []string{path}, Rules: map[string]int{"flow": 1, "isolation": 1}, Since: status.Since, Loads: 1}, status)
	require.True(t, changed(w))
	require.False(t, changed(w))

	// What is given away is not what is kept.
	gate.flow[0].Threshold = 9
	status.Files[0] = "?"
	w.Rules().Flow[0].Threshold = 9
	require.Equal(t, 1.0, w.Rules().Flow[0].Threshold)
	require.Equal(t, path, w.Status().Files[0])
}

func TestReload_TheSameIsNotLoadedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	w, gate, _ := still(t, path)
	status := w.Status()
	writeFile(t, path, ruleText(1))
	require.NoError(t, w.Reload())
	require.Equal(t, 1, gate.calls)
	require.Equal(t, status, w.Status())
}

func TestReload_KeepsTheLastGoodRules(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "rules.yaml")
	writeFile(t, path, ruleText(1))
	w, gate, log := still(t, path)
	good := w.Status()
	changed(w)
	log.Reset()
	for _, c := range []struct {
		what string
		do   func()
		want string
	}{
		{"wrong", func() { writeFile(t, path, ruleText(-1)) }, "threshold is -1"},
		{"half", func() { writeFile(t, path, ruleText(5)[:20]) }, "did not find expected ',' or '}'"},
		{"gone", func() { require.NoError(t, os.Remove(path)) }, "there is no such file"},
		{"a folder with nothing in it", func() { require.NoError(t, os.Mkdir(path, 0o700)) }, "no rule file in this folder"},
	} {
		c.do()
		for range 3 { // only the first is news
			err := w.Reload()
			require.ErrorIs(t, err, ErrRuleFile, c.what)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, err, w.Status().Err)
		}
		status := w.Status()
		require.False(t, status.ErrSince.IsZero())
		status.Err, status.ErrSince = nil, time.Time{}
		require.Equal(t, good, status)
		require.Equal(t, 1, strings.Count(log.String(), "refused"), log)
		require.Contains(t, log.String(), c.want)
		log.Reset()
		require.True(t, changed(w))
		require.False(t, changed(w))
	}
	require.Equal(t, 1, gate.calls)

	// What is active comes back: all is well, and nothing to load.
	require.NoError(t, os.Remove(path))
	writeFile(t, path, ruleText(1))
	require.NoError(t, w.Reload())
	require.Equal(t, good, w.Status())
	require.Equal(t, 1, gate.calls)
	require.True(t, changed(w))
	require.Contains(t, log.String(), "good again")

	// The same error is news again.
	log.Reset()
	writeFile(t, path, ruleText(-1))
	require.Error(t, w.Reload())
	require.Contains(t, log.String(), "refused")
	writeFile(t, path, ruleText(2))
	require.NoError(t, w.Reload())
	require.Equal(t, 2.0, gate.threshold())
	require.NoError(t, w.Status().Err)
	require.Equal(t, int64(2), w.Status().Loads)
}

// A file that is set right by trial and error has failed since the first fault.
func TestStatus_FailingSinceTheFirstFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := still(t, path)
		good := time.Now()
		at, err := w.LastLoad()
		require.NoError(t, err)
		require.Equal(t, good, at)
		require.Equal(t, path, w.Source())

		time.Sleep(time.Hour)
		failing := time.Now()
		for _, text := range []string{ruleText(-1), "}", ruleText(-2), ruleText(-2)} {
			writeFile(t, path, text)
			require.Error(t, w.Reload())
			require.Equal(t, failing, w.Status().ErrSince)
			require.Equal(t, good, w.Status().Since)
			time.Sleep(time.Minute)
		}
		var found Errors
		require.ErrorAs(t, w.Status().Err, &found)
		require.Len(t, found, 1)
		require.Equal(t, 1, found[0].Line)
		require.Equal(t, "threshold", found[0].Field)
		at, err = w.LastLoad()
		require.Equal(t, w.Status().Err, err)
		require.Equal(t, good, at)

		// Once it was good, the next fault is another failure, also if it reads the same.
		writeFile(t, path, ruleText(1))
		require.NoError(t, w.Reload())
		require.Zero(t, w.Status().ErrSince)
		time.Sleep(time.Minute)
		writeFile(t, path, ruleText(-2))
		require.Error(t, w.Reload())
		require.Equal(t, time.Now(), w.Status().ErrSince)
	})
}

func TestReload_GateRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	w, gate, _ := still(t, path)
	gate.refuse = errors.New("id\x1b[2J taken\nand more")
	writeFile(t, path, ruleText(2))
	err := w.Reload()
	require.ErrorIs(t, err, gate.refuse)
	require.ErrorIs(t, err, ErrRuleFile)
	require.EqualError(t, err, path+`: the gate refused the rules: "id\x1b[2J taken"; and more`)
	require.Equal(t, 1.0, w.Rules().Flow[0].Threshold)

	gate.refuse = rule.Faults{{Kind: "flow", Field: "ID"}, {Kind: "flow", Index: 1, Field: "ID"}}
	var fault *rule.Fault
	require.ErrorAs(t, w.Reload(), &fault)

	// The reason may lie elsewhere: it is tried again, with the same file.
	gate.refuse = nil
	require.NoError(t, w.Reload())
	require.Equal(t, 2.0, gate.threshold())
}

// A rule that is good by itself may not go with the others of the gate.
func TestReload_GateRefusesARule(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, "flow:\n  - {resource: x, threshold: 1}\n  - {id: a, resource: x, threshold: 1}\nisolation:\n  - {id: i, resource: x, maxInFlight: 1}\n")
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{ID: "a", Resource: "own", Threshold: 1}}))
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{ID: "i", Resource: "own", MaxInFlight: 1}}
		return nil
	}))
	w := newWatcher(Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
	err := w.Reload()
	require.EqualError(t, err, path+`:3:5: the gate refused the rules: flow rule 2 ("a" on "x"): ID is "a"; want one that is not the ID of rule 0
`+path+`:5:5: the gate refused the rules: isolation rule 1 ("i" on "x"): ID is "i"; want one that is not the ID of rule 0`)
	require.ErrorIs(t, err, rule.ErrFault)
	require.Equal(t, err, w.Status().Err)
}

func TestWatch_NothingIsStartedIfTheFileIsBad(t *testing.T) {
	t.Parallel() // goleak looks, at the end
	path := filepath.Join(t.TempDir(), "rules.yaml")
	_, err := Watch(Config{Path: path, Gate: &memory{}, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, os.ErrNotExist)
	writeFile(t, path, ruleText(-1))
	gate := &memory{}
	_, err = Watch(Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, rule.ErrFault)
	require.Zero(t, gate.calls)
}

func TestWatch_Optional(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	gate := &memory{}
	w, err := Watch(Config{Path: path, Gate: gate, Optional: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	status := w.Status()
	require.ErrorIs(t, status.Err, os.ErrNotExist)
	require.Zero(t, status.Since)
	require.Empty(t, status.Files)
	require.Zero(t, w.Rules())
	writeFile(t, path, ruleText(3))
	require.NoError(t, w.Reload())
	require.Equal(t, 3.0, gate.threshold())
}

func TestWatch_BadConfig(t *testing.T) {
	t.Parallel()
	_, err := Watch(Config{Poll: 2 * time.Hour})
	require.ErrorIs(t, err, ErrConfig)
	require.EqualError(t, err, `leapgate: bad configuration of a rule file's watcher: Path is empty; want a file or a folder
leapgate: bad configuration of a rule file's watcher: Gate is nil; want a gate
leapgate: bad configuration of a rule file's watcher: Poll is 2h0m0s, must be 0 or between 10ms and 1h`)
}

func TestClose_EndsEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	gate := &memory{}
	w, err := Watch(Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { w.Close() })
		wg.Go(func() {
			for w.Reload() == nil {
				w.Status()
				w.Rules()
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Reload(), ErrClosed)
	calls := gate.calls
	writeFile(t, path, ruleText(2))
	require.ErrorIs(t, w.Reload(), ErrClosed)
	require.Equal(t, calls, gate.calls)
	require.Equal(t, 1.0, w.Rules().Flow[0].Threshold, "the rules stay")
	for range w.Changes() { // until it is closed
	}
}

// Close waits for rules that are just being given to the gate.
func TestClose_WaitsForALoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	gate := &slowGate{entered: make(chan struct{}), leave: make(chan struct{})}
	w, err := Watch(Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	gate.slow = true
	writeFile(t, path, ruleText(2))
	reloaded := make(chan error, 1)
	go func() { reloaded <- w.Reload() }()
	<-gate.entered
	closed := make(chan struct{})
	go func() { w.Close(); close(closed) }()
	<-w.stop
	select {
	case <-closed:
		t.Fatal("Close did not wait")
	default:
	}
	w.Status() // does not wait
	close(gate.leave)
	<-closed
	require.NoError(t, <-reloaded)
}

type slowGate struct {
	slow           bool
	entered, leave chan struct{}
}

func (g *slowGate) ReplaceRules(string, leapgate.Rules) error {
	if g.slow {
		g.entered <- struct{}{}
		<-g.leave
	}
	return nil
}
