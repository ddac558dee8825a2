package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/rulefile"
)

// follow loads the rules of a file into the gate, and does so again whenever the file changes.
// Close the watcher when the program ends.
func follow(gate *leapgate.Gate, path string) (*rulefile.Watcher, error) {
	return rulefile.Watch(rulefile.Config{Path: path, Gate: gate})
}

func TestRulefiles_TheExampleIsAGoodFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("rulefiles.md")
	require.NoError(t, err)
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```\n")
	file, err := rulefile.ParseFile("rulefiles.md", []byte(example))
	require.NoError(t, err)
	require.Equal(t, 6, file.Rules.Len())
	require.Len(t, file.Limits, 1)

	rules, _, _ := strings.Cut(example, "limits:")
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte(rules), 0o600))
	gate := leapgate.Must(leapgate.Config{})
	defer gate.Close()
	watcher, err := follow(gate, path)
	require.NoError(t, err)
	defer func() { require.NoError(t, watcher.Close()) }()
	require.Equal(t, 6, gate.Rules().Len())
}
