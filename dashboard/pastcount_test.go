package dashboard_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/rule"
)

func callTimes(g *leapgate.Gate, name string, times int) {
	for range times {
		if e, err := g.Entry(name); err == nil {
			e.Exit()
		}
	}
}

// A resource is evicted and comes again, at once or later, with more or fewer calls than before: what it
// does stands where it did it, and nothing twice.
func TestHistory_OfResourcesThatAreEvicted(t *testing.T) {
	t.Parallel()
	for _, again := range []time.Duration{0, time.Second, 10 * time.Second} {
		t.Run(again.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := leapgate.Must(leapgate.Config{MaxResources: 2})
				require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "all", Resource: "*", Match: rule.All, Threshold: 100}}))
				d := keeping(t, g, 0)
				time.Sleep(100 * time.Millisecond)
				callTimes(g, "x", 1)
				for range 20 {
					callTimes(g, "y", 110)
					time.Sleep(time.Second)
				}
				time.Sleep(61 * time.Second)
				callTimes(g, "new", 1)
				require.Nil(t, g.Lookup("y"))
				time.Sleep(again)
				callTimes(g, "y", 3000)
				require.NotNil(t, g.Lookup("y"))
				time.Sleep(10 * time.Second)

				y := pastOf(t, d, "name=y")
				require.InDelta(t, 20*100+100, y.Resource.sum(t, "pass"), 0)
				require.InDelta(t, 20*10+2900, y.Resource.sum(t, "block"), 0)
				require.InDelta(t, 20*10+2900, y.Rules[0].sum(t, "blocked"), 0)
			})
		})
	}
}

func numbered(name string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(name, i))
	}
	return all
}

// A rule is removed and loaded again, or bound elsewhere meanwhile: what it refused before stays.
func TestHistory_OfARuleThatBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, between := range []time.Duration{0, time.Second, 20 * time.Second} {
		t.Run(between.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := leapgate.Must(leapgate.Config{})
				d := keeping(t, g, 0)
				bind := func(name string) {
					require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "r", Resource: name, Threshold: 0}}))
				}
				callTimes(g, "x", 1)
				time.Sleep(30*time.Second + 100*time.Millisecond)
				bind("x")
				callTimes(g, "x", 50)
				time.Sleep(20 * time.Second)
				callTimes(g, "x", 5)
				time.Sleep(2 * time.Second)
				bind("y")
				time.Sleep(between)
				bind("x")
				callTimes(g, "x", 70)
				time.Sleep(20 * time.Second)
				v := pastOf(t, d, "name=x")
				require.InDelta(t, 125, v.Resource.sum(t, "block"), 0)
				require.Len(t, v.Rules, 1)
				require.InDelta(t, 125, v.Rules[0].sum(t, "blocked"), 0)
			})
		})
	}
}

// The rules that are gone are shown for an hour, but not more than a few.
func TestHistory_OfManyRulesThatAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		d := keeping(t, g, 0)
		for i := range 20 {
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: fmt.Sprint("r", i), Resource: "x", Threshold: 0}}))
			callTimes(g, "x", 1)
			time.Sleep(10 * time.Second)
		}
		v := pastOf(t, d, "name=x")
		require.Len(t, v.Rules, 6)
		require.InDelta(t, 20, v.Resource.sum(t, "block"), 0)
		for _, r := range v.Rules {
			require.InDelta(t, 1, r.sum(t, "blocked"), 0, r.ID)
		}
		time.Sleep(61 * time.Minute)
		require.Len(t, pastOf(t, d, "name=x").Rules, 1)
	})
}

// Where the clock is set back, the history begins anew: times that come twice could not be told apart.
func TestHistory_WhereTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, back := time.Now(), new(atomic.Int64)
		g := leapgate.Must(leapgate.Config{Now: func() int64 { return int64(1e18) + int64(time.Since(began)) - back.Load() }})
		d := keeping(t, g, 0)
		seconds := func(n int) {
			for range n {
				time.Sleep(100 * time.Millisecond)
				callTimes(g, "x", 8)
				time.Sleep(900 * time.Millisecond)
			}
		}
		seconds(60)
		back.Store(int64(3 * time.Hour))
		seconds(60)
		for span, calls := range map[string]float64{"hour": 50 * 8, "minute": 55 * 8, "demand": 55 * 8} {
			v := pastOf(t, d, "name=x&span="+span).Resource
			column := "pass"
			if span == "demand" {
				column = "demand"
			}
			require.GreaterOrEqual(t, v.sum(t, column), calls, span)
			require.Less(t, v.Rows[len(v.Rows)-1][0], 1e9-2*3600)
			for i, row := range v.Rows[1:] {
				require.Greater(t, row[0], v.Rows[i][0])
				require.LessOrEqual(t, row[1], 8.0*6, "all of it in one step")
			}
		}
	})
}

// The most that waited at a time, and not what was seen once a second.
func TestHistory_HasThePeakOfThoseThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgate.Must(leapgate.Config{})
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 100, Behavior: flow.Pace, MaxWait: time.Second}}))
		d := keeping(t, g, 0)
		time.Sleep(200 * time.Millisecond)
		for range 8 { // the last waits for 70 ms
			go callTimes(g, "a", 1)
		}
		time.Sleep(20 * time.Second)
		require.Contains(t, pastOf(t, d, "name=a").Resource.column(t, "waiting"), 7.0)
	})
}

// Where not all resources fit that are busy, some keep all of their history, and the others have none:
// nobody would have any for long if each took the room of others.
func TestHistory_OfMoreThanFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const resources, seconds = 1000, 90
		g := leapgate.Must(leapgate.Config{})
		var log bytes.Buffer
		d, err := dashboard.New(g, dashboard.Config{KeepHistory: true, HistoryBytes: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer d.Close()
		synctest.Wait()
		names := numbered("n", resources)
		for second := range seconds {
			for i, name := range names {
				callTimes(g, name, 1+(i+second)%2)
			}
			time.Sleep(time.Second)
		}
		kept := 0
		var forgotten int64
		for _, name := range names {
			if answer := askPast(d, "span=demand&name="+name); answer.Code == http.StatusOK {
				kept++
				v := pastOf(t, d, "span=demand&name="+name)
				require.Greater(t, len(v.Resource.Rows), seconds-5, name)
				forgotten = v.Forgotten
			}
		}
		require.Greater(t, kept, 50)
		require.LessOrEqual(t, forgotten, int64(resources), "nobody begins in vain")
		require.LessOrEqual(t, dashboard.HistoryBytes(d), 1<<20)
		require.Equal(t, 1, strings.Count(log.String(), "HistoryBytes"), log.String())
		client, _ := serve(t, d)
		watching := watch(t, client)
		require.Equal(t, forgotten, watching.next().Forgotten)
		watching.cancel()

		// A new one begins when others are idle.
		for range 70 {
			callTimes(g, "new", 1)
			time.Sleep(time.Second)
		}
		require.NotEmpty(t, pastOf(t, d, "name=new").Resource.Rows)
	})
}
