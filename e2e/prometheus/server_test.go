//go:build e2e

package prometheus

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patience = 60 * time.Second // before a condition that should come soon is given up

// server is a Prometheus that scrapes a program.
type server struct{ url string }

// startServer starts a Prometheus that scrapes a URL, with the rules of deploy/, and stops
// it at the end.
func startServer(t *testing.T, scraped string, native bool) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	dir := t.TempDir()
	rules, err := filepath.Abs("../../deploy/prometheus")
	require.NoError(t, err)
	target, err := url.Parse(scraped)
	require.NoError(t, err)
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: shop
    metrics_path: %q
    static_configs: [{targets: [%q]}]
`, rules+"/leapgate.*.yml", "/"+strings.TrimPrefix(target.Path, "/"), target.Host)
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	args := []string{"--config.file=" + file, "--storage.tsdb.path=" + dir + "/data", "--web.listen-address=" + address, "--log.level=warn"}
	if native {
		args = append(args, "--enable-feature=native-histograms")
	}
	output, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	command := exec.Command("prometheus", args...) //nolint:noctx // it is stopped below, gently
	command.Stdout, command.Stderr = output, output
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(output.Name())
			t.Logf("prometheus says:\n%s", text)
		}
	})
	s := &server{"http://" + address}
	eventually(t, "ready", func() bool {
		response, err := http.Get(s.url + "/-/ready") //nolint:noctx // on the loopback
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return s
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			require.Fail(t, "not "+what+" within "+patience.String())
		case <-tick.C:
		}
	}
}

func get(t *testing.T, address string, header http.Header) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	r.Header = header
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", address, text)
	return string(text)
}

// api calls the HTTP API.
func (s *server) api(t *testing.T, path string, values url.Values, data any) {
	t.Helper()
	text := get(t, s.url+"/api/v1/"+path+"?"+values.Encode(), nil)
	answer := struct{ Data any }{data}
	require.NoError(t, json.Unmarshal([]byte(text), &answer), text)
}

// result is the series that an expression returns.
type result struct {
	Metric    map[string]string
	Value     sample
	Values    []sample
	Histogram sample
	// of native histograms
	Histograms []sample
}

// sample is a time, and a value or a histogram.
type sample [2]any

func (s sample) float(t *testing.T) float64 {
	t.Helper()
	text, ok := s[1].(string)
	if !ok { // a histogram
		text = s[1].(map[string]any)["count"].(string)
	}
	f, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return f
}

func (s *server) query(t *testing.T, expression string) []result {
	t.Helper()
	var data struct{ Result []result }
	s.api(t, "query", url.Values{"query": {expression}}, &data)
	return data.Result
}

// lately returns the values that an expression has had in each second of the last two minutes.
func (s *server) lately(t *testing.T, expression string) []result {
	t.Helper()
	seconds := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	now := time.Now()
	var data struct{ Result []result }
	s.api(t, "query_range", url.Values{
		"query": {expression}, "step": {"1s"}, "start": {seconds(now.Add(-2 * time.Minute))}, "end": {seconds(now)},
	}, &data)
	return data.Result
}

// value returns that of an expression with one series, 0 if it has none.
func (s *server) value(t *testing.T, expression string) float64 {
	t.Helper()
	results := s.query(t, expression)
	require.LessOrEqual(t, len(results), 1, expression)
	if len(results) == 0 {
		return 0
	}
	return results[0].Value.float(t)
}

// run runs a tool and returns its output.
func run(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, output)
	return string(output)
}
