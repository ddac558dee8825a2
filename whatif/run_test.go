package whatif_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/whatif"
)

var midnight = time.Date(2024, 5, 20, 0, 0, 0, 0, time.UTC)

func of(requests ...whatif.Request) whatif.Source {
	return func(yield func(whatif.Request, error) bool) {
		for _, r := range requests {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// get is a request at so many milliseconds after midnight, of client a.
func get(ms int) whatif.Request {
	return whatif.Request{At: midnight.Add(time.Duration(ms) * time.Millisecond), Resource: "GET /a", Key: "a", Status: 200}
}

func lasting(r whatif.Request, d time.Duration) whatif.Request {
	r.Duration = d
	return r
}

func times(n int, r whatif.Request) (all []whatif.Request) {
	for range n {
		all = append(all, r)
	}
	return all
}

func run(t testing.TB, cfg whatif.Config, requests ...whatif.Request) *whatif.Report {
	t.Helper()
	r, err := whatif.Run(context.Background(), cfg, of(requests...))
	require.NoError(t, err)
	return r
}

func flowRule(threshold float64, interval time.Duration) whatif.Config {
	return whatif.Config{Rules: leapgate.Rules{Flow: []flow.Rule{{ID: "r", Resource: "GET /a", Threshold: threshold, Interval: interval}}}}
}

func perKey(n int64, window time.Duration) map[string]rulefile.Limit {
	return map[string]rulefile.Limit{"each": {Limit: &n, Window: window}}
}

func TestRun_CallsInFlightLastAsLongAsInTheLog(t *testing.T) {
	t.Parallel()
	cfg := whatif.Config{Rules: leapgate.Rules{Isolation: []isolation.Rule{{Resource: "GET /a", MaxInFlight: 2}}}}
	for lasts, blocked := range map[time.Duration]int64{
		time.Second:            1,
		50 * time.Millisecond:  0,
		200 * time.Millisecond: 0, // the first has just ended when the third comes
		201 * time.Millisecond: 1,
	} {
		r := run(t, cfg, lasting(get(0), lasts), lasting(get(100), lasts), lasting(get(200), lasts))
		require.Equal(t, blocked, r.Blocked, lasts)
		require.Equal(t, blocked, r.Rules[0].Blocked)
		if blocked > 0 {
			require.Equal(t, midnight.Add(200*time.Millisecond), r.Rules[0].First)
		}
	}
}

func TestRun_WholeSecondsAreTooImpreciseForShortWindows(t *testing.T) {
	t.Parallel()
	cfg := flowRule(5, time.Second)
	cfg.Rules.Flow[0].Strict, cfg.Resolution = true, time.Second
	r := run(t, cfg, append(times(5, get(18_000)), times(5, get(19_000))...)...)
	require.EqualValues(t, 1, r.Blocked, "they are spread over the seconds")
	require.Equal(t, midnight.Add(18*time.Second), r.Traffic.First)
	require.Equal(t, midnight.Add(19*time.Second), r.Traffic.Last)
	require.Contains(t, fmt.Sprint(r.Rules[0].Notes), "The times in the log are multiples of 1s, which is too imprecise for windows of 1s.")
}

func TestRun_QuantilesAndCurveOfTheWindowsOfEachKey(t *testing.T) {
	t.Parallel()
	var all []whatif.Request
	for key, counts := range map[string][]int{"A": {10, 10, 40}, "B": {5, 5, 5}, "C": {100, 0, 0}} {
		for minute, n := range counts {
			r := get(minute * 60_000)
			r.Key = key
			all = append(all, times(n, r)...)
		}
	}
	slices.SortStableFunc(all, func(a, b whatif.Request) int { return a.At.Compare(b.At) })
	n := int64(1000)
	r := run(t, whatif.Config{Limits: map[string]rulefile.Limit{"each": {Limit: &n, Window: time.Minute}}}, all...)
	want := whatif.Counts{N: 7, P50: 10, P99: 100, P999: 100, Max: 100}
	require.Equal(t, want, r.Rules[0].Windows)
	c := r.Curves[0]
	require.Equal(t, want, c.Windows)
	require.Equal(t, whatif.Counts{N: 3, P50: 40, P99: 100, P999: 100, Max: 100}, c.Peaks)
	require.EqualValues(t, 175+10, c.Total+10)
	for _, p := range []whatif.Point{{30, 80, 80. / 175, 2}, {50, 50, 50. / 175, 1}, {100, 0, 0, 0}} {
		require.Equal(t, p, c.At(p.Limit))
		require.Contains(t, c.Points, p)
	}
	require.EqualValues(t, 200, c.Suggested.Limit) // at least 120
	require.Contains(t, c.Warning, "only 3 keys")
}

func TestRun_SameLogMakesTheSameBytes(t *testing.T) {
	t.Parallel()
	requests := randomRequests(3000, 7)
	for i := range requests {
		requests[i].At = requests[i].At.Truncate(time.Second)
	}
	var reports [2]string
	for i := range reports {
		r := run(t, everything(time.Second), requests...)
		var text bytes.Buffer
		require.NoError(t, r.WriteText(&text))
		asJSON, err := json.Marshal(r)
		require.NoError(t, err)
		reports[i] = text.String() + string(asJSON)
	}
	require.Equal(t, reports[0], reports[1])
}

// everything has a rule of all sorts.
func everything(resolution time.Duration) whatif.Config {
	return whatif.Config{
		Resolution: resolution, Limits: perKey(20, time.Minute),
		Rules: leapgate.Rules{
			Flow: []flow.Rule{
				{ID: "all", Resource: "GET /*", Match: rule.Glob, Threshold: 12, Interval: 10 * time.Second},
				{ID: "paced", Resource: "GET /b", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Second},
				{ID: "tried", Resource: "GET /c", Threshold: 1, Mode: rule.Shadow},
			},
			Isolation: []isolation.Rule{
				{ID: "few", Resource: "GET /d", MaxInFlight: 1, MaxWait: 100 * time.Millisecond},
				{ID: "tried", Resource: "GET /c", MaxInFlight: 1, MaxWait: 300 * time.Millisecond, Mode: rule.Shadow},
			},
			Breaker: []breaker.Rule{{ID: "broken", Resource: "GET /e", ErrorRatio: 0.3, OpenFor: 2 * time.Second}},
			Param: []param.Rule{
				{ID: "each", Resource: "GET /a", Arg: "client", Threshold: 2, Interval: 5 * time.Second},
				{ID: "turns", Resource: "GET /d", Arg: "client", Threshold: 2, Interval: 20 * time.Second, Behavior: param.Pace, MaxWait: 2 * time.Second},
			},
		},
	}
}

// randomRequests are of 12 clients for 5 resources, some a second.
func randomRequests(n int, seed uint64) (all []whatif.Request) {
	rng := rand.New(rand.NewPCG(seed, 0))
	at := midnight
	for range n {
		at = at.Add(time.Duration(rng.ExpFloat64() * 0.1e9))
		all = append(all, whatif.Request{
			At: at, Resource: "GET /" + string(rune('a'+rng.IntN(5))), Key: fmt.Sprint("client", int(rng.ExpFloat64()*3)),
			Duration: time.Duration(rng.ExpFloat64() * 0.3e9), Status: []int{200, 200, 404, 503}[rng.IntN(4)],
		})
	}
	return all
}

// Every rule of all sorts is asked, and each request is blocked or not once.
func TestRun_AllSortsOfRules(t *testing.T) {
	t.Parallel()
	r := run(t, everything(0), randomRequests(3000, 1)...)
	var blocked int64
	for _, u := range r.Rules {
		require.NotZero(t, u.Requests, u.ID)
		require.NotZero(t, u.Blocked, u.ID)
		require.NotZero(t, u.Keys, u.ID)
		blocked += u.Blocked
	}
	require.Equal(t, r.Blocked, blocked)
	require.NotZero(t, r.Waited)
	require.LessOrEqual(t, time.Duration(r.LongestWait), 3300*time.Millisecond)
}

func TestRun_WaitingTakesTheTimeOfTheLog(t *testing.T) {
	t.Parallel()
	pace := whatif.Config{Rules: leapgate.Rules{Flow: []flow.Rule{{Resource: "GET /a", Threshold: 1, Behavior: flow.Pace, MaxWait: time.Hour}}}}
	r := run(t, pace, times(100, get(0))...)
	require.Zero(t, r.Blocked)
	require.EqualValues(t, 99, r.Waited)
	require.Equal(t, "1m39s", r.LongestWait.String())

	queue := whatif.Config{Rules: leapgate.Rules{Isolation: []isolation.Rule{{Resource: "GET /a", MaxInFlight: 1, MaxWait: 2 * time.Second}}}}
	r = run(t, queue, times(4, lasting(get(0), time.Second))...)
	require.EqualValues(t, 1, r.Blocked) // the third of those that wait would have begun after 3 s
	require.EqualValues(t, 2, r.Waited)
	require.Equal(t, "2s", r.LongestWait.String())
	require.Equal(t, midnight.Add(2*time.Second), r.Rules[0].First)
}

// A rule in mode shadow is there to be enforced. What is in force does not block because of it.
func TestRun_ShadowRulesAreTriedAsIfEnforced(t *testing.T) {
	t.Parallel()
	cfg := flowRule(3, time.Minute)
	cfg.Rules.Flow[0].Mode = rule.Shadow
	one, shadow := int64(1), rule.Shadow
	limited := whatif.Config{Limits: map[string]rulefile.Limit{"each": {Limit: &one, Window: time.Minute, Mode: &shadow}}}
	for _, test := range []struct {
		cfg     whatif.Config
		blocked int64
	}{{cfg, 7}, {limited, 9}} {
		r := run(t, test.cfg, times(10, get(0))...)
		require.Equal(t, []int64{test.blocked, test.blocked}, []int64{r.Blocked, r.Rules[0].Blocked})
		require.Equal(t, rule.Shadow, r.Rules[0].Mode)
		c, err := whatif.Compare(t.Context(), test.cfg, test.cfg, of(times(10, get(0))...))
		require.NoError(t, err)
		require.Equal(t, []int64{0, test.blocked}, []int64{c.Before.Blocked, c.After.Blocked})
	}
}

// A rule for many resources that would evict keys counts all of them, so that the result is always the same.
func TestRun_MoreKeysThanARuleCounts(t *testing.T) {
	t.Parallel()
	cfg := whatif.Config{Rules: leapgate.Rules{Param: []param.Rule{
		{ID: "each", Resource: "GET /*", Match: rule.Glob, Arg: "client", Threshold: 1, Interval: time.Minute, MaxKeys: 10},
	}}}
	var all []whatif.Request
	for i := range 200 {
		r := get(i)
		r.Key = fmt.Sprint(i % 100)
		all = append(all, r)
	}
	r := run(t, cfg, all...)
	require.EqualValues(t, 100, r.Blocked)
	require.Contains(t, fmt.Sprint(r.Rules[0].Notes), "The log has more keys than the rule counts at a time, 10. All of them were counted here.")
}

func TestRun_BreakersSeeTheStatusOfTheLog(t *testing.T) {
	t.Parallel()
	cfg := whatif.Config{Rules: leapgate.Rules{Breaker: []breaker.Rule{{Resource: "GET /a", ErrorCount: 3, MinCalls: 1, OpenFor: 10 * time.Second}}}}
	bad := func(ms int, status int) whatif.Request { r := get(ms); r.Status = status; return r }
	r := run(t, cfg, bad(0, 500), bad(1, 404), bad(2, 502), bad(3, 503), get(4), get(10_002), get(10_003))
	require.EqualValues(t, 2, r.Blocked) // of those within 10 s after the third
	refusedThen := bad(3, 503)
	refusedThen.Refused = true
	r = run(t, cfg, bad(0, 500), bad(2, 502), refusedThen, get(4))
	require.Zero(t, r.Blocked)
	require.EqualValues(t, 1, r.Traffic.Refused)
	require.Contains(t, fmt.Sprint(r.Notes), "1 request had been blocked then")
}

// What a rule refuses takes nothing from limits, and the other way round.
func TestRun_RefusalsTakeNothing(t *testing.T) {
	t.Parallel()
	cfg := flowRule(1, time.Second)
	cfg.Limits = perKey(2, time.Hour)
	r := run(t, cfg, get(0), get(1), get(2), get(1100), get(1101), get(2200), get(3300))
	require.Equal(t, []int64{3, 2}, []int64{r.Rules[0].Blocked, r.Rules[1].Blocked})
}

func TestRun_WholeReport(t *testing.T) {
	t.Parallel()
	cfg := flowRule(2, time.Minute)
	b := get(61_000)
	b.Key = "b\x1b[31m"
	r := run(t, cfg, get(0), get(1000), get(2000), get(59_000), get(60_500), b, get(119_000))
	u := r.Rules[0]
	require.Equal(t, midnight.Add(2*time.Second), u.First)
	require.Equal(t, midnight.Add(119*time.Second), u.Last)
	require.Equal(t, whatif.Minute{At: midnight, Requests: 2}, u.WorstMinute)
	require.Equal(t, []whatif.KeyCount{{"a", 6, 3}}, u.Top)
	require.Equal(t, whatif.Counts{N: 2, P50: 3, P99: 4, P999: 4, Max: 4}, u.Windows)
	require.Equal(t, whatif.Traffic{
		Requests: 7, First: midnight, Last: midnight.Add(119 * time.Second), Resources: 1, TopResources: []whatif.ResourceCount{{"GET /a", 7}}, Keys: 2,
		Top: []whatif.KeyCount{{"a", 6, 3}, {"b\x1b[31m", 1, 0}}, TopShare: 6. / 7, BusiestMinute: whatif.Minute{At: midnight, Requests: 4},
	}, r.Traffic)
	require.Contains(t, fmt.Sprint(r.Notes), "One key has 85.7 % of all requests: is it a proxy")
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.NotContains(t, text.String(), "\x1b")
}

func TestRun_SaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	cfg := flowRule(-1, time.Minute)
	cfg.Resolution, cfg.Windows = time.Hour, []time.Duration{time.Nanosecond}
	cfg.Limits = map[string]rulefile.Limit{"each": {Window: time.Minute}}
	_, err := whatif.Run(context.Background(), cfg, of())
	for _, want := range []string{"Resolution is 1h0m0s; want", "Windows has 1ns; want", "Threshold is -1; want", `limit "each" has no limit`} {
		require.ErrorContains(t, err, want)
	}
}

func TestRun_EndsWithTheErrorOfTheSourceOrTheContext(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk gone")
	cfg := everything(time.Second)
	_, err := whatif.Run(context.Background(), cfg, func(yield func(whatif.Request, error) bool) {
		for _, r := range randomRequests(100, 2) {
			if !yield(r, nil) {
				return
			}
		}
		yield(whatif.Request{}, broken)
	})
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = whatif.Run(ctx, cfg, of(randomRequests(100, 2)...))
	require.ErrorIs(t, err, context.Canceled)
	nameless := get(0)
	nameless.Resource = ""
	_, err = whatif.Run(context.Background(), cfg, of(nameless))
	require.ErrorContains(t, err, "has no resource")
}

func TestRun_RequestsMustBeInOrder(t *testing.T) {
	t.Parallel()
	_, err := whatif.Run(t.Context(), whatif.Config{}, of(get(5000), get(1000)))
	require.ErrorContains(t, err, "comes after one at 2024-05-20 00:00:05")
}

func TestRun_NothingAtAll(t *testing.T) {
	t.Parallel()
	for _, cfg := range []whatif.Config{{}, everything(time.Second)} {
		r := run(t, cfg)
		require.Zero(t, r.Traffic.Requests)
		require.NoError(t, r.WriteText(new(bytes.Buffer)))
	}
}

// Costs are counted, by rules and in the curve.
func TestRun_CostsCount(t *testing.T) {
	t.Parallel()
	dear := get(0)
	dear.Cost = 60
	cfg := flowRule(100, time.Minute)
	r := run(t, cfg, dear, dear, get(1))
	require.EqualValues(t, 1, r.Blocked)
	require.EqualValues(t, 121, r.Rules[0].Windows.Max)
	require.EqualValues(t, 121, r.Curves[0].Total)
	dear.Cost = 1 << 40
	r = run(t, cfg, dear)
	require.EqualValues(t, 1, r.Blocked)
	require.Contains(t, fmt.Sprint(r.Notes), "1 request cost more than 1048576")
}

func TestCompare_OfTheSameRulesDiffersInNothing(t *testing.T) {
	t.Parallel()
	cfg := everything(time.Second)
	cfg.Rules.Flow, cfg.Rules.Isolation = cfg.Rules.Flow[:2], cfg.Rules.Isolation[:1] // those in force
	c, err := whatif.Compare(context.Background(), cfg, cfg, of(randomRequests(3000, 3)...))
	require.NoError(t, err)
	require.Equal(t, c.Before.Rules, c.After.Rules)
	require.NotZero(t, c.Both)
	require.Equal(t, c.Before.Blocked, c.Both)
	require.Zero(t, c.OnlyBefore+c.OnlyAfter)
	require.Zero(t, c.Better+c.Worse)
	require.Empty(t, c.Resources)
}

func TestCompare_ListsWhomAnotherThresholdConcerns(t *testing.T) {
	t.Parallel()
	c, err := whatif.Compare(context.Background(), flowRule(2, time.Minute), flowRule(3, time.Minute), of(times(5, get(0))...))
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0, 2}, []int64{c.OnlyBefore, c.OnlyAfter, c.Both})
	require.Equal(t, []int{1, 0}, []int{c.Better, c.Worse})
	require.Equal(t, []whatif.KeyChange{{Key: "a", Requests: 5, Before: 3, After: 2}}, c.MostBetter)
	require.Equal(t, []whatif.ResourceChange{{Resource: "GET /a", OnlyBefore: 1}}, c.Resources)
	var text bytes.Buffer
	require.NoError(t, c.WriteText(&text))
	require.Contains(t, text.String(), "1 request blocked before only, 0 after only, 2 both; 1 key better off, 0 worse off")
}

func TestSuggest_WantsRequests(t *testing.T) {
	t.Parallel()
	some, none := of(times(5, get(0))...), of()
	for _, sources := range [][2]whatif.Source{{none, nil}, {none, some}, {some, none}} {
		_, err := whatif.Suggest(context.Background(), whatif.Config{}, sources[0], sources[1])
		require.ErrorContains(t, err, "has no requests; want some")
	}
	keyless := get(0)
	keyless.Key = ""
	s, err := whatif.Suggest(context.Background(), whatif.Config{}, of(keyless), some)
	require.NoError(t, err)
	require.Zero(t, s.Limits[0].Limit)
	require.Nil(t, s.Limits[0].Test)
}

// Whatever the format of the log, 429 says that the request was refused then.
func TestRun_TooManyRequestsWereRefusedThen(t *testing.T) {
	t.Parallel()
	r := get(0)
	r.Status = 429
	require.EqualValues(t, 1, run(t, whatif.Config{}, r).Traffic.Refused)
}

// Each key counts once, however many busy windows it has; and other requests try the limit.
func TestSuggest_GoesByTheKeys(t *testing.T) {
	t.Parallel()
	var all []whatif.Request
	for minute := range 20 {
		for client := range 2000 {
			n := 1
			if client < 10 { // half a percent of the keys, most of the requests
				n = 500
			}
			if minute > 0 && client >= 10 {
				continue
			}
			r := get(minute * 60_000)
			r.Key = fmt.Sprint(client)
			all = append(all, times(n, r)...)
		}
	}
	other := get(0)
	other.Key = "x"
	s, err := whatif.Suggest(context.Background(), whatif.Config{}, of(all...), of(times(7, other)...))
	require.NoError(t, err)
	l := s.Limits[0]
	require.EqualValues(t, 2, l.Limit) // at least 1.2
	require.Empty(t, l.Train.Warning)
	require.Equal(t, whatif.Point{Limit: 2, Blocked: 20 * 10 * 498, Share: 99600. / 101990, Keys: 10}, l.Train.Suggested)
	require.Equal(t, &whatif.Point{Limit: 2, Blocked: 5, Share: 5. / 7, Keys: 1}, l.Test)
	var text bytes.Buffer
	require.NoError(t, s.WriteText(&text))
	require.Contains(t, text.String(), "suggested: 2, which would have blocked 97.7 %, of 10 keys")
	require.Contains(t, text.String(), "tested on 7 other requests: it would have blocked 71.4 %, of 1 key")
}

// A limit counts requests without a key as those of one, as the middleware does.
func TestRun_RequestsWithoutAKeyShareOneInLimits(t *testing.T) {
	t.Parallel()
	nobody := get(0)
	nobody.Key = ""
	r := run(t, whatif.Config{Limits: perKey(5, time.Minute)}, append(times(20, nobody), get(1))...)
	require.EqualValues(t, 15, r.Rules[0].Blocked)
	require.Contains(t, fmt.Sprint(r.Notes), "20 requests without a key: limits count them as one key")
}

func TestRun_TimesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, year := range []int{1, 1969, 2263} {
		r := get(0)
		r.At = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err := whatif.Run(t.Context(), whatif.Config{}, of(r))
		require.ErrorContains(t, err, "want a time from 1970 to 2262")
	}
}

func TestRun_ResourcesWithTheMostRequests(t *testing.T) {
	t.Parallel()
	var all []whatif.Request
	for i := range 12 {
		r := get(0)
		r.Resource = fmt.Sprintf("GET /%c", 'a'+i)
		all = append(all, times(1+i/2, r)...)
	}
	top := run(t, whatif.Config{}, all...).Traffic.TopResources
	require.Len(t, top, 10)
	require.Equal(t, []whatif.ResourceCount{{"GET /k", 6}, {"GET /l", 6}, {"GET /i", 5}}, top[:3])
	require.Equal(t, whatif.ResourceCount{Resource: "GET /d", Requests: 2}, top[9])
}
