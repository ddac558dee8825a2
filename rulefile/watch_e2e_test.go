//go:build e2e && unix

package rulefile_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/rulefile"
)

// The files of these tests are written in versions. The rules of version n all hold n, and n
// tells how many there are, so that what is active is one version or it shows.

func versionOf(flow []flow.Rule, isolation []isolation.Rule) (int, error) {
	if len(flow) == 0 || len(isolation) != 1 {
		return 0, fmt.Errorf("%d flow rules and %d isolation rules", len(flow), len(isolation))
	}
	n := int(flow[0].Threshold)
	if len(flow) != rulesIn(n) {
		return 0, fmt.Errorf("version %d has %d flow rules; want %d", n, len(flow), rulesIn(n))
	}
	for _, r := range flow {
		if int(r.Threshold) != n {
			return 0, fmt.Errorf("a mixture of the versions %d and %v", n, r.Threshold)
		}
	}
	if isolation[0].MaxInFlight != int64(n) {
		return 0, fmt.Errorf("a mixture of the versions %d and %d", n, isolation[0].MaxInFlight)
	}
	return n, nil
}

func rulesIn(n int) int { return 1 + n%17 }

func textOf(t *testing.T, n int) []byte {
	t.Helper()
	var rules leapgate.Rules
	for i := range rulesIn(n) {
		rules.Flow = append(rules.Flow, flow.Rule{ID: fmt.Sprint("f", i), Resource: "GET /", Threshold: float64(n)})
	}
	rules.Isolation = []isolation.Rule{{ID: "i", Resource: "GET /", MaxInFlight: int64(n)}}
	write := rulefile.YAML
	if n%3 == 0 {
		write = rulefile.JSON // valid YAML, too
	}
	text, err := write(rules)
	require.NoError(t, err)
	return text
}

// versionGate holds the rules, and every version that was ever given to it.
type versionGate struct {
	mu      sync.Mutex
	active  int
	mistake error
	sources map[string]bool
}

func (g *versionGate) ReplaceRules(source string, rules leapgate.Rules) error {
	flow, isolation := rules.Flow, rules.Isolation
	g.mu.Lock()
	defer g.mu.Unlock()
	n, err := versionOf(flow, isolation)
	if err != nil && g.mistake == nil {
		g.mistake = err
	}
	g.active = n
	g.sources[source] = true
	return nil
}

func (g *versionGate) state() (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active, g.mistake
}

const settle = 20 * time.Millisecond

// site is a folder with a rule file in it, which is edited in all ways.
type site struct {
	t       *testing.T
	random  *rand.Rand
	base    string // holds all
	folder  string
	path    string // of the rule file
	version int
	links   int
}

func (s *site) next() []byte {
	s.version++
	return textOf(s.t, s.version)
}

func (s *site) pause() { time.Sleep(time.Duration(s.random.Int64N(int64(2 * settle)))) }

// inPlace writes without putting another file in the place.
func (s *site) inPlace() {
	require.NoError(s.t, os.WriteFile(s.path, s.next(), 0o600))
}

// halfWritten writes in two goes. What there is in between is wrong, so that it does no harm
// however long the writer takes.
func (s *site) halfWritten() {
	text := s.next()
	cut := 1 + s.random.IntN(len(text)-1)
	for {
		if _, err := rulefile.Parse(s.path, text[:cut]); err != nil {
			break
		}
		cut = 1 + s.random.IntN(len(text)-1)
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	require.NoError(s.t, err)
	_, err = f.Write(text[:cut])
	require.NoError(s.t, err)
	s.pause()
	_, err = f.Write(text[cut:])
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
}

// renameOver does as editors do.
func (s *site) renameOver() {
	s.put(func(name string) error { return os.WriteFile(name, s.next(), 0o600) })
}

// put makes something beside the file and renames it over that.
func (s *site) put(create func(name string) error) {
	name := filepath.Join(s.folder, fmt.Sprintf(".%d.tmp", s.version))
	require.NoError(s.t, create(name))
	require.NoError(s.t, os.Rename(name, s.path))
}

// swap does as Kubernetes does with a ConfigMap: the file is a link through ..data, which is
// a link to a folder of this version.
func (s *site) swap() {
	text := s.next()
	version := fmt.Sprintf("..v%d", s.version)
	require.NoError(s.t, os.Mkdir(filepath.Join(s.folder, version), 0o700))
	require.NoError(s.t, os.WriteFile(filepath.Join(s.folder, version, "rules.yaml"), text, 0o600))
	data := filepath.Join(s.folder, "..data")
	old, _ := os.Readlink(data)
	require.NoError(s.t, os.Symlink(version, data+"_tmp"))
	require.NoError(s.t, os.Rename(data+"_tmp", data))
	if target, _ := os.Readlink(s.path); target != "..data/rules.yaml" {
		s.put(func(name string) error { return os.Symlink("..data/rules.yaml", name) })
	}
	if old != "" {
		require.NoError(s.t, os.RemoveAll(filepath.Join(s.folder, old)))
	}
}

// elsewhere makes the file a link to one in another folder.
func (s *site) elsewhere() {
	s.links++
	target := filepath.Join(s.base, fmt.Sprintf("elsewhere%d", s.links%5))
	require.NoError(s.t, os.MkdirAll(target, 0o700))
	target = filepath.Join(target, fmt.Sprintf("any%d", s.links))
	require.NoError(s.t, os.WriteFile(target, s.next(), 0o600))
	s.put(func(name string) error { return os.Symlink(target, name) })
}

func (s *site) deleteAndReturn() {
	require.NoError(s.t, os.Remove(s.path))
	s.pause()
	s.inPlace()
}

// folderGoes takes the folder away and puts one in its place.
func (s *site) folderGoes() {
	require.NoError(s.t, os.Rename(s.folder, fmt.Sprintf("%s.old%d", s.folder, s.version)))
	s.pause()
	require.NoError(s.t, os.Mkdir(s.folder, 0o700))
	s.pause()
	s.inPlace()
}

var wrongs = []string{
	"flow: [{resource: x, threshold: -1}]", "flow:\n  - id: f", "flow:\n\t- x", "}", "nonsense", "flow: [&a {resource: x, threshold: 1}]",
	"flow: [{resource: x, threshold: 1}, {resource: y, threshold: 1, unknown: 1}]", "\xff\xfe", "{\"flow\": [", "[1]", "a\x00b", "", "# all gone\n", "flow:\n",
}

func (s *site) wrong() {
	require.NoError(s.t, os.WriteFile(s.path, []byte(wrongs[s.random.IntN(len(wrongs))]), 0o600))
}

// TestWatcher_SurvivesAThousandRandomEdits edits a file in every way there is. All the while,
// what is active must be one of the good versions; and whenever the edits rest, the last one.
func TestWatcher_SurvivesAThousandRandomEdits(t *testing.T) {
	before := handles(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	base := t.TempDir()
	s := &site{t: t, random: rand.New(rand.NewPCG(seed, 1)), base: base, folder: filepath.Join(base, "etc")}
	s.path = filepath.Join(s.folder, "rules.yaml")
	require.NoError(t, os.Mkdir(s.folder, 0o700))
	s.inPlace()
	gate := &versionGate{sources: map[string]bool{}}
	w, err := rulefile.Watch(rulefile.Config{
		Path: s.path, Gate: gate, Settle: settle, Poll: time.Hour, // events alone
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(t, err)
	defer w.Close()

	good := []struct {
		name string
		edit func()
	}{
		{"in place", s.inPlace},
		{"half-written", s.halfWritten},
		{"rename", s.renameOver},
		{"swap", s.swap},
		{"elsewhere", s.elsewhere},
		{"delete and return", s.deleteAndReturn},
		{"folder goes", s.folderGoes},
	}
	counts := map[string]int{}
	rested := 0
	var worst time.Duration
	const edits = 1000
	for i := range edits {
		name, last := "wrong", -1
		if k := s.random.IntN(len(good) + 1); k < len(good) {
			name = good[k].name
			good[k].edit()
			last = s.version
		} else {
			s.wrong()
		}
		counts[name]++
		active, mistake := gate.state()
		require.NoError(t, mistake, "edit %d, %s", i, name)
		require.LessOrEqual(t, active, s.version)
		if s.random.IntN(3) > 0 && i < edits-1 {
			continue
		}
		rested++
		start := time.Now()
		wait(t, w, func(status rulefile.Status) bool {
			active, mistake := gate.state()
			require.NoError(t, mistake, "edit %d, %s", i, name)
			if last < 0 {
				return status.Err != nil
			}
			return active == last && status.Err == nil
		}, func() string {
			active, _ := gate.state()
			return fmt.Sprintf("edit %d, %s: %d is active; want %d", i, name, active, last)
		})
		worst = max(worst, time.Since(start))
	}
	status := w.Status()
	t.Logf("%v; %d loads, %d rests, the longest %v", counts, status.Loads, rested, worst)
	require.Equal(t, map[string]bool{s.path: true}, gate.sources)
	n, err := versionOf(w.Rules().Flow, w.Rules().Isolation)
	require.NoError(t, err)
	active, _ := gate.state()
	require.Equal(t, active, n)
	for _, r := range w.Rules().Flow {
		require.Equal(t, s.path, r.Source)
	}

	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	goleak.VerifyNone(t)
	require.Equal(t, before, handles(t), "inotify handles")
}

// wait waits until the status is as it should be.
func wait(t *testing.T, w *rulefile.Watcher, ok func(rulefile.Status) bool, describe func() string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok(w.Status()) {
		if time.Now().After(deadline) {
			t.Fatalf("%s; %+v", describe(), w.Status())
		}
		time.Sleep(settle / 8)
	}
}

// handles counts the inotify handles of the process.
func handles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log("no /proc: handles are not counted")
		return 0
	}
	n := 0
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.Contains(target, "inotify") {
			n++
		}
	}
	return n
}

// TestWatcher_FolderOfFiles goes through what happens to a folder: files come, change, are
// linked, and go.
func TestWatcher_FolderOfFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "rules.d")
	require.NoError(t, os.Mkdir(folder, 0o700))
	write := func(name string, threshold int) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), fmt.Appendf(nil, "flow: [{id: %s, resource: x, threshold: %d}]\n", name, threshold), 0o600))
	}
	write("a.yaml", 1)
	gate := &listGate{}
	w, err := rulefile.Watch(rulefile.Config{Path: folder, Gate: gate, Settle: settle, Poll: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	expect := func(want string, failing bool) {
		t.Helper()
		wait(t, w, func(status rulefile.Status) bool { return gate.String() == want && (status.Err != nil) == failing },
			func() string { return fmt.Sprintf("%q is active; want %q", gate.String(), want) })
	}
	expect("a.yaml=1", false)
	write("b.yml", 2)
	expect("a.yaml=1 b.yml=2", false)
	write("b.yml", 3)
	write(".hidden.yaml", 9)
	write("notes.txt", 9)
	expect("a.yaml=1 b.yml=3", false)
	write("b.yml", -1)
	expect("a.yaml=1 b.yml=3", true)
	require.NoError(t, os.Remove(filepath.Join(folder, "b.yml")))
	expect("a.yaml=1", false)

	elsewhere := filepath.Join(t.TempDir(), "c")
	require.NoError(t, os.WriteFile(elsewhere, []byte("flow: [{id: c, resource: x, threshold: 4}]\n"), 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(folder, "c.json.yaml")))
	expect("a.yaml=1 c=4", false)
	require.NoError(t, os.WriteFile(elsewhere, []byte("flow: [{id: c, resource: x, threshold: 5}]\n"), 0o600))
	expect("a.yaml=1 c=5", false)

	require.NoError(t, os.RemoveAll(folder))
	expect("a.yaml=1 c=5", true)
	require.NoError(t, os.Mkdir(folder, 0o700))
	write("d.yaml", 6)
	expect("d.yaml=6", false)
}

type listGate struct {
	mu    sync.Mutex
	rules []flow.Rule
}

func (g *listGate) ReplaceRules(_ string, rules leapgate.Rules) error {
	flow := rules.Flow
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules = flow
	return nil
}

func (g *listGate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	parts := make([]string, len(g.rules))
	for i, r := range g.rules {
		parts[i] = fmt.Sprintf("%s=%v", r.ID, r.Threshold)
	}
	return strings.Join(parts, " ")
}

// TestWatcher_PollFindsWhatNobodyTold has no events: the folder far up in the path is replaced.
func TestWatcher_PollFindsWhatNobodyTold(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "a", "b", "c", "rules.yaml")
	write := func(n int) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, textOf(t, n), 0o600))
	}
	write(1)
	gate := &versionGate{sources: map[string]bool{}}
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Settle: settle, Poll: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	for n := 2; n < 5; n++ {
		require.NoError(t, os.Rename(filepath.Join(base, "a"), filepath.Join(base, fmt.Sprint("old", n))))
		write(n)
		wait(t, w, func(rulefile.Status) bool { active, _ := gate.state(); return active == n }, func() string { return fmt.Sprint("version ", n) })
	}
	_, mistake := gate.state()
	assert.NoError(t, mistake)
}

// A file that is emptied is refused. One that says that it has no rules lifts them.
func TestWatcher_EmptiedFileLiftsNoRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("flow: [{id: a, resource: x, threshold: 1}]"), 0o600))
	gate := &listGate{}
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Settle: settle, Poll: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, os.Truncate(path, 0))
	wait(t, w, func(status rulefile.Status) bool { return status.Err != nil }, gate.String)
	require.Equal(t, "a=1", gate.String())
	require.NoError(t, os.WriteFile(path, []byte("rules: none\n"), 0o600))
	wait(t, w, func(status rulefile.Status) bool { return gate.String() == "" && status.Err == nil }, gate.String)
}

// A writer that pauses in the middle of a file is waited for, though the half is a good file.
func TestWatcher_GoodHalfOfAFileIsNotLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("flow: [{id: a, resource: x, threshold: 100}]"), 0o600))
	gate := &listGate{}
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Settle: 3 * time.Second, Poll: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0o600)
	require.NoError(t, err)
	for _, part := range []string{"flow:\n  - id: a\n    resource: x\n    threshold: 2", "4", "0\n"} {
		_, err = f.WriteString(part)
		require.NoError(t, err)
		for range 35 {
			time.Sleep(10 * time.Millisecond)
			require.Contains(t, []string{"a=100", "a=240"}, gate.String())
		}
	}
	require.NoError(t, f.Close())
	wait(t, w, func(rulefile.Status) bool { return gate.String() == "a=240" }, gate.String)
	require.Equal(t, int64(2), w.Status().Loads)
}

// A pipe in the place of the file is no file, and nobody waits for what is written into it.
func TestWatcher_PipeInThePlaceOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	good := []byte("flow: [{id: a, resource: x, threshold: 1}]")
	require.NoError(t, os.WriteFile(path, good, 0o600))
	gate := &listGate{}
	w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Settle: settle, Poll: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, syscall.Mkfifo(path+".pipe", 0o600))
	require.NoError(t, os.Rename(path+".pipe", path))
	wait(t, w, func(status rulefile.Status) bool { return status.Err != nil }, gate.String)
	require.ErrorContains(t, w.Status().Err, "no regular file")
	require.ErrorIs(t, w.Save(func() (leapgate.Rules, error) { return leapgate.Rules{}, nil }), rulefile.ErrChanged)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, good, 0o600))
	wait(t, w, func(status rulefile.Status) bool { return status.Err == nil }, gate.String)
	require.Equal(t, "a=1", gate.String())
}
