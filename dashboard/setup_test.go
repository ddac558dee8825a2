package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is a time by the clock of tests: 2023-11-14T22:13:20Z.
const start = int64(1_700_000_000_000_000_000)

// call calls a resource n times; each call takes rt. It returns how many passed.
func call(t testing.TB, c *gatetest.Clock, g *leapgate.Gate, name string, n int, rt time.Duration) (passed int) {
	t.Helper()
	entries := make([]func(), 0, n)
	for range n {
		e, err := g.Entry(name)
		if err != nil {
			require.ErrorIs(t, err, leapgate.ErrBlocked)
			continue
		}
		entries = append(entries, e.Exit)
	}
	c.Advance(rt)
	for _, exit := range entries {
		exit()
	}
	return len(entries)
}

// ann may do everything.
func ann(*http.Request) (string, error) { return "ann", nil }

// quiet is a logger for those who do not look.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

type answered struct {
	StatusCode int
	Header     http.Header
}

// ask asks the dashboard and returns the answer, whose body is JSON if there is one.
func ask(t testing.TB, d http.Handler, method, path, body string, headers ...string) (answered, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost/leapgate/api/v1/"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	answer, data := answered{w.Code, w.Header()}, w.Body.Bytes()
	var v map[string]any
	if len(data) > 0 {
		require.NoError(t, json.Unmarshal(data, &v), string(data))
		require.Contains(t, answer.Header.Get("Content-Type"), "json")
	}
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	return answer, v
}

// get asks for something that is there.
func get(t testing.TB, d http.Handler, path string) map[string]any {
	t.Helper()
	answer, v := ask(t, d, http.MethodGet, path, "")
	require.Equal(t, http.StatusOK, answer.StatusCode, v)
	return v
}

// refused asks for something that is refused with that status, and returns the faults as
// "field: message" and the detail.
func refused(t testing.TB, d http.Handler, status int, method, path, body string, headers ...string) (faults []string, detail string) {
	t.Helper()
	answer, v := ask(t, d, method, path, body, headers...)
	require.Equal(t, status, answer.StatusCode, v)
	require.Equal(t, "application/problem+json", answer.Header.Get("Content-Type"))
	require.Equal(t, float64(status), v["status"])
	require.Equal(t, http.StatusText(status), v["title"])
	list, _ := v["faults"].([]any)
	for _, f := range list {
		f := f.(map[string]any)
		field, _ := f["field"].(string)
		faults = append(faults, field+": "+f["message"].(string))
	}
	return faults, v["detail"].(string)
}

// list returns the objects in a field of an answer.
func list(v map[string]any, field string) []map[string]any {
	var all []map[string]any
	for _, one := range v[field].([]any) {
		all = append(all, one.(map[string]any))
	}
	return all
}

// pipes is a network without sockets, for fake time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// serve serves a dashboard over pipes until the test ends, to the client that it returns.
func serve(t *testing.T, h http.Handler) (*http.Client, *pipes) {
	t.Helper()
	network := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{
		Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second, IdleTimeout: 2 * time.Second, // streams are not cut off
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(network)
	}()
	transport := &http.Transport{DialContext: network.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-ended
	})
	return &http.Client{Transport: transport}, network
}

// watching is a viewer.
type watching struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc

	// What it knows, put together from the frames.
	names   map[float64]string
	figures map[string]map[string]float64
	rules   map[float64]string
	sums    map[string]map[string]float64
	columns map[string][]string
}

// watch begins to watch.
func watch(t *testing.T, client *http.Client, headers ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pipe/leapgate/api/v1/events", http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return &watching{t: t, answer: answer, lines: bufio.NewReader(answer.Body), cancel: cancel}
}

type frame struct {
	At           time.Time           `json:"at"`
	Full         bool                `json:"full"`
	RulesVersion string              `json:"rulesVersion"`
	Columns      map[string][]string `json:"columns"`
	Resources    change              `json:"resources"`
	Rules        change              `json:"rules"`
	RuleSources  json.RawMessage     `json:"ruleSources"`
	States       [][]any             `json:"states"`
	Load         json.RawMessage     `json:"load"`
	Limiters     json.RawMessage     `json:"limiters"`
	Forgotten    int64               `json:"forgotten"`
}

type change struct {
	New  [][]any     `json:"new"`
	Rows [][]float64 `json:"rows"`
	Gone []float64   `json:"gone"`
}

// next reads a frame. It is nil if the stream has ended.
func (w *watching) next() *frame {
	w.t.Helper()
	event, err := w.lines.ReadString('\n')
	if err != nil {
		return nil
	}
	require.Equal(w.t, "event: frame\n", event)
	data, err := w.lines.ReadString('\n')
	require.NoError(w.t, err)
	end, err := w.lines.ReadString('\n')
	require.NoError(w.t, err)
	require.Equal(w.t, "\n", end)
	data, ok := strings.CutPrefix(data, "data: ")
	require.True(w.t, ok)
	var f frame
	decoder := json.NewDecoder(strings.NewReader(data))
	decoder.DisallowUnknownFields()
	require.NoError(w.t, decoder.Decode(&f), data)
	w.learn(&f)
	return &f
}

// learn does what a page does with a frame.
func (w *watching) learn(f *frame) {
	if f.Full {
		w.names, w.rules = map[float64]string{}, map[float64]string{}
		w.figures, w.sums = map[string]map[string]float64{}, map[string]map[string]float64{}
		w.columns = f.Columns
	}
	for _, row := range f.Resources.New {
		name := row[len(row)-1].(string) // raw, if there is one
		require.NotContains(w.t, w.names, row[0].(float64))
		w.names[row[0].(float64)] = name
	}
	for _, row := range f.Rules.New {
		w.rules[row[0].(float64)] = row[1].(string) + " " + row[len(row)-1].(string)
	}
	take := func(to map[string]map[string]float64, names map[float64]string, columns []string, c change) {
		for _, row := range c.Rows {
			require.Len(w.t, row, len(columns))
			name, ok := names[row[0]]
			require.True(w.t, ok)
			figures := map[string]float64{}
			for i, column := range columns[1:] {
				figures[column] = row[i+1]
			}
			to[name] = figures
		}
		for _, number := range c.Gone {
			delete(to, names[number])
			delete(names, number)
		}
	}
	take(w.figures, w.names, w.columns["resources"], f.Resources)
	take(w.sums, w.rules, w.columns["rules"], f.Rules)
}

// states returns the states of a frame as "resource rule state".
func (w *watching) states(f *frame) []string {
	w.t.Helper()
	require.NotNil(w.t, f.States)
	all := []string{}
	for _, s := range f.States {
		_, id, _ := strings.Cut(w.rules[s[1].(float64)], " ")
		all = append(all, w.names[s[0].(float64)]+" "+id+" "+s[2].(string))
	}
	return all
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// query is a text as it goes into a query.
func query(s string) string { return url.QueryEscape(s) }
