package rulefile

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

func of(threshold float64) func() (leapgate.Rules, error) {
	return just(leapgate.Rules{Flow: []flow.Rule{{ID: "a", Resource: "x", Threshold: threshold, Source: "not written"}}})
}

func just(rules leapgate.Rules) func() (leapgate.Rules, error) {
	return func() (leapgate.Rules, error) { return rules, nil }
}

// onlyFiles tells that nothing was left beside the rule files.
func onlyFiles(t *testing.T, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
	}
	require.Equal(t, names, there)
}

func TestSave_WritesAndLoads(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"rules.yaml": "{\"flow\": [{\"id\": \"a\", \"resource\": \"x\", \"threshold\": 2}]}\n", // as it was written
		"rules.JSON": "{\n  \"flow\": [\n    {\"id\": \"a\", \"resource\": \"x\", \"threshold\": 2}\n  ]\n}\n",
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, name)
		writeFile(t, path, `{"flow": [{"id": "a", "resource": "x", "threshold": 1}]}`)
		require.NoError(t, os.Chmod(path, 0o640))
		w, gate, _ := still(t, path)
		require.True(t, changed(w))
		require.NoError(t, w.Save(of(2)))
		require.True(t, changed(w))
		require.Equal(t, 2.0, gate.threshold())
		require.Equal(t, path, gate.source)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o640), info.Mode())
		onlyFiles(t, folder, name)
		require.NoError(t, w.Reload())
		require.Equal(t, 2, gate.calls, "it is not loaded a second time")
		require.NoError(t, w.Save(just(leapgate.Rules{})))
		require.Equal(t, -1.0, gate.threshold())
	}
}

func TestSave_ThroughALinkAndInAFolder(t *testing.T) {
	t.Parallel()
	folder, elsewhere := t.TempDir(), t.TempDir()
	file, link := filepath.Join(elsewhere, "real.yaml"), filepath.Join(folder, "rules.yaml")
	writeFile(t, file, ruleText(1))
	require.NoError(t, os.Symlink(file, link))
	w, gate, _ := still(t, folder)
	require.NoError(t, w.Save(of(2)))
	require.Equal(t, 2.0, gate.threshold())
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSymlink)
	onlyFiles(t, folder, "rules.yaml")
	onlyFiles(t, elsewhere, "real.yaml")

	writeFile(t, filepath.Join(folder, "more.yaml"), "flow: []")
	require.NoError(t, w.Reload())
	require.ErrorContains(t, w.Save(of(3)), "in 2 files; want one")
	require.Equal(t, 2.0, gate.threshold())
}

func TestSave_WhatOthersWroteStays(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "rules.yaml")
	writeFile(t, path, ruleText(1))
	w, gate, _ := still(t, path)
	keeps := func(text string, is error) {
		t.Helper()
		require.ErrorIs(t, w.Save(of(3)), is)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		require.Equal(t, 1.0, gate.threshold())
		onlyFiles(t, folder, "rules.yaml")
	}
	for _, text := range []string{ruleText(2), ruleText(1) + "# soon more\n", "flow: [half", ""} {
		writeFile(t, path, text)
		keeps(text, ErrChanged)
	}
	// So it is if the rules are no good, or the gate refuses them.
	writeFile(t, path, ruleText(1))
	require.ErrorIs(t, w.Save(of(-1)), ErrRuleFile)
	require.ErrorIs(t, w.Save(just(leapgate.Rules{Flow: []flow.Rule{{ID: "\xff", Resource: "x"}}})), ErrRuleFile)
	own := errors.New("not now")
	require.ErrorIs(t, w.Save(func() (leapgate.Rules, error) { return leapgate.Rules{}, own }), own)
	gate.refuse = errors.New("not these")
	keeps(ruleText(1), ErrRuleFile)
	gate.refuse = nil
	require.NoError(t, w.Status().Err, "the file is as it was")

	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, w.Save(of(3)), ErrChanged)
	require.ErrorIs(t, w.Save(of(3)), fs.ErrNotExist)
	onlyFiles(t, folder)
	w.closed = true
	require.ErrorIs(t, w.Save(of(3)), ErrClosed)
}

// What the gate refuses is never in the file, not even for a moment: a crash would leave it there.
func TestSave_TheGateIsAskedBeforeTheFileIsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	reading := &readingGate{path: path}
	w := newWatcher(Config{Path: path, Gate: reading, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, w.Reload())
	reading.refuse = errors.New("not these")
	require.ErrorIs(t, w.Save(of(2)), reading.refuse)
	require.Equal(t, []string{ruleText(1), ruleText(1)}, reading.held)
	onlyFiles(t, filepath.Dir(path), "rules.yaml")
}

// readingGate reads the file when it is asked to take its rules.
type readingGate struct {
	path   string
	refuse error
	held   []string
}

func (g *readingGate) ReplaceRules(string, leapgate.Rules) error {
	data, err := os.ReadFile(g.path)
	g.held = append(g.held, string(data))
	return errors.Join(err, g.refuse)
}

// The gate goes back to what is in the file if that cannot be replaced.
func TestSave_FileThatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "rules.yaml")
	writeFile(t, path, ruleText(1))
	gate := &obstructing{path: path}
	w := newWatcher(Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, w.Reload())
	gate.obstruct = true
	require.Error(t, w.Save(of(2)))
	require.Equal(t, 1.0, gate.threshold())
	require.Equal(t, 1.0, w.Rules().Flow[0].Threshold)
	onlyFiles(t, folder, "rules.yaml")
}

// obstructing is a gate that puts a folder in the place of the file.
type obstructing struct {
	memory
	path     string
	obstruct bool
}

func (g *obstructing) ReplaceRules(source string, rules leapgate.Rules) error {
	if g.obstruct {
		if err := errors.Join(os.RemoveAll(g.path), os.MkdirAll(filepath.Join(g.path, "inside"), 0o700)); err != nil {
			return err
		}
	}
	return g.memory.ReplaceRules(source, rules)
}

func TestSave_NothingWasLoadedYet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	w, err := Watch(Config{Path: path, Gate: &memory{}, Optional: true, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	require.ErrorIs(t, w.Save(of(1)), ErrChanged)
}

// The function that makes the rules may call the watcher.
func TestSave_FunctionCallsTheWatcher(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	w, _, _ := still(t, path)
	saving := func(then func() error) error {
		return w.Save(func() (leapgate.Rules, error) {
			if err := then(); err != nil {
				return leapgate.Rules{}, err
			}
			return of(5)()
		})
	}
	require.NoError(t, saving(w.Reload), "nothing new")
	require.EqualValues(t, 5, w.Rules().Flow[0].Threshold)

	// What is loaded meanwhile is not overwritten, nor is what was loaded and is gone again.
	for _, texts := range [][]string{{ruleText(2)}, {ruleText(3), ruleText(2)}} {
		err := saving(func() error {
			for _, text := range texts {
				writeFile(t, path, text)
				if err := w.Reload(); err != nil {
					return err
				}
			}
			return nil
		})
		require.ErrorIs(t, err, ErrChanged)
		require.EqualValues(t, 2, w.Rules().Flow[0].Threshold)
	}
}

// A reader of the file gets all of one version while it is saved.
func TestSave_IsReadWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	w, _, _ := still(t, path)
	many := func(threshold float64) func() (leapgate.Rules, error) {
		var r leapgate.Rules
		for range 20 {
			r.Flow = append(r.Flow, flow.Rule{Resource: strings.Repeat("x", 500), Threshold: threshold})
		}
		return just(r)
	}
	require.NoError(t, w.Save(many(0)))
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := range 20 {
			assert.NoError(t, w.Save(many(float64(i))))
		}
	})
	for range 100 {
		rules, err := Read(path)
		require.NoError(t, err)
		require.Len(t, rules.Flow, 20)
		require.Equal(t, rules.Flow[0].Threshold, rules.Flow[19].Threshold)
	}
}
