package rulefile

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The handler of the logger belongs to the program, and may ask the watcher.
func TestLog_HandlerMayCallTheWatcher(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	synctest.Test(t, func(t *testing.T) { // which fails if all wait for each other
		h := &asking{seen: map[string]int{}}
		w := newWatcher(Config{Path: path, Gate: &memory{}, Logger: slog.New(h)})
		h.watcher = w
		require.NoError(t, w.Reload())
		writeFile(t, path, ruleText(-1))
		require.Error(t, w.Reload())
		writeFile(t, path, ruleText(1))
		require.NoError(t, w.Reload())
		require.NoError(t, w.Save(of(2)))
		require.Equal(t, map[string]int{
			"leapgate: rules loaded":                                            2,
			"leapgate: rule file refused, the rules stay as they are":           1,
			"leapgate: rule file is good again, with the rules that are active": 1,
		}, h.seen)
	})
}

// asking is a log handler that reads the rules again whenever it is told something.
type asking struct {
	slog.Handler // for what is not asked
	watcher      *Watcher
	seen         map[string]int
}

func (h *asking) Enabled(context.Context, slog.Level) bool { return true }

func (h *asking) Handle(_ context.Context, r slog.Record) error {
	h.seen[r.Message]++
	h.watcher.Status()
	return h.watcher.Reload()
}

func TestLog_NothingFromOutsideIsUnescaped(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a\x1b[31m\nb")
	require.NoError(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "rules.yaml")
	writeFile(t, path, ruleText(1))
	gate := &memory{}
	var log rawHandler
	w, err := Watch(Config{Path: path, Gate: gate, Logger: slog.New(&log)})
	require.NoError(t, err)
	writeFile(t, path, "flow: [{resource: x, threshold: 1, \"\\e]0;\\n\\u202e\": 5, id: \"\\n\\n\", mode: \"\\e[1m\"}]\n\"\\r\\n\": 1")
	require.Error(t, w.Reload())
	gate.refuse = errors.New("\x1b\n\x1b")
	writeFile(t, path, ruleText(2))
	require.Error(t, w.Reload())
	require.NoError(t, w.Close())
	require.Len(t, log.lines, 3)
	for _, line := range log.lines {
		require.NotContains(t, line, "\n")
		require.NotContains(t, line, "\r")
		require.NotContains(t, line, "\x1b")
		require.NotContains(t, line, "\u202e")
	}
}

func TestOneLine_IsBounded(t *testing.T) {
	t.Parallel()
	err := errors.New(strings.Repeat("a\n", 100) + "z")
	require.Equal(t, "a; a; a; a; a; a; a; a; a; a; and 91 more", oneLine(err))
}

// rawHandler writes log records as a careless handler would.
type rawHandler struct {
	slog.Handler // for what is not asked
	mu           sync.Mutex
	lines        []string
}

func (h *rawHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *rawHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.Key + "=" + a.Value.String()
		return true
	})
	h.lines = append(h.lines, line)
	return nil
}
