package rulefile

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

// ears are a listener that hears nothing.
type ears struct {
	added   int // how often it was asked to listen: once for each reading
	folders []string
	deaf    error
	closed  bool
}

func (e *ears) Add(folder string) error {
	e.added++
	if e.deaf != nil {
		return e.deaf
	}
	if _, err := os.Stat(folder); err != nil {
		return err
	}
	if !slices.Contains(e.folders, folder) {
		e.folders = append(e.folders, folder)
	}
	return nil
}

func (e *ears) Remove(folder string) error {
	e.folders = slices.DeleteFunc(e.folders, func(f string) bool { return f == folder })
	return nil
}

func (e *ears) WatchList() []string { return slices.Clone(e.folders) }

func (e *ears) Close() error {
	e.closed = true
	return nil
}

// playing runs a watcher in the fake time of a bubble; notices are sent by hand.
type playing struct {
	*Watcher
	t       *testing.T
	gate    *memory
	path    string
	ears    *ears
	notices chan fsnotify.Event
	faults  chan error
}

func play(t *testing.T, path string) *playing {
	t.Helper()
	writeFile(t, path, ruleText(1))
	p := &playing{t: t, gate: &memory{}, path: path, ears: &ears{}, notices: make(chan fsnotify.Event), faults: make(chan error)}
	cfg := Config{Path: path, Gate: p.gate, Logger: slog.New(slog.DiscardHandler)}
	require.NoError(t, cfg.complete())
	p.Watcher = newWatcher(cfg)
	require.NoError(t, p.Reload())
	p.folders = newFolders(path, p.ears)
	go p.run(p.notices, p.faults)
	synctest.Wait()
	return p
}

// hear writes a version and tells of it.
func (p *playing) hear(threshold int) {
	p.t.Helper()
	writeFile(p.t, p.path, ruleText(threshold))
	p.notices <- fsnotify.Event{Name: p.path, Op: fsnotify.Write}
}

// after lets time pass, and tells what is active then.
func (p *playing) after(d time.Duration) float64 {
	time.Sleep(d)
	synctest.Wait()
	return p.gate.threshold()
}

const moment = time.Nanosecond

func TestRun_LoadsWhenTheFileHasComeToRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		p.hear(2)
		require.Equal(t, 1.0, p.after(defaultSettle-moment))
		// It is read at once, or, so soon after the last time, a little later.
		require.Equal(t, 2.0, p.after(defaultSettle/maxReads+moment))
		require.Equal(t, time.Now(), p.Status().Since)

		for i := range 5 { // each change puts it off
			p.hear(3 + i)
			require.Equal(t, 2.0, p.after(defaultSettle-moment))
		}
		require.Equal(t, 7.0, p.after(moment+defaultSettle/maxReads))
		require.Equal(t, 3, p.gate.calls)
	})
}

// Half of a file may be a good one.
func TestRun_GoodHalfOfAFileIsNotLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		text := ruleText(24)
		digits := strings.Index(text, "24")
		for _, half := range []string{"", text[:10], "flow:\n  - {id: a, resource: x, threshold: 2}", "flow:\n  - {id: a, resource: x, threshold: 24}\nisolation: []"} {
			require.Positive(t, digits)
			writeFile(t, path, half)
			p.notices <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			for range 35 {
				require.Equal(t, 1.0, p.after(10*time.Millisecond)) // it takes 350 ms to write on
			}
		}
		require.Equal(t, 24.0, p.after(defaultSettle))
		require.Equal(t, 2, p.gate.calls, "nothing was loaded in between")
		require.NoError(t, p.Status().Err)
	})
}

// What nobody changes is loaded, however often somebody touches it.
func TestRun_FileThatIsOnlyTouchedIsStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		writeFile(t, path, ruleText(2))
		start := time.Now()
		for p.gate.threshold() == 1 {
			p.notices <- fsnotify.Event{Name: path, Op: fsnotify.Chmod}
			p.after(defaultSettle / 20)
			require.LessOrEqual(t, time.Since(start), defaultSettle+2*defaultSettle/maxReads)
		}
		require.Equal(t, 2.0, p.gate.threshold())
	})
}

// A file that never comes to rest is told of, is not loaded, and is loaded when it does.
func TestRun_FileThatChangesForEver(t *testing.T) {
	for name, heard := range map[string]bool{"which is heard": true, "which nobody tells": false} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rules.yaml")
			synctest.Test(t, func(t *testing.T) {
				p := play(t, path)
				defer p.Close()
				writeFile(t, path, ruleText(2))
				if !heard {
					p.after(defaultPoll) // which finds the first change
				}
				start := time.Now()
				for i := 3; p.Status().Err == nil; i++ {
					writeFile(t, path, ruleText(i))
					if heard {
						p.notices <- fsnotify.Event{Name: path, Op: fsnotify.Write}
					}
					require.Equal(t, 1.0, p.after(defaultSettle/3))
					require.LessOrEqual(t, time.Since(start), (maxSettles+2)*defaultSettle)
				}
				require.Greater(t, time.Since(start), (maxSettles-1)*defaultSettle)
				require.EqualError(t, p.Status().Err, path+": it keeps changing; it is loaded when it has been still for 1s")
				writeFile(t, path, ruleText(9999))
				require.Equal(t, 9999.0, p.after(2*defaultSettle+defaultPoll))
				require.NoError(t, p.Status().Err)
			})
		})
	}
}

// However often a path is told of, it is not read more often than ten times a second.
func TestRun_FloodOfNoticesIsFewReadings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		before := p.ears.added
		for range 10_000 {
			p.notices <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			p.after(time.Millisecond)
		}
		require.LessOrEqual(t, p.ears.added-before, 101)
	})
}

func TestRun_OtherFilesInTheFolderDoNotMatter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		writeFile(t, path, ruleText(2))
		p.notices <- fsnotify.Event{Name: path + ".swp", Op: fsnotify.Create}
		require.Equal(t, 1.0, p.after(defaultPoll/2))
		require.Equal(t, 2.0, p.after(defaultPoll/2+defaultSettle), "the poll finds it")
	})
}

func TestRun_PollFindsWhatWasNotTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		writeFile(t, path, ruleText(2))
		require.Equal(t, 1.0, p.after(defaultPoll+defaultSettle-moment))
		require.Equal(t, 2.0, p.after(moment))
		close(p.notices) // nothing more will ever be heard
		close(p.faults)
		writeFile(t, path, ruleText(3))
		require.Equal(t, 3.0, p.after(defaultPoll+defaultSettle))
	})
}

func TestRun_LostNoticesAreANotice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		writeFile(t, path, ruleText(2))
		p.faults <- fsnotify.ErrEventOverflow
		require.Equal(t, 2.0, p.after(defaultSettle+defaultSettle/maxReads))
	})
}

func TestRun_HalfWrittenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		defer p.Close()
		text := ruleText(2)
		for i := range len(text) - 1 { // one byte at a time, as slowly as it likes
			writeFile(t, path, text[:i])
			p.notices <- fsnotify.Event{Name: path, Op: fsnotify.Write}
			require.Equal(t, 1.0, p.after(20*defaultSettle))
		}
		require.Error(t, p.Status().Err)
		p.hear(2)
		require.Equal(t, 2.0, p.after(2*defaultSettle))
		require.NoError(t, p.Status().Err)
	})
}

func TestRun_CloseEndsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	synctest.Test(t, func(t *testing.T) {
		p := play(t, path)
		p.hear(2)
		require.NoError(t, p.Close())
		require.True(t, p.ears.closed)
		require.Equal(t, 1.0, p.after(time.Hour))
	})
}

func TestFolders_FollowsLinks(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	at := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	require.NoError(t, os.MkdirAll(at("etc", "..1"), 0o700))
	require.NoError(t, os.MkdirAll(at("srv", "b"), 0o700))
	writeFile(t, at("etc", "..1", "r.yaml"), "")
	writeFile(t, at("srv", "b", "r.yaml"), "")
	require.NoError(t, os.Symlink("..1", at("etc", "..data")))
	require.NoError(t, os.Symlink("..data/r.yaml", at("etc", "r.yaml")))
	require.NoError(t, os.Symlink("etc", at("link")))
	require.NoError(t, os.Symlink(at("srv", "b"), at("srv", "a")))
	require.NoError(t, os.Symlink("../srv/./a/r.yaml", at("etc", "far.yaml")))
	require.NoError(t, os.Symlink("loop", at("loop")))

	for _, c := range []struct {
		path    string
		folders map[string]bool
		entries []string
	}{
		{at("srv", "b", "r.yaml"), map[string]bool{at("srv", "b"): false}, []string{at("srv", "b", "r.yaml")}},
		{
			at("link", "r.yaml"),
			map[string]bool{base: false, at("etc"): false, at("etc", "..1"): false},
			[]string{at("link"), at("etc", "r.yaml"), at("etc", "..data"), at("etc", "..1", "r.yaml")},
		},
		{
			at("etc", "far.yaml"),
			map[string]bool{at("etc"): false, at("srv"): false, at("srv", "b"): false},
			[]string{at("etc", "far.yaml"), at("srv", "a"), at("srv", "b", "r.yaml")},
		},
		{
			at("etc"), // a folder: all of it, and where its links lead
			map[string]bool{base: false, at("etc"): true, at("etc", "..1"): false, at("srv"): false, at("srv", "b"): false},
			[]string{
				at("etc"), at("etc", "r.yaml"), at("etc", "..data"), at("etc", "..1", "r.yaml"),
				at("etc", "far.yaml"), at("srv", "a"), at("srv", "b", "r.yaml"),
			},
		},
		{at("gone", "further", "r.yaml"), map[string]bool{base: false}, []string{at("gone")}},
		{at("loop", "r.yaml"), map[string]bool{base: false}, []string{at("loop")}},
	} {
		s := interestOf(c.path)
		require.Equal(t, c.folders, s.folders, c.path)
		require.Len(t, s.entries, len(c.entries), c.path)
		for _, entry := range c.entries {
			require.True(t, s.entries[entry], entry)
		}
	}
}

func TestFolders_ListensWhereThePathLeads(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	e := &ears{}
	f := newFolders(filepath.Join(base, "a", "r.yaml"), e)
	require.NoError(t, f.follow())
	require.Equal(t, []string{base}, e.folders)
	require.True(t, f.concerns(filepath.Join(base, "a")))
	require.False(t, f.concerns(filepath.Join(base, "b")))
	require.NoError(t, os.Mkdir(filepath.Join(base, "a"), 0o700))
	require.NoError(t, f.follow())
	require.Equal(t, []string{filepath.Join(base, "a")}, e.folders)
	require.True(t, f.concerns(filepath.Join(base, "a")), "it may be taken away")
	require.True(t, f.concerns(filepath.Join(base, "a", "r.yaml")))
	require.False(t, f.concerns(filepath.Join(base, "a", "r.yaml.new")))

	e.deaf = errors.New("no more watches")
	require.ErrorIs(t, f.follow(), e.deaf)
	require.NoError(t, f.follow(), "it was said")
	e.deaf = fs.ErrNotExist
	require.NoError(t, f.follow(), "it has just gone")
	require.NotPanics(t, func() { interestOf(strings.Repeat("x/", 1000)) })
}
