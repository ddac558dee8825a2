//go:build unix

package rulefile

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe that nobody writes to must not be waited for.
func TestRead_Pipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, filepath.Dir(pipe)} {
		_, err := Read(path)
		require.EqualError(t, err, pipe+": cannot be read: it is not a regular file")
	}
}

// A pipe takes the place of the file, and goes, again and again.
func TestRead_FileTurnsIntoAPipe(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, file, pipe := filepath.Join(folder, "rules.yaml"), filepath.Join(folder, "file"), filepath.Join(folder, "pipe")
	writeFile(t, path, "flow: []")
	var stop atomic.Bool
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for !stop.Load() {
			assert.NoError(t, syscall.Mkfifo(pipe, 0o600))
			assert.NoError(t, os.Rename(pipe, path))
			assert.NoError(t, os.WriteFile(file, []byte("flow: []"), 0o600))
			assert.NoError(t, os.Rename(file, path))
		}
	})
	for range 2_000 {
		if _, err := Read(path); err != nil {
			require.ErrorIs(t, err, errNotRegular)
		}
	}
	stop.Store(true)
	swaps.Wait()
}
