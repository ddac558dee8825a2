package leapgatetest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/leapsql"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// line returns where the caller is, as failures name it, some lines further.
func line(further int) string {
	_, _, n, _ := runtime.Caller(1)
	return fmt.Sprintf("gate_test.go:%d", n+further)
}

func TestNew_AnEntryThatIsNeverExitedFailsTheTest(t *testing.T) {
	t.Parallel()
	var made, many, behindDo string
	said := tryInBubble(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
		made = line(1)
		_, _ = g.Entry("GET /orders")
		many = line(2)
		for range 3 {
			_, _ = g.EntryContext(context.Background(), "a", leapgate.WithArg("tenant", "t"), leapgate.WithCount(2))
		}
		behindDo = line(2)
		_ = g.Do(context.Background(), "outer", func(ctx context.Context) error {
			_, err := g.Resource("inner").EntryContext(ctx)
			return err
		})
		e, err := g.Entry("exited")
		require.NoError(t, err)
		e.Exit()
	})
	require.Equal(t, strings.Join([]string{
		"leapgatetest: entry of GET /orders made at " + made + " was never exited",
		"leapgatetest: entry of a made at " + many + " was never exited (3 times)",
		"leapgatetest: entry of inner made at " + behindDo + " was never exited",
	}, "\n"), said)
}

// What makes entries for a program is not where it made them: the line is that of the program.
func TestNew_ALeakIsNamedByTheLineOfTheProgram(t *testing.T) {
	t.Parallel()
	var get, query string
	said := tryInBubble(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
		transport := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: g.Gate, Base: unread{}})
		client := http.Client{Transport: transport}
		get = line(1)
		_, _ = client.Get("http://a") //nolint:bodyclose // that is what is tested
		db := sql.OpenDB(leapsql.Must(connector{}, leapsql.Config{Gate: g.Gate}))
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		query = line(1)
		_, _ = db.Query("select") //nolint:rowserrcheck,sqlclosecheck // so is this
	})
	require.Equal(t, strings.Join([]string{
		"leapgatetest: entry of GET a made at " + get + " was never exited",
		"leapgatetest: entry of sql query made at " + query + " was never exited",
	}, "\n"), said)
}

// unread is a server whose answers have a body.
type unread struct{}

func (unread) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("x")), Request: r}, nil
}

// connector is a database whose queries have no rows.
type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return connector{}, nil }
func (connector) Driver() driver.Driver                        { return nil }
func (connector) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (connector) Close() error                                 { return nil }
func (connector) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }
func (connector) Columns() []string                            { return nil }
func (connector) Next([]driver.Value) error                    { return io.EOF }
func (connector) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return connector{}, nil
}

// A handler may end after its client has its answer, and so after the test.
func TestNew_ACallThatIsJustEndingIsNoLeak(t *testing.T) {
	t.Parallel()
	require.Empty(t, tryInBubble(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, nil)
		e, err := g.Entry("GET /orders")
		require.NoError(t, err)
		time.AfterFunc(900*time.Millisecond, e.Exit)
	}))
}

func TestNew_AnEntryMayBeExitedInACleanup(t *testing.T) {
	t.Parallel()
	require.Empty(t, try(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, nil)
		e, err := g.Entry("GET /orders")
		require.NoError(t, err)
		t.Cleanup(e.Exit)
	}))
}

// Neither refusals nor calls that wait in vain are entries.
func TestNew_RefusedCallsAreNoEntries(t *testing.T) {
	t.Parallel()
	require.Empty(t, try(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
		require.NoError(t, g.LoadRules(leapgate.Rules{
			Flow:      []flow.Rule{{Resource: "paced", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Minute}},
			Isolation: []isolation.Rule{{ID: "alone", Resource: "a", MaxInFlight: 1}},
		}))
		first, err := g.Entry("a")
		require.NoError(t, err)
		_, err = g.Entry("a")
		leapgatetest.RequireBlocked(t, err, "alone")
		first.Exit()
		e, err := g.Entry("paced")
		require.NoError(t, err)
		e.Exit()
		g.Fill("paced")
	}))
}

func TestNew_ClosesTheGate(t *testing.T) {
	t.Parallel()
	var g *leapgatetest.Gate
	require.Empty(t, try(t, func(t *test) { g = leapgatetest.New(t, leapgate.Config{}, nil) }))
	require.ErrorIs(t, g.LoadFlowRules(nil), leapgate.ErrClosed)
}

func TestNew_BadConfigurationsFailTheTest(t *testing.T) {
	t.Parallel()
	require.Contains(t, try(t, func(t *test) { leapgatetest.New(t, leapgate.Config{MaxResources: -1}, nil) }), "MaxResources is -1")
	require.Equal(t, "leapgatetest: a clock is given, and so is Now or Sleep of the configuration; want one of them",
		try(t, func(t *test) {
			c := leapgatetest.NewClock()
			leapgatetest.New(t, leapgate.Config{Now: c.Now}, c)
		}))
}

// The figures are those of the rules alone.
func TestNew_FiguresDoNotShowThatEntriesAreTraced(t *testing.T) {
	t.Parallel()
	g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "qps", Resource: "a", Threshold: 3}}))
	require.Equal(t, 3, pass(g, "a", 5))
	require.Equal(t, 5, pass(g, "free", 5))
	for _, s := range g.Snapshot() {
		if s.Resource == "a" {
			require.Len(t, s.Rules, 1)
			require.EqualValues(t, 2, s.Rules[0].Blocked)
		} else {
			require.Empty(t, s.Rules)
		}
	}
	for _, totals := range g.Totals() {
		require.Len(t, totals.RuleSerials, len(totals.Rules))
	}
	require.Zero(t, g.GuardFaults())
}

func TestNew_AHundredParallelSubtests(t *testing.T) {
	t.Parallel()
	for i := range 100 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			clock := leapgatetest.NewClock()
			g := leapgatetest.New(t, leapgate.Config{}, clock)
			require.NoError(t, g.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 50}}))
			var calls sync.WaitGroup
			for range 8 {
				calls.Go(func() {
					for range 20 {
						e, _ := g.Entry("a")
						e.Exit()
					}
				})
			}
			calls.Wait()
			require.EqualValues(t, 50, g.Lookup("a").Snapshot().Rules[0].Admitted)
			require.EqualValues(t, 110, g.Lookup("a").Snapshot().Rules[0].Blocked)
		})
	}
}

func TestFill_TheNextCallIsRefusedByTheRule(t *testing.T) {
	t.Parallel()
	clock := leapgatetest.NewClock()
	g := leapgatetest.New(t, leapgate.Config{}, clock)
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "orders-qps", Resource: "GET /orders", Threshold: 100}}))
	g.Fill("GET /orders")
	_, err := g.Entry("GET /orders")
	leapgatetest.RequireBlocked(t, err, "orders-qps")
	leapgatetest.RequireRetryAfter(t, err, time.Nanosecond, time.Second)
	clock.Advance(time.Second)
	e, err := g.Entry("GET /orders")
	require.NoError(t, err)
	e.Exit()
}

// A breaker that refuses is not what Fill is for: nothing is used up.
func TestFill_AnotherKindOfRuleThatRefusesFailsTheTest(t *testing.T) {
	t.Parallel()
	said := try(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
		require.NoError(t, g.LoadRules(leapgate.Rules{
			Flow:    []flow.Rule{{Resource: "a", Threshold: 5}},
			Breaker: []breaker.Rule{{ID: "b", Resource: "a", ErrorRatio: 0.5}},
		}))
		g.Open("b")
		g.Fill("a")
	})
	require.Contains(t, said, `leapgatetest: Fill("a"): breaker rule "b"`)
	require.Contains(t, said, "want a refusal by a rule of kind flow or param")
	require.Equal(t, `leapgatetest: Fill("a"): 100000 calls passed; want a rule that refuses some`, try(t, func(t *test) {
		leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock()).Fill("a")
	}))
}

func TestFill_WithoutARuleFailsTheTest(t *testing.T) {
	t.Parallel()
	require.Contains(t, try(t, func(t *test) {
		leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock()).Fill("")
	}), `leapgatetest: Fill(""): `)
}

// The switches drive the changes that a breaker makes by itself.
func TestBreaker_Switches(t *testing.T) {
	t.Parallel()
	var changes []string
	clock := leapgatetest.NewClock()
	g := leapgatetest.New(t, leapgate.Config{OnChange: func(c leapgate.Change) {
		changes = append(changes, c.From+" → "+c.To)
	}}, clock)
	require.NoError(t, g.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "orders-breaker", Resource: "GET /orders", Consecutive: 1, MinCalls: 1, OpenFor: time.Second, Probes: 1},
	}}))
	require.Equal(t, 2, pass(g, "GET /orders", 2))
	state := func() string { return g.Lookup("GET /orders").Snapshot().Rules[0].State }

	g.Open("orders-breaker")
	require.Equal(t, "open", state())
	_, err := g.Entry("GET /orders")
	leapgatetest.RequireBlocked(t, err, "orders-breaker")

	g.HalfOpen("orders-breaker")
	require.Equal(t, "half-open", state())
	fail(t, g, "GET /orders")
	require.Zero(t, pass(g, "GET /orders", 1))
	clock.Advance(time.Second)
	require.Equal(t, 2, pass(g, "GET /orders", 2))
	require.Equal(t, "closed", state())

	g.Open("orders-breaker")
	g.Close("orders-breaker")
	require.Equal(t, "closed", state())
	fail(t, g, "GET /orders")
	require.Zero(t, pass(g, "GET /orders", 1))
	require.Equal(t, "open", state())
	require.Equal(t, []string{
		"closed → open", "open → half-open", "half-open → open", "open → half-open", "half-open → closed",
		"closed → open", "open → closed", "closed → open",
	}, changes)
}

func TestHalfOpen_BesideOtherRules(t *testing.T) {
	t.Parallel()
	rules := leapgate.Rules{
		Flow: []flow.Rule{{Resource: "a 1", Threshold: 1}},
		Breaker: []breaker.Rule{
			{ID: "one", Resource: "a *", Match: rule.Glob, ErrorRatio: 0.5},
			{ID: "two", Resource: "a 1", ErrorRatio: 0.5},
		},
	}
	g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	require.NoError(t, g.LoadRules(rules))
	g.Fill("a 1")
	require.Equal(t, 1, pass(g, "a 2", 1))
	g.HalfOpen("one")
	for _, name := range []string{"a 1", "a 2"} {
		s := g.Lookup(name).Snapshot()
		i := slices.IndexFunc(s.Rules, func(r stat.RuleSnapshot) bool { return r.ID == "one" })
		require.Equal(t, "half-open", s.Rules[i].State, name)
	}
	require.Equal(t, `leapgatetest: HalfOpen("one"): the breaker has no resource yet; want a call before`, try(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
		require.NoError(t, g.LoadRules(leapgate.Rules{Breaker: rules.Breaker[:1]}))
		g.HalfOpen("one")
	}))
	require.Contains(t, try(t, func(t *test) {
		g := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
		require.NoError(t, g.LoadRules(rules))
		pass(g, "a 1", 1)
		g.Open("two")
		g.HalfOpen("one")
	}), `leapgatetest: HalfOpen("one"): no probe of "a 1" can be made: breaker rule "two"`)
}

// All waits of the gate are on its clock, those for a place too.
func TestNew_AWaitForAPlaceIsOnTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := leapgatetest.NewClock()
		g := leapgatetest.New(t, leapgate.Config{}, c)
		require.NoError(t, g.LoadRules(leapgate.Rules{Isolation: []isolation.Rule{{ID: "one", Resource: "a", MaxInFlight: 1, MaxWait: 2 * time.Second}}}))
		first, err := g.Entry("a")
		require.NoError(t, err)
		start, got := time.Now(), make(chan error, 2)
		wait := func() {
			e, err := g.Entry("a")
			e.Exit()
			got <- err
		}
		go wait()
		synctest.Wait()
		require.Equal(t, 1, c.Sleepers())
		c.Advance(2 * time.Second)
		leapgatetest.RequireBlocked(t, <-got, "one")
		go wait()
		synctest.Wait()
		first.Exit()
		require.NoError(t, <-got)
		require.Zero(t, time.Since(start))
		require.Zero(t, c.Sleepers())
	})
}

func TestBreaker_SwitchesOfNoRuleFailTheTest(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*leapgatetest.Gate, string){
		"Open": (*leapgatetest.Gate).Open, "HalfOpen": (*leapgatetest.Gate).HalfOpen, "Close": (*leapgatetest.Gate).Close,
	} {
		require.Contains(t, try(t, func(t *test) {
			f(leapgatetest.New(t, leapgate.Config{}, nil), "nobody")
		}), `no breaker has the ID "nobody"`, name)
	}
}

// In a bubble, waits take no real time, and nothing stays that would keep the bubble from its end.
func TestNew_InABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := leapgatetest.New(t, leapgate.Config{}, nil)
		require.NoError(t, g.LoadFlowRules([]flow.Rule{{
			Resource: "a", Threshold: 1, Interval: 10 * time.Second, Behavior: flow.Pace, MaxWait: time.Minute,
		}}))
		start := time.Now()
		for range 4 {
			e, err := g.Entry("a")
			require.NoError(t, err)
			e.Exit()
		}
		synctest.Wait()
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestRequire_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	refusal := leapgatetest.Block("flow", "orders-qps", 101, 100, 230*time.Millisecond)
	require.ErrorIs(t, refusal, leapgate.ErrBlocked)
	require.Equal(t, 429, refusal.Status)
	require.Equal(t, 503, leapgatetest.Block("breaker", "b", 1, 0, 0).Status)
	require.PanicsWithValue(t, `leapgatetest: the kind of a Block is "flw"; want one of [flow isolation breaker param system]`, func() {
		leapgatetest.Block("flw", "a", 1, 0, 0)
	})
	wrapped := fmt.Errorf("shop: %w", refusal)
	require.Same(t, refusal, leapgatetest.RequireBlocked(t, wrapped, "orders-qps"))
	leapgatetest.RequireRetryAfter(t, wrapped, 230*time.Millisecond, time.Second)

	for want, f := range map[string]func(*test){
		`leapgatetest: the call has passed; want it blocked by "a"`: func(t *test) { leapgatetest.RequireBlocked(t, nil, "a") },
		`leapgatetest: the error is boom; want a call blocked by "a"`: func(t *test) {
			leapgatetest.RequireBlocked(t, errors.New("boom"), "a")
		},
		`leapgatetest: blocked by "orders-qps" (` + wrapped.Error()[6:] + `); want "a"`: func(t *test) { leapgatetest.RequireBlocked(t, wrapped, "a") },
		`leapgatetest: the error is <nil>; want a call that is blocked`: func(t *test) {
			leapgatetest.RequireRetryAfter(t, nil, 0, 1)
		},
		`leapgatetest: RetryAfter is 230ms (` + wrapped.Error()[6:] + `); want 1s to 2s`: func(t *test) {
			leapgatetest.RequireRetryAfter(t, wrapped, time.Second, 2*time.Second)
		},
	} {
		require.Equal(t, want, try(t, f))
	}
}
