package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/rule"
)

func TestReload_KeepsTheStateAndMovesTheEndOfAnOpening(t *testing.T) {
	t.Parallel()
	openFor := func(d time.Duration) breaker.Rule { return usual(func(r *breaker.Rule) { r.OpenFor = d }) }
	w := newWorld(t, usual())
	w.opens()
	w.at(3 * sec)
	w.load(openFor(10 * sec))
	require.Equal(t, 7*sec, w.refused().RetryAfter)
	w.load(openFor(4 * sec))
	require.Equal(t, sec, w.refused().RetryAfter)
	w.load(openFor(2 * sec)) // which was over a second ago
	require.Len(t, w.hold(5), 1)
	w.in("half-open")
}

func TestReload_OfALongerOpeningInARow(t *testing.T) {
	t.Parallel()
	r := usual(func(r *breaker.Rule) { r.OpenFor, r.MaxOpenFor = sec, 8*sec })
	w := newWorld(t, r)
	w.opens()
	w.at(sec)
	w.calls(fails) // for 2 s
	r.OpenFor = 3 * sec
	w.load(r)
	require.Equal(t, 6*sec, w.refused().RetryAfter)
	r.MaxOpenFor = 4 * sec
	w.load(r)
	require.Equal(t, 4*sec, w.refused().RetryAfter)
}

func TestReload_KeepsTheWindowIfItIsCutAlike(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*breaker.Rule)
		keeps  bool
	}{
		"another ratio":      {func(r *breaker.Rule) { r.ErrorRatio = 0.6 }, true},
		"another OpenFor":    {func(r *breaker.Rule) { r.OpenFor = time.Minute }, true},
		"another Source":     {func(r *breaker.Rule) { r.Source = "file" }, true},
		"another Probes":     {func(r *breaker.Rule) { r.Probes = 9 }, true},
		"a count":            {func(r *breaker.Rule) { r.ErrorCount = 5 }, true},
		"another Interval":   {func(r *breaker.Rule) { r.Interval = 10 * sec }, false},
		"other Buckets":      {func(r *breaker.Rule) { r.Buckets = 20 }, false},
		"slow calls":         {func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = 1, sec }, false},
		"another ID":         {func(r *breaker.Rule) { r.ID = "c" }, false},
		"another resource":   {func(r *breaker.Rule) { r.Resource, r.Match = "?", rule.Glob }, true},
		"a lower MinCalls":   {func(r *breaker.Rule) { r.MinCalls = 2 }, true},
		"to shadow":          {func(r *breaker.Rule) { r.Mode = rule.Shadow }, true},
		"forced closed":      {func(r *breaker.Rule) { r.Force = breaker.Closed }, true},
		"nothing":            {func(*breaker.Rule) {}, true},
		"a longer SlowAfter": {func(*breaker.Rule) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := usual()
			w := newWorld(t, r)
			w.calls(fails, fails, fails, fails)
			tt.change(&r)
			w.load(r)
			require.Equal(t, "closed", w.rule(r.ID).State)
			r.Force, r.Mode = breaker.None, rule.Enforce
			w.load(r)
			w.calls(fails)
			require.Equal(t, tt.keeps, w.rule(r.ID).State == "open")
		})
	}
}

// What began before another window did does not count in it.
// Between two bad results good ones are not judged, but for the first after a change of the rule.
func TestReload_OfTheRatioIsJudgedByTheNextGoodCall(t *testing.T) {
	t.Parallel()
	r := usual(func(r *breaker.Rule) { r.ErrorRatio, r.SlowRatio, r.SlowAfter = 0.9, 0.9, sec })
	w := newWorld(t, r)
	w.calls(fails, ok, ok, ok, ok, ok, ok)
	r.ErrorRatio = 0.1
	w.load(r)
	w.in("closed")
	w.calls(ok)
	w.in("open")
	require.Equal(t, "1 of 8 calls failed in 20s", w.why())
}

func TestReload_OfTheWindowWithCallsInFlight(t *testing.T) {
	t.Parallel()
	r := hangs()
	w := newWorld(t, r)
	old := w.beginMany(10)
	w.at(50 * ms)
	r.SlowAfter = 200 * ms
	w.load(r)
	w.at(60 * ms)
	held := w.beginMany(4)
	w.at(300 * ms)
	for _, f := range old {
		f.end(fails)
	}
	w.begin()
	w.in("closed")
	w.at(400 * ms)
	held[0].end(ok)
	w.in("closed") // 4 of 4
	w.at(519 * ms)
	w.begin()
	w.at(520 * ms)
	w.refused()
	require.Equal(t, "5 of 5 calls took longer than 200ms, 4 of them in flight", w.why())
}

func TestReload_OfProbesDecidesByTheNewNumbers(t *testing.T) {
	t.Parallel()
	r := usual(func(r *breaker.Rule) { r.Probes, r.ErrorRatio = 10, 1 })
	w := newWorld(t, r)
	w.opens()
	w.at(5 * sec)
	probes := w.beginMany(6)
	probes[0].end(fails)
	probes[1].end(fails)
	w.in("half-open")
	more := r
	more.Probes = 20
	w.load(more)
	require.Len(t, w.hold(100), 14)
	fewer := r
	fewer.Probes = 3
	w.load(fewer)
	w.in("half-open")
	w.refused()
	fewer.Probes = 2
	w.load(fewer)
	w.in("open")

	w = newWorld(t, r)
	w.opens()
	w.at(5 * sec)
	probes = w.beginMany(3)
	half := r
	half.ErrorRatio, half.Probes = 0.1, 10
	w.load(half)
	probes[0].end(ok)
	w.in("half-open")
	half.Probes = 1
	w.load(half)
	w.in("closed")
}

func TestReload_OfTheTimeOutOfProbes(t *testing.T) {
	t.Parallel()
	r := usual()
	w := newWorld(t, r)
	w.opens()
	w.at(5 * sec)
	w.begin()
	w.at(8 * sec)
	r.ProbeTimeout = sec
	w.load(r)
	w.refused()
	w.in("open")
}

func TestReload_RuleThatGoesAndComesAgainBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	w.opens()
	w.load()
	w.calls(ok, fails)
	w.load(usual())
	w.in("closed")
	w.calls(fails, fails, fails, fails)
	w.in("closed")
}

// Each resource that a pattern matches has a breaker of its own, which reloads keep.
func TestPattern_HasABreakerForEachResource(t *testing.T) {
	t.Parallel()
	r := usual(func(r *breaker.Rule) { r.Resource, r.Match = "", rule.Default })
	w := newWorld(t, r)
	w.gate.Resource("other one")
	w.opens()
	e, err := w.gate.Entry("other one")
	require.NoError(t, err)
	e.Exit()
	for range 3 {
		r.MinCalls++
		w.load(r)
		w.in("open")
		require.Equal(t, 5*sec, w.refused().RetryAfter)
	}
}

func TestEviction_IsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gate = leapgate.Must(leapgate.Config{Now: w.clock.Now, MaxResources: 1})
	w.load(usual(func(r *breaker.Rule) { r.Resource, r.Match, r.OpenFor = "", rule.Default, 10*time.Minute }))
	w.opens()
	w.at(5 * time.Minute)
	for _, name := range []string{"x", "y", "z"} {
		e, err := w.gate.Entry(name)
		require.NoError(t, err)
		e.Exit()
		w.clock.Advance(90 * sec)
	}
	require.Equal(t, 30*sec, w.refused().RetryAfter)
}

// Loads of the same and of other rules while calls come, fail and hang.
func TestReload_HammerBesideCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, usual())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3000 {
			r := usual(func(r *breaker.Rule) {
				r.OpenFor, r.Probes, r.MinCalls = ms, int64(1+i%3), 2
				switch i % 7 {
				case 1:
					r.Force = breaker.Open
				case 2:
					r.Force = breaker.Closed
				case 3:
					r.Behavior = breaker.Throttle
				case 4:
					r.Ramp = 5 * ms
				case 5:
					r.SlowRatio, r.SlowAfter, r.ProbeTimeout = 0.9, ms, ms
				}
			})
			_ = w.gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{r}})
		}
	}()
	for i := 0; ; i++ {
		select {
		case <-done:
			w.load(usual())
			for range 3 {
				w.clock.Advance(time.Hour)
				w.try(5)
			}
			w.in("closed")
			return
		default:
		}
		w.clock.Advance(100 * time.Microsecond)
		if e, err := w.gate.Entry("a"); err == nil {
			e.SetOutcome(leapgate.Outcome(i % 3))
			e.Exit()
		}
	}
}
