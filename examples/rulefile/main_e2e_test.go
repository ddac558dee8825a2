//go:build e2e

package main

import (
	"bytes"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out bytes.Buffer
	require.NoError(t, show(&out))
	require.Equal(t, `as it was written             3 of 20 pass
edited in place               5 of 20 pass
JSON, renamed over it         7 of 20 pass
a slip of the finger          7 of 20 pass
    rules.yaml:4:5: flow rule "orders": unknown field "treshold"; did you mean threshold?
set right                     9 of 20 pass
taken away                    9 of 20 pass
    rules.yaml: there is no such file or folder
there again, in shadow mode  20 of 20 pass
`, out.String())
}

func TestRun_InterruptRemovesTheFolder(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	var once sync.Once
	err := show(writer(func(p []byte) (int, error) {
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		once.Do(func() { err = self.Signal(os.Interrupt) })
		return len(p), err
	}))
	require.EqualError(t, err, "interrupted")
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
