package rulefile

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLook_BelievesWhatHasBeenStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	synctest.Test(t, func(t *testing.T) {
		w, gate, _ := still(t, path)
		require.Zero(t, w.look(), "nothing is new")
		for i := 2; i < 9; i++ { // it is being written
			writeFile(t, path, ruleText(i))
			require.Equal(t, defaultSettle, w.look())
			time.Sleep(defaultSettle - moment)
			require.Equal(t, moment, w.look())
			require.Equal(t, 1.0, gate.threshold())
		}
		time.Sleep(moment)
		require.Zero(t, w.look())
		require.Equal(t, 8.0, gate.threshold())
		require.Zero(t, w.look())

		writeFile(t, path, "}")
		require.Equal(t, defaultSettle, w.look())
		require.NoError(t, w.Status().Err)
		time.Sleep(defaultSettle)
		require.Zero(t, w.look())
		require.Error(t, w.Status().Err)
		require.Zero(t, w.look(), "it is known to be wrong, and still is")

		require.NoError(t, os.Remove(path))
		require.NotZero(t, w.look())
		writeFile(t, path, ruleText(8)) // delete and return
		require.NotZero(t, w.look())
		time.Sleep(defaultSettle)
		require.Zero(t, w.look())
		require.NoError(t, w.Status().Err)
		require.Equal(t, 2, gate.calls)
	})
}

// A file that was emptied is no word that there are no rules.
func TestLook_EmptiedFileLiftsNoRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, ruleText(1))
	synctest.Test(t, func(t *testing.T) {
		w, gate, _ := still(t, path)
		at := func(text string) {
			writeFile(t, path, text)
			w.look()
			time.Sleep(defaultSettle)
			require.Zero(t, w.look())
		}
		for _, text := range []string{"", "\n", "# " + ruleText(1), "---\n", "flow:\n", "{}"} {
			at(text)
			require.Equal(t, 1.0, gate.threshold(), "%q", text)
			require.ErrorIs(t, w.Status().Err, ErrRuleFile, "%q", text)
		}
		at("flow: [] # none")
		require.Equal(t, -1.0, gate.threshold())
		require.NoError(t, w.Status().Err)
		require.Zero(t, w.Status().Rules["flow"])
	})
}

func TestLook_EmptiedFileInAFolder(t *testing.T) {
	folder := t.TempDir()
	b := filepath.Join(folder, "b.yaml")
	writeFile(t, filepath.Join(folder, "a.yaml"), ruleText(1))
	writeFile(t, b, "flow: [{resource: y, threshold: 1}]")
	synctest.Test(t, func(t *testing.T) {
		w, gate, _ := still(t, folder)
		writeFile(t, b, "")
		w.look()
		time.Sleep(defaultSettle)
		require.Zero(t, w.look())
		require.Len(t, gate.flow, 2)
		require.ErrorContains(t, w.Status().Err, b+": the file is empty")
		require.NoError(t, os.Remove(b))
		w.look()
		time.Sleep(defaultSettle)
		require.Zero(t, w.look())
		require.Len(t, gate.flow, 1, "a file that is taken away takes its rules along")
	})
}
