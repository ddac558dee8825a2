package dashboard_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

type pastView struct {
	Step      int64
	Forgotten int64
	Resource  pastRows
	Rules     []struct {
		Kind, ID string
		States   []string
		pastRows
	}
}

type pastRows struct {
	Columns []string
	Rows    [][]float64
}

func (v pastRows) sum(t *testing.T, column string) (sum float64) {
	t.Helper()
	require.Contains(t, v.Columns, column)
	for i, c := range v.Columns {
		if c == column {
			for _, row := range v.Rows {
				sum += row[i]
			}
		}
	}
	return sum
}

func askPast(d http.Handler, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/history?"+query, nil))
	return w
}

func pastOf(t *testing.T, d http.Handler, query string) (v pastView) {
	t.Helper()
	w := askPast(d, query)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}

func keeping(t *testing.T, g *leapgate.Gate, bytes int) *dashboard.Dashboard {
	t.Helper()
	d, err := dashboard.New(g, dashboard.Config{KeepHistory: true, HistoryBytes: bytes})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	synctest.Wait() // until the figures have been read once
	return d
}

// Nobody has looked, and no count is lost or invented.
func TestHistory_HasEveryCallOfTheHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a-qps", Resource: "a", Threshold: 5, Candidate: 2}}))
		d := keeping(t, g, 0)
		calls := 0
		for i := range 3000 { // 50 minutes
			for range i % 8 {
				calls++
				if e, err := g.Entry("a"); err == nil {
					e.SetError(errAway)
					e.Exit()
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second) // the last step is done
		synctest.Wait()              // and so is its reading
		s := gates.Snapshot(t, g, "a")
		require.EqualValues(t, calls, s.Pass+s.Block)
		require.NotZero(t, s.Block)

		hour := pastOf(t, d, "name=a")
		require.EqualValues(t, 5, hour.Step)
		require.EqualValues(t, s.Pass, hour.Resource.sum(t, "pass"))
		require.EqualValues(t, s.Block, hour.Resource.sum(t, "block"))
		require.EqualValues(t, s.Exception, hour.Resource.sum(t, "exception"))
		require.Len(t, hour.Rules, 1)
		rule := hour.Rules[0]
		require.Equal(t, "flow a-qps", rule.Kind+" "+rule.ID)
		require.EqualValues(t, s.Rules[0].Blocked, rule.sum(t, "blocked"))
		require.EqualValues(t, s.Rules[0].CandidateWouldBlock, rule.sum(t, "candidateWouldBlock"))
		require.InDelta(t, 5*len(rule.Rows), rule.sum(t, "effective"), 0)

		demand := pastOf(t, d, "name=a&span=demand")
		require.EqualValues(t, 1, demand.Step)
		require.EqualValues(t, calls, demand.Resource.sum(t, "demand"))
		for i, row := range demand.Resource.Rows[1:] {
			require.InDelta(t, demand.Resource.Rows[i][0]+1, row[0], 0, "every second is there")
		}
		require.Len(t, pastOf(t, d, "name=a&span=minute").Resource.Rows, 60)
	})
}

// column returns the values of a column, oldest first.
func (v pastRows) column(t *testing.T, name string) (values []float64) {
	t.Helper()
	i := slices.Index(v.Columns, name)
	require.GreaterOrEqual(t, i, 0, name)
	for _, row := range v.Rows {
		values = append(values, row[i])
	}
	return values
}

// A breaker opens and closes again, and a threshold is lowered.
func TestHistory_HasStatesAndThresholdsAsTheyWere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		load := func(threshold float64) {
			require.NoError(t, g.LoadRules(leapgate.Rules{
				Flow:    []flow.Rule{{ID: "day", Resource: "a", Threshold: threshold, Interval: 24 * time.Hour}},
				Breaker: []breaker.Rule{{ID: "trip", Resource: "a", Consecutive: 3, OpenFor: 20 * time.Second}},
			}))
		}
		load(100)
		d := keeping(t, g, 0)
		for second := range 60 {
			if second == 31 {
				load(50)
			}
			if e, err := g.Entry("a"); err == nil {
				if second < 10 { // it opens with the tenth
					e.SetError(errAway)
				}
				e.Exit()
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		v := pastOf(t, d, "name=a")
		require.Len(t, v.Rules, 2)
		trip, day := v.Rules[0], v.Rules[1]
		require.Equal(t, []string{"closed", "open", "half-open"}, trip.States[:3])
		require.Equal(t, []float64{0, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0, 0}, trip.column(t, "state")[:12])
		require.InDelta(t, float64(gates.Snapshot(t, g, "a").Rules[1].Changes), trip.sum(t, "changes"), 0)
		require.InDelta(t, 20, trip.sum(t, "blocked"), 3)
		require.Equal(t, []float64{100, 100, 100, 100, 100, 100, 50, 50, 50, 50, 50, 50}, day.column(t, "effective")[:12])
	})
}

// What happened before the dashboard was made is not taken for a peak.
func TestHistory_BeginsWithTheDashboard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "a-qps", Resource: "a", Threshold: 5}}))
		for range 1000 {
			gates.Enter(t, g, "a")
		}
		d := keeping(t, g, 0)
		time.Sleep(time.Minute)
		require.Equal(t, http.StatusNotFound, askPast(d, "name=a").Code)
		for range 10 {
			gates.Enter(t, g, "a")
		}
		time.Sleep(time.Minute)
		v := pastOf(t, d, "name=a")
		require.InDelta(t, 5, v.Resource.sum(t, "pass"), 0)
		require.InDelta(t, 5, v.Resource.sum(t, "block"), 0)
		require.InDelta(t, 5, v.Rules[0].sum(t, "blocked"), 0)
	})
}

func TestHistory_ForgetsWhatWasNotCalledForLongest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		d := keeping(t, g, 1<<20)
		name := func(i int) string { return fmt.Sprintf("r%04d", i) }
		for i := range 1200 { // each takes more than half a KiB
			gates.Enter(t, g, name(i))
			if i%45 == 0 {
				time.Sleep(15 * time.Second)
			}
		}
		time.Sleep(10 * time.Second)
		newest := pastOf(t, d, "name="+name(1199))
		require.NotZero(t, newest.Forgotten)
		require.Equal(t, http.StatusNotFound, askPast(d, "name="+name(0)).Code)

		gates.Enter(t, g, name(0)) // it comes again, and its one call of before is not counted twice
		time.Sleep(10 * time.Second)
		require.InDelta(t, 1, pastOf(t, d, "name="+name(0)).Resource.sum(t, "pass"), 0)
	})
}

func TestHistory_WhereNoneIsKept(t *testing.T) {
	t.Parallel()
	d := dashboard.Handler(leapgate.Must(leapgate.Config{}), dashboard.Config{})
	w := askPast(d, "name=a")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "KeepHistory")
	w = askPast(d, "span=day")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `want one of hour, minute, demand`)

	_, err := dashboard.New(leapgate.Must(leapgate.Config{}), dashboard.Config{HistoryBytes: 7})
	require.ErrorContains(t, err, "HistoryBytes is 7; want at least 1048576")
	require.ErrorContains(t, err, "KeepHistory is not set")
}

// A resource that changes all the time takes no more than it may.
func TestHistory_OfABusyResourceIsSmall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		d := keeping(t, g, 0)
		r := rand.New(rand.NewPCG(1, 2))
		for range 4000 {
			for range 1 + r.IntN(3) {
				e, err := g.EntryContext(t.Context(), "a", leapgate.WithCount(1+r.Int64N(100_000)))
				require.NoError(t, err)
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
				e.Exit()
			}
			time.Sleep(500 * time.Millisecond)
		}
		require.LessOrEqual(t, dashboard.HistoryBytes(d), 32<<10)
	})
}
