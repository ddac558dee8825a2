package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README is read in ten minutes, or not at all. What needs more words has a page here.
func TestReadme_IsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.LessOrEqual(t, len(strings.Fields(string(text))), 1300)
	_, guarantees, found := strings.Cut(string(text), "\n## What is guaranteed\n")
	require.True(t, found)
	guarantees, _, _ = strings.Cut(guarantees, "\n## ")
	for cell := range strings.SplitSeq(guarantees, "|") {
		require.LessOrEqual(t, len(strings.Fields(cell)), 25, cell)
	}
}
