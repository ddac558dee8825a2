//go:build e2e

package prometheus

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example that users start with shows something on every panel of the dashboard, but for those of system
// rules and of rule files, of which it has none.
func TestExample(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "dashboard")
	run(t, "", "go", "build", "-o", program, "github.com/leapgate-go/leapgate/examples/dashboard")
	command := exec.Command(program, "-http", "127.0.0.1:0") //nolint:noctx // it is stopped below, gently
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGINT)
		require.NoError(t, command.Wait())
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	page, found := strings.CutPrefix(strings.TrimSpace(line), "See it live: ")
	require.True(t, found, line)

	s := startServer(t, strings.TrimSuffix(page, "/leapgate/")+"/metrics", true)
	eventually(t, "blocked", func() bool { return s.value(t, `sum(leapgate_blocks_total)`) > 10 })
	s.checkDashboard(t, true, "leapgate_load_throttled_ratio", "leapgate_load_pressure_ratio", "leapgate_rule_shed_total", "leapgate_rules_last_load_successful", "Limits on calls in flight 1")
}
