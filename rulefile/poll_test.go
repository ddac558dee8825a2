package rulefile

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fixture is a running watcher of a rule file in the fake time of a synctest bubble.
type fixture struct {
	*Watcher
	t    *testing.T
	path string
	gate *memory
}

// watching runs test in a synctest bubble with a watcher of a file that has threshold 1.
func watching(t *testing.T, test func(f *fixture)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	synctest.Test(t, func(t *testing.T) {
		gate := &memory{}
		w, err := Watch(Config{Path: path, Gate: gate, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer w.Close()
		test(&fixture{w, t, path, gate})
	})
}

func (f *fixture) write(text string) { writeFile(f.t, f.path, text) }

// after waits for some polls and returns the active threshold.
func (f *fixture) after(polls int) float64 {
	time.Sleep(time.Duration(polls) * defaultPoll)
	synctest.Wait()
	return f.gate.threshold()
}

func TestPoll_LoadsWhatTwoPollsFind(t *testing.T) {
	watching(t, func(f *fixture) {
		require.Equal(t, 1.0, f.after(100))
		require.Equal(t, 1, f.gate.loads(), "the same content is not loaded again")
		for n := 2; n < 7; n++ {
			f.write(ruleText(n))
			require.Equal(t, 1.0, f.after(1))
		}
		require.Equal(t, 6.0, f.after(1))
		require.Equal(t, time.Now(), f.Status().Since)
		require.Equal(t, 2, f.gate.loads())
	})
}

func TestPoll_ValidHalfOfAFileIsNotLoaded(t *testing.T) {
	watching(t, func(f *fixture) {
		for _, half := range []string{"", "flow:\n", "flow:\n  - {id: a, resource: x, threshold: 2}", "flow:\n  - {id: a, resource: x, threshold: 24}"} {
			f.write(half)
			require.Equal(t, 1.0, f.after(1))
			require.NoError(t, f.Status().Err)
		}
		require.Equal(t, 24.0, f.after(1))
	})
}

func TestPoll_InvalidHalfOfAFileKeepsTheRules(t *testing.T) {
	watching(t, func(f *fixture) {
		text := ruleText(2)
		for i := range len(text) - 1 {
			f.write(text[:i])
			require.Equal(t, 1.0, f.after(2), text[:i])
			require.Error(t, f.Status().Err, text[:i])
		}
		f.write(text)
		require.Equal(t, 2.0, f.after(2))
		require.NoError(t, f.Status().Err)
	})
}

func TestPoll_FileThatKeepsChanging(t *testing.T) {
	watching(t, func(f *fixture) {
		for n := range maxChanged {
			f.write(ruleText(2 + n))
			require.Equal(t, 1.0, f.after(1))
			require.NoError(t, f.Status().Err)
		}
		f.write(ruleText(100))
		require.Equal(t, 1.0, f.after(1))
		require.EqualError(t, f.Status().Err, f.path+": it keeps changing; it is loaded when it has not changed for 1s")
		require.Equal(t, 100.0, f.after(1))
		require.NoError(t, f.Status().Err)
	})
}

// An empty file does not say that there are no rules.
func TestPoll_EmptiedFileKeepsTheRules(t *testing.T) {
	watching(t, func(f *fixture) {
		for _, text := range []string{"", "\n", "# " + ruleText(1), "---\n", "flow:\n", "{}"} {
			f.write(text)
			require.Equal(t, 1.0, f.after(2), "%q", text)
			require.ErrorIs(t, f.Status().Err, ErrRuleFile, "%q", text)
		}
		f.write("flow: [] # none")
		require.Equal(t, -1.0, f.after(2))
		require.NoError(t, f.Status().Err)
		require.Zero(t, f.Status().Rules["flow"])
	})
}

func TestPoll_RemovedFileKeepsTheRules(t *testing.T) {
	watching(t, func(f *fixture) {
		require.NoError(t, os.Remove(f.path))
		require.Equal(t, 1.0, f.after(2))
		require.ErrorIs(t, f.Status().Err, os.ErrNotExist)
		f.write(ruleText(1))
		require.Equal(t, 1.0, f.after(2))
		require.NoError(t, f.Status().Err)
		require.Equal(t, 1, f.gate.loads())
	})
}

// A size and a modification time that stay the same do not hide a change.
func TestPoll_ChangeWithTheSameSizeAndTime(t *testing.T) {
	watching(t, func(f *fixture) {
		info, err := os.Stat(f.path)
		require.NoError(t, err)
		f.write(ruleText(2))
		require.NoError(t, os.Chtimes(f.path, info.ModTime(), info.ModTime()))
		require.Equal(t, 2.0, f.after(2))
	})
}

// The gate may block the rules because of others, which go away.
func TestPoll_TriesAgainWhatTheGateDidNotTake(t *testing.T) {
	watching(t, func(f *fixture) {
		f.gate.fail(errors.New("not now"))
		f.write(ruleText(2))
		require.Equal(t, 1.0, f.after(3*retryPolls))
		require.Equal(t, 5, f.gate.loads(), "one load, one failed, three retries")
		f.gate.fail(nil)
		require.Equal(t, 2.0, f.after(retryPolls))
		require.NoError(t, f.Status().Err)
	})
}

func TestPoll_FolderOfFiles(t *testing.T) {
	base := t.TempDir()
	folder, elsewhere := filepath.Join(base, "rules.d"), filepath.Join(base, "elsewhere")
	write := func(name, id string) { writeFile(t, name, "flow: [{id: "+id+", resource: x, threshold: 1}]") }
	require.NoError(t, os.Mkdir(folder, 0o700))
	at := func(name string) string { return filepath.Join(folder, name) }
	write(at("a.yaml"), "a")
	synctest.Test(t, func(t *testing.T) {
		w, err := Watch(Config{Path: folder, Gate: &memory{}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer w.Close()
		expect := func(want string, failing bool) {
			t.Helper()
			time.Sleep(2 * defaultPoll)
			synctest.Wait()
			ids := ""
			for _, r := range w.Rules().Flow {
				ids += r.ID
			}
			require.Equal(t, want, ids)
			require.Equal(t, failing, w.Status().Err != nil)
		}
		write(at("b.yml"), "b")
		write(at(".hidden.yaml"), "h")
		write(at("notes.txt"), "n")
		expect("ab", false)
		writeFile(t, at("b.yml"), "")
		expect("ab", true)
		require.NoError(t, os.Remove(at("b.yml")))
		expect("a", false)
		write(elsewhere, "c")
		require.NoError(t, os.Symlink(elsewhere, at("c.json.yaml")))
		expect("ac", false)
		write(elsewhere, "d")
		expect("ad", false)
		require.NoError(t, os.RemoveAll(folder))
		expect("ad", true)
		require.NoError(t, os.Mkdir(folder, 0o700))
		write(at("e.yaml"), "e")
		expect("e", false)
	})
}

func TestClose_DoesNotWaitForAFileSystemThatHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	for name, reading := range map[string]func(*Watcher) error{
		"poll":   func(w *Watcher) error { return w.locked(w.poll) },
		"Reload": (*Watcher).Reload,
		"Save":   func(w *Watcher) error { return w.Save(of(2)) },
	} {
		writeFile(t, path, ruleText(1))
		synctest.Test(t, func(t *testing.T) {
			w, gate, _ := still(t, path)
			close(w.ended) // its goroutine does not run
			answer := make(chan struct{})
			w.files = func(path string) (*content, error) {
				<-answer
				return readFiles(path)
			}
			failed := make(chan error, 1)
			go func() { failed <- reading(w) }()
			synctest.Wait()
			require.NoError(t, w.Close(), name)
			require.ErrorIs(t, <-failed, ErrClosed, name)
			require.NoError(t, w.Status().Err, name)
			writeFile(t, path, ruleText(3))
			close(answer)
			synctest.Wait()
			require.Equal(t, 1, gate.loads(), name)
		})
	}
}

func TestClose_EndsThePolling(t *testing.T) {
	watching(t, func(f *fixture) {
		f.write(ruleText(2))
		require.NoError(t, f.Close())
		require.Equal(t, 1.0, f.after(100))
	})
}

func TestPoll_LongPath(t *testing.T) {
	t.Parallel()
	_, err := Watch(Config{Path: strings.Repeat("x/", 5000), Gate: &memory{}, Logger: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, ErrRuleFile)
}
