//go:build unix

package rulefile_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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

func (s *site) pause() { time.Sleep(time.Duration(s.random.Int64N(int64(3 * time.Second)))) }

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

// A file is edited in every way there is. The active rules must always be one of the good versions, and the last one
// whenever the edits pause.
func TestWatch_RandomEdits(t *testing.T) {
	base := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, random: rand.New(rand.NewPCG(1, 1)), base: base, folder: filepath.Join(base, "etc")}
		s.path = filepath.Join(s.folder, "rules.yaml")
		require.NoError(t, os.Mkdir(s.folder, 0o700))
		s.inPlace()
		gate := &versionGate{sources: map[string]bool{}}
		w, err := rulefile.Watch(rulefile.Config{Path: s.path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer w.Close()
		edits := []func(){s.inPlace, s.halfWritten, s.renameOver, s.swap, s.elsewhere, s.deleteAndReturn, s.folderGoes, s.wrong}
		good := 0 // the version of the last edit, or 0 if that was wrong
		for i := range 400 {
			before := s.version
			edits[s.random.IntN(len(edits))]()
			if good = 0; s.version > before {
				good = s.version
			}
			s.pause()
			if s.random.IntN(3) > 0 {
				time.Sleep(2 * time.Second)
			} else {
				continue
			}
			synctest.Wait()
			active, mistake := gate.state()
			require.NoError(t, mistake, "edit %d", i)
			require.Equal(t, good == 0, w.Status().Err != nil, "edit %d", i)
			if good > 0 {
				require.Equal(t, good, active, "edit %d", i)
			}
		}
		require.Equal(t, map[string]bool{s.path: true}, gate.sources)
	})
}

// A pipe is not a regular file: nothing waits for what is written into it.
func TestWatch_PipeReplacesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	good := textOf(t, 1)
	require.NoError(t, os.WriteFile(path, good, 0o600))
	synctest.Test(t, func(t *testing.T) {
		gate := &versionGate{sources: map[string]bool{}}
		w, err := rulefile.Watch(rulefile.Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer w.Close()
		require.NoError(t, syscall.Mkfifo(path+".pipe", 0o600))
		require.NoError(t, os.Rename(path+".pipe", path))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ErrorContains(t, w.Status().Err, "not a regular file")
		require.ErrorIs(t, w.Save(func() (leapgate.Rules, error) { return leapgate.Rules{}, nil }), rulefile.ErrChanged)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.WriteFile(path, good, 0o600))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.NoError(t, w.Status().Err)
		require.EqualValues(t, 1, w.Status().Loads)
	})
}
