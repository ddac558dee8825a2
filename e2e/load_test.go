//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLoad sends examples/httpapi as much as hey can, for ten seconds: what is admitted
// per second is the limit, there is no error but 429, and the memory does not grow.
func TestLoad(t *testing.T) {
	const (
		limit       = 500
		length      = 10 * time.Second
		connections = 50
	)
	dir := t.TempDir()
	api, hey := filepath.Join(dir, "httpapi"), filepath.Join(dir, "hey")
	build(t, api, "github.com/leapgate-go/leapgate/examples/httpapi")
	build(t, hey, "github.com/rakyll/hey")

	server := exec.Command(api, "-listen", "127.0.0.1:0", "-per-address", strconv.Itoa(limit), "-window", "1s")
	server.Stderr = os.Stderr
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill() }) // if the test ends before it does
	output := bufio.NewReader(stdout)
	line, err := output.ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(strings.TrimPrefix(line, "Serving "))

	ctx, stop := context.WithTimeout(t.Context(), 5*length)
	defer stop()
	client := exec.CommandContext(ctx, hey, "-z", length.String(), "-c", strconv.Itoa(connections), url+"/time")
	var report bytes.Buffer
	client.Stdout, client.Stderr = &report, &report
	began := time.Now()
	require.NoError(t, client.Start())
	done := make(chan error, 1)
	go func() { done <- client.Wait() }()
	memory := watch(t, server.Process.Pid, done)
	took := time.Since(began)

	require.NoError(t, server.Process.Signal(os.Interrupt))
	summary, err := io.ReadAll(output)
	require.NoError(t, err)
	require.NoError(t, server.Wait())

	statuses := make(map[string]int64)
	for _, m := range regexp.MustCompile(`(?m)^\s+\[(\d+)\]\s+(\d+) responses`).FindAllStringSubmatch(report.String(), -1) {
		statuses[m[1]], _ = strconv.ParseInt(m[2], 10, 64)
	}
	t.Logf("%v; %d to %d KB of memory; hey took %v\n%s", statuses, slices.Min(memory), slices.Max(memory), took, summary)
	require.NotContains(t, report.String(), "Error distribution")
	require.Len(t, statuses, 2, "%s", &report)
	require.Contains(t, statuses, "200")
	require.Contains(t, statuses, "429")

	// The limiter is a sliding counter: after its first window it admits the limit in each
	// window when more is asked for. A machine that stands still for a moment asks for
	// less; hey may go on for a moment.
	seconds := took.Seconds()
	admitted := float64(statuses["200"])
	require.LessOrEqual(t, admitted, limit*(seconds+2))
	require.GreaterOrEqual(t, admitted, limit*length.Seconds()*0.8)
	require.Greater(t, statuses["429"], statuses["200"], "it was not at full speed")

	// The gate has counted the same, but for what hey hung up on.
	var passed, blocked, exceptions int64
	route := regexp.MustCompile(`GET /time .*`).FindString(string(summary))
	_, err = fmt.Sscanf(route, "GET /time passed %d, blocked by rules %d, exceptions %d", &passed, &blocked, &exceptions)
	require.NoError(t, err, route)
	require.GreaterOrEqual(t, passed, statuses["200"])
	require.LessOrEqual(t, passed, statuses["200"]+connections)
	require.Zero(t, blocked)
	require.Zero(t, exceptions)

	if len(memory) < 6 {
		t.Log("no figures of the memory: skipped")
		return
	}
	// The first third is warming up. Garbage makes some difference from one look to the next.
	third := len(memory) / 3
	before, after := slices.Max(memory[third:2*third]), slices.Max(memory[2*third:])
	require.LessOrEqual(t, after, before+before/10+2048, "KB: %v", memory)
}

func build(t *testing.T, path, pkg string) {
	t.Helper()
	out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// watch returns the resident memory of a process in KB, every half second until done.
func watch(t *testing.T, pid int, done <-chan error) (memory []int64) {
	t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	resident := regexp.MustCompile(`VmRSS:\s+(\d+) kB`)
	for {
		select {
		case err := <-done:
			require.NoError(t, err)
			return memory
		case <-tick.C:
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // where there is no /proc there are no figures
			if m := resident.FindSubmatch(status); m != nil {
				kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
				memory = append(memory, kb)
			}
		}
	}
}
