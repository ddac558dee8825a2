//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// halfACore is a cgroup whose processes have half a processor together.
type halfACore struct {
	folders []string // to put processes into
	used    func() (time.Duration, error)
	stat    string // its cpu.stat
}

const quota, period = "50000", "100000"

// newHalfACore makes the cgroup, in version 2 or 1, or says why it may not.
func newHalfACore(t *testing.T) *halfACore {
	t.Helper()
	name := fmt.Sprintf("leapgate-e2e-%d", os.Getpid())
	var faults []error
	for _, try := range []func(name string) (*halfACore, error){halfOnV2, halfOnV1} {
		c, err := try(name)
		t.Cleanup(func() {
			for _, folder := range c.folders {
				_ = os.Remove(folder) // it is empty by then
			}
		})
		if err == nil {
			return c
		}
		faults = append(faults, err)
	}
	t.Skipf("skipped: no cgroup with half a processor can be made here: %v", errors.Join(faults...))
	return nil
}

func halfOnV2(name string) (*halfACore, error) {
	folder := filepath.Join("/sys/fs/cgroup", name)
	c := &halfACore{folders: []string{folder}, stat: filepath.Join(folder, "cpu.stat")}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		return c, err
	}
	c.used = func() (time.Duration, error) {
		n, err := keyOf(c.stat, "usage_usec")
		return time.Duration(n) * time.Microsecond, err
	}
	_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpu"), 0) // if it is not on already
	if err := os.Mkdir(folder, 0o755); err != nil {
		return c, err
	}
	_ = os.WriteFile(filepath.Join(folder, "cpu.weight"), []byte("10000"), 0) // whatever else the machine does
	return c, os.WriteFile(filepath.Join(folder, "cpu.max"), []byte(quota+" "+period), 0)
}

func halfOnV1(name string) (*halfACore, error) {
	cpu, accounts := filepath.Join("/sys/fs/cgroup/cpu", name), filepath.Join("/sys/fs/cgroup/cpuacct", name)
	c := &halfACore{folders: []string{cpu, accounts}, stat: filepath.Join(cpu, "cpu.stat")}
	c.used = func() (time.Duration, error) {
		text, err := os.ReadFile(filepath.Join(accounts, "cpuacct.usage"))
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return time.Duration(n), err
	}
	for _, folder := range c.folders {
		if err := os.Mkdir(folder, 0o755); err != nil && !os.IsExist(err) { // the two may be one
			return c, err
		}
	}
	_ = os.WriteFile(filepath.Join(cpu, "cpu.shares"), []byte("262144"), 0) // whatever else the machine does
	if err := os.WriteFile(filepath.Join(cpu, "cpu.cfs_period_us"), []byte(period), 0); err != nil {
		return c, err
	}
	return c, os.WriteFile(filepath.Join(cpu, "cpu.cfs_quota_us"), []byte(quota), 0)
}

// keyOf reads the number that a file of lines of a key and a number has for a key.
func keyOf(name, key string) (int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), " "); k == key {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", name, key)
}

// signals is what the dashboard says of the load, as far as this test goes.
type signals struct {
	CPU, Throttled *struct{ Value, Raw float64 }
	Processors     float64
}

// counted is what the files of the cgroup say.
type counted struct {
	at                 time.Time
	used               time.Duration
	periods, throttled int64
}

// TestLoad_InHalfACore: a program in a container with half a processor goes from idle to as busy as it can
// be. Three seconds later its sampler has seen 80 % of what the cgroup counts.
func TestLoad_InHalfACore(t *testing.T) {
	cgroup := newHalfACore(t)
	program := filepath.Join(t.TempDir(), "busy")
	build(t, program, "./testdata/busy")
	child := exec.Command(program)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_, _ = child.Process.Wait()
	})
	for _, folder := range cgroup.folders {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(child.Process.Pid)), 0))
	}
	say := func(what string) {
		t.Helper()
		_, err := io.WriteString(stdin, what+"\n")
		require.NoError(t, err)
	}
	say("start") // it samples from now on
	var url string
	_, err = fmt.Fscanln(stdout, &url)
	require.NoError(t, err)
	ask := func() (s signals) {
		t.Helper()
		answer, err := http.Get(url + "api/v1/load")
		require.NoError(t, err)
		defer answer.Body.Close()
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&s))
		return s
	}
	read := func() (c counted) {
		t.Helper()
		c.at = time.Now()
		c.used, err = cgroup.used()
		require.NoError(t, err)
		c.periods, err = keyOf(cgroup.stat, "nr_periods")
		require.NoError(t, err)
		c.throttled, err = keyOf(cgroup.stat, "nr_throttled")
		require.NoError(t, err)
		return c
	}

	// What the machine gives depends on what else it does: it is what the cgroup counts that must be seen.
	const tries = 5
	for try := 1; ; try++ {
		say("idle")
		time.Sleep(5 * time.Second)
		idle := ask()
		require.InDelta(t, 0.5, idle.Processors, 1e-9, "what it may use")
		require.NotNil(t, idle.CPU)
		require.Less(t, idle.CPU.Value, 0.3, "nothing is done")

		before := read()
		say("burn")
		time.Sleep(time.Until(before.at.Add(3 * time.Second)))
		seen, after := ask(), read()
		step := float64(after.used-before.used) / (0.5 * float64(after.at.Sub(before.at)))
		throttled := float64(after.throttled-before.throttled) / float64(after.periods-before.periods)
		t.Logf("after 3 s the cgroup has counted %.2f of half a processor, and %.2f of the periods as throttled; seen: %.2f (%.2f in the last sample) and %.2f",
			step, throttled, seen.CPU.Value, seen.CPU.Raw, seen.Throttled.Value)
		if step > 0.5 && seen.CPU.Value >= 0.8*step && seen.CPU.Value < 1.3 && seen.Throttled.Value >= 0.5*throttled {
			break
		}
		require.Less(t, try, tries, "80 %% of the step were not seen within 3 s")
	}
	say("idle")
	time.Sleep(8 * time.Second)
	require.Less(t, ask().CPU.Value, 0.3, "and it falls again")
}
