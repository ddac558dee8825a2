//go:build unix

package rulefile

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe that nobody writes to must not be waited for.
func TestRead_Pipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe.yaml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, filepath.Dir(pipe)} {
		_, err := Read(path)
		require.EqualError(t, err, pipe+": cannot be read: it is no regular file")
	}
}
