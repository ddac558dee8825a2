package kinds_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// A new kind appears everywhere by being registered: in rule files, the command, the API, the
// metrics, snapshots and over HTTP. The kind is in testdata/everynth, with the test that it must
// pass. It is built into Leapgate as if it stood there, with one field more in each of the
// structs, and one line more in All.
func TestNewKind_AppearsEverywhereByBeingRegistered(t *testing.T) {
	if gatetest.Race || testing.Short() {
		t.Skip("builds most of Leapgate again, without the race detector")
	}
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	folder := t.TempDir()
	replace := map[string]string{}
	register := func(path string, lines ...string) {
		replace[filepath.Join(root, path)] = filepath.Join(folder, filepath.Base(path))
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		for _, line := range lines {
			text = besideLast(t, text, line)
		}
		require.NoError(t, os.WriteFile(filepath.Join(folder, filepath.Base(path)), text, 0o600))
	}
	const imported, field = `	"github.com/leapgate-go/leapgate/everynth"`, `	EveryNth []everynth.Rule`
	register("rules.go", imported, field)
	register("internal/kinds/kinds.go", imported, field, `	of(&everynth.Kind, func(r *Rules) *[]everynth.Rule { return &r.EveryNth }),`)
	sources, err := filepath.Glob(filepath.Join("testdata", "everynth", "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, source := range sources {
		path, err := filepath.Abs(source)
		require.NoError(t, err)
		replace[filepath.Join(root, "everynth", filepath.Base(source))] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600))

	run := func(stdin, name string, args ...string) string {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir, command.Stdin = root, strings.NewReader(stdin)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		stdout, err := command.Output()
		require.NoError(t, err, "%s\n%s", stdout, &stderr)
		return string(stdout) + stderr.String()
	}
	overlaid := "-overlay=" + filepath.Join(folder, "overlay.json")
	tests, command := filepath.Join(folder, "everynth.test"), filepath.Join(folder, "leapgate")
	run("", "go", "test", "-c", "-vet=off", overlaid, "-o", tests, "./everynth")
	run("", tests)
	run("", "go", "build", overlaid, "-o", command, "./cmd/leapgate")
	checked := run("everynth: [{id: cart-half, resource: cart, n: 2}]", command, "check", "-")
	require.Contains(t, checked, ", 1 everynth rule\n")
	require.Contains(t, checked, "cart-half  cart      one of 2 calls; blocks\n")
	require.Contains(t, checked, "warning: everynth rule cart-half: n is 2, and blocks half of all calls\n")
	require.Equal(t, "everynth:\n  - resource: cart\n    n: 3\n", run(`{"everynth": [{"resource": "cart", "n": 3}]}`, command, "convert", "-"))
}

// besideLast puts a line behind the only one that says the same of system rules, the last kind.
func besideLast(t *testing.T, text []byte, line string) []byte {
	t.Helper()
	like := regexp.QuoteMeta(line)
	like = strings.ReplaceAll(strings.ReplaceAll(like, "everynth", "system"), "EveryNth", "System")
	at := regexp.MustCompile(`(?m)^`+strings.ReplaceAll(like, " ", ` +`)+`$`).FindAllIndex(text, -1)
	require.Len(t, at, 1, "want one line such as %s", line)
	return bytes.Join([][]byte{text[:at[0][1]], text[at[0][1]:]}, []byte("\n"+line))
}
