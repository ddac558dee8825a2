package dashboard_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// agree tells that a viewer knows what the gate says.
func (w *watching) agree(g *leapgate.Gate) {
	w.t.Helper()
	want := map[string]map[string]float64{}
	sums := map[string]map[string]float64{}
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }
	for _, s := range g.Snapshot() {
		want[s.Resource] = map[string]float64{
			"passQPS": s.PassQPS, "blockQPS": s.BlockQPS, "successQPS": s.SuccessQPS, "exceptionQPS": s.ExceptionQPS,
			"avgRT": ms(s.AvgRT), "p50": ms(s.P50), "p95": ms(s.P95), "p99": ms(s.P99), "concurrency": float64(s.Concurrency),
			"pass": float64(s.Pass), "block": float64(s.Block), "success": float64(s.Success), "exception": float64(s.Exception),
			"wouldBlock": float64(s.WouldBlock), "rules": float64(len(s.Rules)), "waiting": float64(s.Waiting), "waitP95": ms(s.WaitP95),
		}
		for _, which := range []string{"refusedBy", "use", "fullest", "limit"} { // of rules, and in rows: there is a test of its own
			want[s.Resource][which] = w.figures[s.Resource][which]
		}
		for _, r := range s.Rules {
			sum := sums[r.Kind+" "+r.ID]
			if sum == nil {
				sum = map[string]float64{"lastRefusal": 0, "moved": 0}
				sums[r.Kind+" "+r.ID] = sum
			}
			sum["admitted"] += float64(r.Admitted)
			sum["blocked"] += float64(r.Blocked)
			sum["wouldBlock"] += float64(r.WouldBlock)
			sum["candidateWouldBlock"] += float64(r.CandidateWouldBlock)
			sum["resources"] += 0
			if s.Resource != "other" {
				sum["resources"]++
			}
			sum["withoutArgument"] += float64(r.Missing)
			if _, known := sum["interval"]; !known || float64(r.Used)/r.Effective > sum["used"]/sum["effective"] {
				sum["used"], sum["effective"], sum["interval"] = float64(r.Used), r.Effective, float64(r.Interval.Milliseconds())
				if sum["moved"] = 0; r.Effective != r.Threshold {
					sum["moved"] = 1
				}
			}
			if !r.LastRefusal.At.IsZero() {
				sum["lastRefusal"] = max(sum["lastRefusal"], float64(r.LastRefusal.At.UnixMilli()))
			}
		}
	}
	require.Equal(w.t, want, w.figures)
	require.Equal(w.t, sums, w.sums)
}

func TestEvents_FramesTellWhatHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := gates.New(t, c, flow.Rule{ID: "all", Resource: "*", Match: rule.Glob, Threshold: 5}, flow.Rule{ID: "a", Resource: "a", Threshold: 3, Candidate: 1})
		client, _ := serve(t, dashboard.Handler(g, dashboard.Config{}))
		call(t, c, g, "a", 10, 7*time.Millisecond)
		began := time.Now()
		w := watch(t, client)
		require.Equal(t, http.StatusOK, w.answer.StatusCode)
		require.Equal(t, "text/event-stream", w.answer.Header.Get("Content-Type"))
		require.Equal(t, "no-store", w.answer.Header.Get("Cache-Control"))
		require.Equal(t, "no", w.answer.Header.Get("X-Accel-Buffering"))
		first := w.next()
		require.True(t, first.Full)
		require.Zero(t, time.Since(began), "at once")
		require.Equal(t, "row passQPS blockQPS successQPS exceptionQPS avgRT p50 p95 p99 concurrency pass block success exception wouldBlock rules waiting waitP95 refusedBy use fullest limit",
			strings.Join(first.Columns["resources"], " "))
		require.Equal(t, "row admitted blocked wouldBlock candidateWouldBlock resources used effective interval lastRefusal withoutArgument moved", strings.Join(first.Columns["rules"], " "))
		require.Equal(t, "2023-11-14T22:13:20.007Z", first.At.Format(time.RFC3339Nano))
		require.JSONEq(t, "[]", string(first.Limiters))
		w.agree(g)
		require.Equal(t, 3.0, w.figures["a"]["pass"])
		require.Equal(t, 7.0, w.sums["flow a"]["blocked"])

		// Nothing has happened, and there is a frame all the same, a second later.
		second := w.next()
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, &frame{At: first.At, RulesVersion: first.RulesVersion}, second)

		// Only what has changed is told, and new names.
		call(t, c, g, "b\xff\n<b>", 2, time.Millisecond)
		third := w.next()
		require.Equal(t, []any{"b\ufffd\n<b>", "b%FF%0A%3Cb%3E"}, third.Resources.New[0][1:])
		require.Len(t, third.Resources.Rows, 1)
		require.Nil(t, third.Columns)
		require.Nil(t, third.Limiters)
		require.Equal(t, 2.0, w.figures["b%FF%0A%3Cb%3E"]["pass"])

		// Rules that change, and those that go.
		require.NoError(t, g.EditRules(func(all *leapgate.Rules) error {
			all.Isolation = []isolation.Rule{{ID: "few", Resource: "a", MaxInFlight: 2}}
			return nil
		}))
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a", Resource: "a", Threshold: 4}}))
		fourth := w.next()
		require.NotEqual(t, third.RulesVersion, fourth.RulesVersion)
		require.Len(t, fourth.Rules.Gone, 1)
		require.ElementsMatch(t, []string{"flow a", "isolation few"}, slices.Collect(maps.Values(w.rules)))
		require.Equal(t, 2.0, w.figures["a"]["rules"])

		// A second viewer gets all of it at once, and both the same from then on.
		call(t, c, g, "d", 4, time.Millisecond)
		other := watch(t, client)
		f := other.next()
		require.True(t, f.Full)
		require.Equal(t, w.figures, other.figures)
		for i := range 5 {
			call(t, c, g, fmt.Sprint("e", i), 3, time.Millisecond)
			c.Advance(time.Second)
			require.Equal(t, w.next(), other.next())
			require.Equal(t, w.figures, other.figures)
		}
		require.Equal(t, 8*time.Second, time.Since(began))
	})
}

// Resources are evicted and come back while somebody watches.
func TestEvents_ResourcesGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := leapgate.Must(leapgate.Config{Now: c.Now, MaxResources: 2})
		client, _ := serve(t, dashboard.Handler(g, dashboard.Config{}))
		call(t, c, g, "a", 1, 0)
		call(t, c, g, "b", 1, 0)
		w := watch(t, client)
		require.Len(t, w.next().Resources.New, 2)
		for _, name := range []string{"c", "d", "e", "f", "c", "d"} {
			c.Advance(2 * time.Minute)
			call(t, c, g, name, 1, 0)
			require.Len(t, w.next().Resources.Gone, 1, name)
			w.agree(g)
		}
		require.Len(t, w.figures, 2)
	})
}

func TestEvents_NoMoreViewersThanThereMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gates.New(t, gatetest.ClockAt(start))
		client, _ := serve(t, dashboard.Handler(g, dashboard.Config{MaxViewers: 2, MaxViewersPerAddress: 2}))
		first, second := watch(t, client), watch(t, client)
		require.NotNil(t, first.next())
		require.NotNil(t, second.next())
		third := watch(t, client)
		require.Equal(t, http.StatusServiceUnavailable, third.answer.StatusCode)
		require.Equal(t, "5", third.answer.Header.Get("Retry-After"))
		require.Equal(t, "application/problem+json", third.answer.Header.Get("Content-Type"))
		body, err := io.ReadAll(third.answer.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"title": "Service Unavailable", "status": 503, "detail": "no place is left: at most 2 may watch"}`, string(body))

		// A viewer that leaves makes room.
		first.cancel()
		synctest.Wait()
		require.NotNil(t, watch(t, client).next())
	})
}

func TestEvents_SlowViewersAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := gates.New(t, c)
		call(t, c, g, "a", 1, 0)
		client, network := serve(t, dashboard.Handler(g, dashboard.Config{MaxViewers: 2, MaxViewersPerAddress: 2}))
		slow := slowReader(t, network) // and does not read at all
		began := time.Now()
		quick := watch(t, client)
		require.Equal(t, http.StatusOK, quick.answer.StatusCode)
		for i := range 4 {
			require.NotNil(t, quick.next())
			require.Equal(t, time.Duration(i)*time.Second, time.Since(began), "nobody waits for the slow one")
		}
		require.Equal(t, http.StatusServiceUnavailable, watch(t, client).answer.StatusCode, "it has a place still")
		for range 3 {
			require.NotNil(t, quick.next())
		}
		// Its message has waited for long enough by now.
		third := watch(t, client)
		require.Equal(t, http.StatusOK, third.answer.StatusCode)
		require.NotNil(t, third.next())
		require.Equal(t, 6*time.Second, time.Since(began))
		_, err := io.ReadAll(slow.conn)
		require.NoError(t, err, "and it has been cut off")
		require.NotNil(t, quick.next())
	})
}

// reader reads from a stream as slowly as the test wants, with nothing in between.
type reader struct {
	t    *testing.T
	conn net.Conn
}

func slowReader(t *testing.T, network *pipes) *reader {
	t.Helper()
	conn, err := network.dial(t.Context(), "", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET /leapgate/api/v1/events HTTP/1.1\r\nHost: pipe\r\n\r\n")
	require.NoError(t, err)
	return &reader{t, conn}
}

// frame reads to the end of a frame.
func (r *reader) frame() {
	r.t.Helper()
	var text []byte
	one := make([]byte, 1)
	for !strings.HasSuffix(string(text), "}\n\n\r\n") { // the chunk ends, too
		_, err := r.conn.Read(one)
		require.NoError(r.t, err)
		text = append(text, one...)
	}
	require.Contains(r.t, string(text), "event: frame\n")
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

// One that stops reading is cut off when a message has waited for long enough.
func TestEvents_ViewersThatStopReadingAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, network := serve(t, dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{MaxViewers: 1}))
		slow := slowReader(t, network)
		slow.frame()
		pause(5900 * time.Millisecond) // the second frame came after a second
		require.Equal(t, http.StatusServiceUnavailable, watch(t, client).answer.StatusCode)
		pause(200 * time.Millisecond)
		require.NotNil(t, watch(t, client).next())
	})
}

// One that reads each message just in time is behind by too many some day. It is sent no
// more, and has its place until its message has been given up.
func TestEvents_ViewersThatFallBehindAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, network := serve(t, dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{MaxViewers: 1}))
		slow := slowReader(t, network)
		slow.frame()                   // that of 0 s
		pause(5500 * time.Millisecond) // that of 1 s waits since then, and those of 2 s to 5 s behind it
		slow.frame()                   // so that of 2 s waits from now on to 10.5 s
		pause(2500 * time.Millisecond) // that of 7 s is one too many
		require.Equal(t, http.StatusServiceUnavailable, watch(t, client).answer.StatusCode)
		pause(2400 * time.Millisecond)
		require.Equal(t, http.StatusServiceUnavailable, watch(t, client).answer.StatusCode)
		pause(200 * time.Millisecond)
		require.NotNil(t, watch(t, client).next())
		_, err := io.ReadAll(slow.conn)
		require.NoError(t, err)
	})
}

func TestEvents_NobodyWorksWhenNobodyWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		var reads atomic.Int64
		l := &fakeLimiter{stats: func() limit.Stats { reads.Inc(); return limit.Stats{} }}
		d := dashboard.Handler(gates.New(t, c), dashboard.Config{Limiters: []dashboard.Limiter{l}})
		client, _ := serve(t, d)
		w := watch(t, client)
		first := w.next()
		require.NotNil(t, first)
		require.NotNil(t, w.next())
		w.cancel()
		// Those who come and go within a second do not cause a frame each.
		for range 20 {
			other := watch(t, client)
			require.NotNil(t, other.next())
			other.cancel()
			synctest.Wait()
		}
		require.EqualValues(t, 2, reads.Load())
		timer := time.NewTimer(time.Minute)
		<-timer.C
		require.EqualValues(t, 2, reads.Load())

		// And it begins anew.
		again := watch(t, client)
		f := again.next()
		require.True(t, f.Full)
		require.EqualValues(t, 3, reads.Load())
		require.NotNil(t, again.next())
	})
}

func TestClose_EndsViewers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gates.New(t, gatetest.ClockAt(start))
		d, err := dashboard.New(g, dashboard.Config{})
		require.NoError(t, err)
		client, _ := serve(t, d)
		viewers := []*watching{watch(t, client), watch(t, client)}
		for _, w := range viewers {
			require.NotNil(t, w.next())
		}
		require.NoError(t, d.Close())
		require.NoError(t, d.Close())
		for _, w := range viewers {
			require.Nil(t, w.next())
		}
		_, detail := refused(t, d, http.StatusServiceUnavailable, http.MethodGet, "events", "")
		require.Equal(t, "the dashboard is closed", detail)
		get(t, d, "resources")

		never, err := dashboard.New(g, dashboard.Config{})
		require.NoError(t, err)
		require.NoError(t, never.Close())
	})
}

// A gate that is closed is shown as it was.
func TestEvents_OfAClosedGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := gates.New(t, c)
		call(t, c, g, "a", 3, 0)
		client, _ := serve(t, dashboard.Handler(g, dashboard.Config{}))
		w := watch(t, client)
		require.NotNil(t, w.next())
		require.NoError(t, g.Close())
		require.NotNil(t, w.next())
		require.Equal(t, 3.0, w.figures["a"]["pass"])
	})
}

// plain is a ResponseWriter that can do nothing else.
type plain struct{ http.ResponseWriter }

func TestEvents_NeedAServerThatStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{MaxViewers: 1})
		for range 3 { // and the place is given back
			w := httptest.NewRecorder()
			d.ServeHTTP(plain{w}, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/events", http.NoBody))
			require.Equal(t, http.StatusInternalServerError, w.Code)
			require.Contains(t, w.Body.String(), "events cannot be sent")
		}
		require.NoError(t, d.Close())
	})
}

// cut is a ResponseWriter whose client goes before it has the headers.
type cut struct {
	*httptest.ResponseRecorder
	t *testing.T
}

func (c *cut) SetWriteDeadline(time.Time) error { return nil }
func (c *cut) FlushError() error                { c.Flush(); return net.ErrClosed }
func (c *cut) WriteHeader(status int)           { c.t.Errorf("the status %d comes after the headers", status) }

func TestEvents_OfOneWhoGoesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{MaxViewers: 1})
		for range 3 { // and the place is given back
			w := &cut{httptest.NewRecorder(), t}
			d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/events", http.NoBody))
			require.Empty(t, w.Body.String())
		}
		require.NoError(t, d.Close())
	})
}

func TestEvents_HeadAndBadRequests(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start)), dashboard.Config{})
	head := fetch(d, http.MethodHead, "/api/v1/events")
	require.Equal(t, http.StatusOK, head.Code)
	require.Equal(t, "text/event-stream", head.Header().Get("Content-Type"))
	refused(t, d, http.StatusBadRequest, http.MethodGet, "events?resource=a", "")
	refused(t, d, http.StatusMethodNotAllowed, http.MethodPost, "events", "{}")
	for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "strange": 403} {
		refused(t, d, status, http.MethodGet, "events", "", "Sec-Fetch-Site", site)
		refused(t, d, status, http.MethodGet, "resources", "", "Sec-Fetch-Site", site)
	}
	for _, site := range []string{"same-origin", "none"} {
		answer, _ := ask(t, d, http.MethodGet, "resources", "", "Sec-Fetch-Site", site)
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
}

// Viewers come and go at all times, beside calls and changes of rules, until it is closed.
func TestEvents_Hammer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gatetest.ClockAt(start)
		g := gates.New(t, c)
		d := dashboard.Handler(g, dashboard.Config{MaxViewers: 8, MaxViewersPerAddress: 8})
		client, _ := serve(t, d)
		done := make(chan struct{})
		const viewers = 12
		for i := range viewers {
			go func() {
				defer func() { done <- struct{}{} }()
				for k := range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i*k*37%2500)*time.Millisecond)
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://pipe/api/v1/events", http.NoBody)
					if answer, err := client.Do(r); err == nil {
						_, _ = io.Copy(io.Discard, answer.Body)
						_ = answer.Body.Close()
					}
					cancel()
					if e, err := g.Entry(fmt.Sprint("r", (i+k)%5)); err == nil {
						c.Advance(time.Millisecond)
						e.Exit()
					}
				}
			}()
		}
		for range viewers {
			<-done
		}
		timer := time.NewTimer(10 * time.Second) // the server notices those who have gone
		<-timer.C
		w := watch(t, client)
		require.NotNil(t, w.next())
		w.agree(g)
		require.NoError(t, d.Close())
	})
}
