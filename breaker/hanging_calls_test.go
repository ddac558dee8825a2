package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
)

// hangs is a rule by which half of five calls over 100 ms open the breaker.
func hangs(change ...func(*breaker.Rule)) breaker.Rule {
	r := usual(func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter, r.Interval, r.ErrorRatio = 0.5, 100*ms, sec, 0 })
	for _, c := range change {
		c(&r)
	}
	return r
}

func TestHanging_CallsInFlightCountWhenTheyAreOverdue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hangs())
	w.beginMany(10)
	w.at(100 * ms)
	w.begin()
	w.at(120 * ms)
	w.refused()
	require.Equal(t, "10 of 10 calls took longer than 100ms, 10 of them in flight", w.why())
	require.Equal(t, []string{"open@120ms"}, w.trace())
}

// A backend that hangs is cut off after 1.1 × SlowAfter, without one result, whatever the time
// of the first call.
func TestHanging_IsCutOffInTime(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{1, 3, 7, 99, time.Microsecond, 997 * time.Microsecond, 100 * ms, sec, 24 * time.Hour} {
		for _, begin := range []time.Duration{0, 1, after / 20, after/10 - 1, after - 1, 3 * after / 7} {
			w := newWorld(t, hangs(func(r *breaker.Rule) { r.SlowAfter = after }))
			w.at(begin)
			w.beginMany(5)
			w.at(begin + after)
			w.begin() // none is overdue yet
			w.at(begin + after + (after+9)/10 + 1)
			w.refused()
		}
	}
}

func TestHanging_EqualIsNotOverdue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hangs(func(r *breaker.Rule) { r.SlowAfter = 10 })) // buckets of 1 ns
	w.beginMany(5)
	w.at(10)
	w.begin()
	w.at(11)
	w.refused()
}

func TestHanging_IsLookedAtOncePerBucket(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hangs())
	held := w.beginMany(4)
	w.at(110 * ms)
	w.begin()
	w.in("closed") // four of four are overdue, and five are needed
	w.at(115 * ms)
	held[0].end(ok) // counted once, by its end
	w.in("closed")
	w.at(119 * ms)
	w.begin()
	w.in("closed")
	for _, f := range held[1:] {
		f.end(ok)
	}
	w.in("closed")
	w.begin().end(ok)
	w.in("open")
	require.Equal(t, "4 of 5 calls took longer than 100ms", w.why())
}

func TestHanging_ResultsDiluteThoseThatHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hangs())
	w.beginMany(5)
	w.at(105 * ms)
	w.calls(ok, ok, ok, ok, ok, ok)
	w.at(111 * ms)
	w.begin() // 5 of 11
	w.at(120 * ms)
	w.calls(ok)
	w.in("closed")
	w.at(1100 * ms)
	w.refused() // the results have left the window
	require.Equal(t, "6 of 6 calls took longer than 100ms, 6 of them in flight", w.why())
}

func TestHanging_EndsTakeOffWhatBeginsAdded(t *testing.T) {
	t.Parallel()
	for _, o := range []leapgate.Outcome{ok, fails, ignored} {
		w := newWorld(t, hangs(func(r *breaker.Rule) { r.MinCalls = 1 }))
		for i := range 500 {
			w.at(time.Duration(i) * 7 * ms)
			f := w.begin()
			w.clock.Advance(time.Duration(i) * 100 * ms / 500)
			f.end(o)
		}
		w.in("closed")
		w.at(time.Hour)
		w.calls(o)
		w.in("closed")
	}
}

func TestHanging_RefundedCallsAreNotInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hangs(), usual(func(r *breaker.Rule) { r.ID, r.Force = "c", breaker.Open }))
	for range 20 {
		require.Equal(t, "c", w.refused().RuleID)
	}
	w.at(500 * ms)
	require.Equal(t, "c", w.refused().RuleID)
	w.in("closed")
}

// The calls that are in flight when a breaker closes do not count, except those that began with
// it.
func TestHanging_StartsAnewWhenTheBreakerCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hangs(func(r *breaker.Rule) { r.Probes, r.SlowRatio, r.ProbeTimeout = 3, 1, time.Minute }))
	old := w.beginMany(10)
	w.at(110 * ms)
	w.refused()
	w.at(5110 * ms)
	probes := w.beginMany(3)
	probes[0].end(ok)
	w.in("closed")
	w.beginMany(3)
	for _, f := range old {
		f.end(ok)
	}
	w.in("closed")
	w.at(5230 * ms)
	w.refused()
	require.Equal(t, "5 of 5 calls took longer than 100ms, 5 of them in flight", w.why())
}

// Many calls that hang, in real time of a bubble: the breaker opens without one result.
func TestHanging_BackendThatAnswersNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{{
			Resource: "a", SlowRatio: 0.5, SlowAfter: sec,
		}}}))
		begin := time.Now()
		var opened time.Duration
		for opened == 0 {
			require.Less(t, time.Since(begin), time.Minute)
			e, err := gate.Entry("a")
			if err != nil {
				opened = time.Since(begin)
				break
			}
			go func() {
				time.Sleep(30 * sec)
				e.SetError(errBackend)
				e.Exit()
			}()
			time.Sleep(5 * ms)
		}
		require.LessOrEqual(t, opened, 1100*ms+50*ms, "ten calls have to be overdue, which came in 50 ms")
		require.Zero(t, gate.Resource("a").Snapshot().Success)
		time.Sleep(time.Minute)
	})
}
