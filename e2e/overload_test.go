//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shed is what the page says that a rule has refused.
type shed struct{ Critical, Default, Sheddable, Background int64 }

func (s shed) sum() int64 { return s.Critical + s.Default + s.Sheddable + s.Background }

// TestOverload_InHalfACore runs examples/overload, which gets three times what it can do: with the
// rule, those that are let in are done sooner, critical calls fare best, and the page shows
// what was refused.
func TestOverload_InHalfACore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overload")
	build(t, path, "github.com/leapgate-go/leapgate/examples/overload")
	child := exec.Command(path, "-http", "127.0.0.1:0")
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		if child.ProcessState == nil { // the test ends before it does
			_ = child.Process.Signal(os.Interrupt)
			_, _ = child.Process.Wait()
		}
	})
	var text strings.Builder
	began := time.Now()
	for lines := bufio.NewScanner(stdout); lines.Scan() && !strings.HasPrefix(lines.Text(), "The page stays"); {
		text.WriteString(lines.Text() + "\n")
	}
	t.Logf("after %v:\n%s", time.Since(began), &text)

	url := regexp.MustCompile(`See it live: (\S+)`).FindStringSubmatch(text.String())
	require.NotNil(t, url)
	answer, err := http.Get(url[1] + "api/v1/resource?name=GET+%2Fshop")
	require.NoError(t, err)
	defer answer.Body.Close()
	var page struct {
		Rules []struct{ Figures struct{ Shed shed } }
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&page))
	require.Len(t, page.Rules, 1)
	refused := page.Rules[0].Figures.Shed

	require.NoError(t, child.Process.Signal(os.Interrupt))
	require.NoError(t, child.Wait())
	for _, mount := range []string{"", "cpu", "cpuacct"} {
		require.NoDirExists(t, filepath.Join("/sys/fs/cgroup", mount, "leapgate-overload-"+strconv.Itoa(child.Process.Pid)), "it removes its cgroup")
	}

	// name, asked, served, gave up, refused, p50, p99
	row := regexp.MustCompile(`(?m)^ *(critical|background|all) +(\d+) +(\d+) +(\d+) +(\d+) +(\S+) +(\S+)$`)
	rows := row.FindAllStringSubmatch(text.String(), -1)
	require.Len(t, rows, 3*4, "of four tables")
	count := func(digits string) int64 {
		n, err := strconv.ParseInt(digits, 10, 64)
		require.NoError(t, err)
		return n
	}
	var sum int64
	for _, r := range rows {
		require.Equal(t, count(r[2]), count(r[3])+count(r[4])+count(r[5]), r[0])
		if r[1] == "all" {
			sum += count(r[5])
		}
	}
	require.Equal(t, sum, refused.sum(), "the page and the tables")
	require.Positive(t, sum)

	p99 := func(r []string) time.Duration {
		d, err := time.ParseDuration(r[7])
		require.NoError(t, err)
		return d
	}
	served := func(r []string) float64 { return float64(count(r[3])) / float64(count(r[2])) }
	without, critical, background, with := rows[2], rows[9], rows[10], rows[11]
	require.Less(t, p99(with), p99(without))
	require.Greater(t, served(critical), served(background))
}
