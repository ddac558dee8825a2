package param_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// world is a gate with a given clock and one resource, "r".
type world struct {
	testing.TB
	*leapgate.Gate
	clock *gatetest.Clock
}

func newWorld(t testing.TB, rules ...param.Rule) *world {
	t.Helper()
	w := &world{TB: t, clock: gatetest.NewClock()}
	w.Gate = leapgate.Must(leapgate.Config{Now: w.clock.Now})
	w.load(rules...)
	return w
}

func (w *world) load(rules ...param.Rule) {
	w.Helper()
	for i := range rules {
		rules[i].Resource = "r"
		if rules[i].Arg == "" {
			rules[i].Arg = "item"
		}
	}
	require.NoError(w, w.EditRules(func(all *leapgate.Rules) error {
		all.Param = rules
		return nil
	}))
}

func item(value string) leapgate.EntryOption { return leapgate.WithArg("item", value) }

// call makes a call and returns its entry, or nil if it was blocked.
func (w *world) call(opts ...leapgate.EntryOption) *resource.Entry {
	w.Helper()
	e, err := w.EntryContext(context.Background(), "r", opts...)
	if err != nil {
		require.ErrorIs(w, err, leapgate.ErrBlocked)
		return nil
	}
	return &e
}

// pass makes k calls that end at once, and returns how many passed.
func (w *world) pass(k int, opts ...leapgate.EntryOption) (passed int) {
	w.Helper()
	for range k {
		if e := w.call(opts...); e != nil {
			e.Exit()
			passed++
		}
	}
	return passed
}

func (w *world) snapshot() stat.RuleSnapshot {
	w.Helper()
	for _, s := range gates.Snapshot(w, w.Gate, "r").Rules {
		if s.Kind == "param" {
			return s
		}
	}
	w.Fatal("no param rule")
	return stat.RuleSnapshot{}
}

// passing makes 20 calls with the value a at each time in ms, and requires the number that passes.
func (w *world) passing(steps [][2]int) {
	w.Helper()
	for _, s := range steps {
		w.clock.Set(gatetest.Start + int64(s[0])*int64(time.Millisecond))
		require.Equal(w, s[1], w.pass(20, item("a")), "at %d ms", s[0])
	}
}

func TestReject_CountsEachValueInASlidingWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Threshold: 5})
	w.passing([][2]int{{0, 5}, {999, 0}, {1000, 0}, {1001, 0}, {1199, 0}, {1200, 1}, {1400, 1}, {2000, 3}, {2500, 1}, {4000, 5}})
	require.Equal(t, 5, w.pass(20, item("b")))
	require.Equal(t, 5, w.pass(20, item(""))) // nothing is a value too
}

func TestBucket_AdmitsItsBurstAndThenEvenly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Threshold: 5, Behavior: param.Bucket, Burst: 8})
	w.passing([][2]int{{0, 8}, {199, 0}, {200, 1}, {1000, 4}, {1001, 0}, {3000, 8}, {9000, 8}})
	w = newWorld(t, param.Rule{Threshold: 5, Behavior: param.Bucket})
	w.passing([][2]int{{0, 5}, {200, 1}, {5000, 5}})
}

func TestItems_HaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, behavior := range []param.Behavior{param.Reject, param.Bucket} {
		w := newWorld(t, param.Rule{Threshold: 5, Behavior: behavior, Items: "vip=10, ban=0, free=-1, 10.0.0.0/8=7, 10.1.0.0/16=2, bot-*=1, bot-good-*=3"})
		for value, want := range map[string]int{
			"any": 5, "vip": 10, "ban": 0, "free": 20, "10.2.3.4": 7, "10.1.3.4": 2, "::ffff:10.1.3.4": 2, "11.0.0.0": 5,
			"10.1.0.0/24": 2, "10.0.0.0/7": 5, "bot-a": 1, "bot-good-b": 3, "bot": 5, "10.1.2": 5, "fe80::1%eth0": 5,
		} {
			require.Equal(t, want, w.pass(20, item(value)), value)
		}
	}
}

func TestArg_OfSeveralIsNeverAmbiguous(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Arg: "tenant, item", Threshold: 1})
	long := fmt.Sprintf("%01024d", 0)
	both := func(tenant, value string) int { return w.pass(3, leapgate.WithArg("tenant", tenant), item(value)) }
	for _, values := range [][2]string{
		{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"a", "\x01bc"}, {"a,b", "c"}, {long, long}, {long, long[1:]}, {long[1:], long},
	} {
		require.Equal(t, 1, both(values[0], values[1]), values)
		require.Equal(t, 0, both(values[0], values[1]), values)
	}
	require.Equal(t, 3, w.pass(3, item("a")), "half of them is none")
	require.Equal(t, int64(3), w.snapshot().Missing)
	require.Equal(t, 9, w.snapshot().Values)
}

func TestMissing_PassesIsSharedOrBlocked(t *testing.T) {
	t.Parallel()
	for missing, want := range map[param.Missing]int{param.Skip: 20, param.Shared: 5, param.Block: 0} {
		for _, r := range []param.Rule{{Threshold: 5}, {Threshold: 5, Behavior: param.Bucket}, {MaxInFlight: 5}} {
			r.Missing = missing
			w := newWorld(t, r)
			require.Len(t, w.hold(20, item("")), 5)
			entries := w.hold(20)
			require.Len(t, entries, want)
			require.Equal(t, int64(20), w.snapshot().Missing)
			exit(entries)
		}
	}
	w := newWorld(t, param.Rule{ID: "x", Threshold: 5, Missing: param.Block})
	_, err := w.EntryContext(t.Context(), "r", leapgate.WithArg("other", "x"))
	require.EqualError(t, err, `param rule "x" on "r": 1 of 0 without "item"`)
}

// hold makes k calls, and returns the entries of those that passed.
func (w *world) hold(k int, opts ...leapgate.EntryOption) (entries []*resource.Entry) {
	w.Helper()
	for range k {
		if e := w.call(opts...); e != nil {
			entries = append(entries, e)
		}
	}
	return entries
}

func exit(entries []*resource.Entry) {
	for _, e := range entries {
		e.Exit()
	}
}

func TestInFlight_BoundsTheCallsOfEachValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{ID: "few", MaxInFlight: 2, Items: "vip=3, ban=0, free=-1"})
	a := w.hold(5, item("a"))
	require.Len(t, a, 2)
	require.Len(t, w.hold(5, item("b")), 2)
	require.Len(t, w.hold(5, item("vip")), 3)
	require.Empty(t, w.hold(5, item("ban")))
	require.Len(t, w.hold(5, item("free")), 5)
	_, err := w.EntryContext(t.Context(), "r", item("a"))
	require.EqualError(t, err, `param rule "few" on "r": 3 of 2 in flight`)
	var blocked *leapgate.BlockError
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, 503, blocked.Status)
	require.Nil(t, w.call(item("c"), leapgate.WithCount(3)))
	exit(a)
	exit(a)
	require.NotNil(t, w.call(item("a"), leapgate.WithCount(2)))
	require.Nil(t, w.call(item("a")))
}

func TestRefusal_ByALaterRuleGivesBack(t *testing.T) {
	t.Parallel()
	for _, r := range []param.Rule{
		{Threshold: 5},
		{Threshold: 5, Candidate: 5},
		{Threshold: 5, Behavior: param.Bucket, Burst: 5},
		{Threshold: 5, Behavior: param.Pace},
		{MaxInFlight: 5},
		{Arg: "item,item2", Threshold: 5},
		{Arg: "other", Threshold: 5, Missing: param.Shared},
		{Arg: "other", MaxInFlight: 5, Missing: param.Shared},
	} {
		w := newWorld(t, r)
		opts := []leapgate.EntryOption{item("a"), leapgate.WithArg("item2", "b")}
		block := func(on bool) {
			require.NoError(t, w.EditRules(func(all *leapgate.Rules) error {
				all.Isolation, all.Param = nil, append([]param.Rule(nil), all.Param...)
				if all.Flow = nil; on {
					all.Param = append(all.Param, param.Rule{ID: "z", Resource: "r", Arg: "item", Threshold: 0})
				} else {
					all.Param = all.Param[:1]
				}
				return nil
			}))
		}
		block(true)
		require.Zero(t, w.pass(20, opts...))
		require.Zero(t, w.snapshot().Admitted, r)
		block(false)
		want := 5
		if r.Behavior == param.Pace {
			want = 1
		}
		require.Len(t, w.hold(20, opts...), want, r)
		require.Equal(t, int64(want), w.snapshot().Admitted)
		if r.Candidate > 0 {
			require.Equal(t, int64(15), w.snapshot().CandidateWouldBlock)
		}
	}
}

func TestBatch_TakesAsManyAsItCounts(t *testing.T) {
	t.Parallel()
	for _, r := range []param.Rule{{Threshold: 5}, {Threshold: 5, Behavior: param.Bucket}, {MaxInFlight: 5}} {
		w := newWorld(t, r)
		three := leapgate.WithCount(3)
		require.NotNil(t, w.call(item("a"), three))
		require.Nil(t, w.call(item("a"), three))
		require.NotNil(t, w.call(item("a")))
		require.NotNil(t, w.call(item("a")))
		require.Nil(t, w.call(item("a")))
		require.Nil(t, w.call(item("b"), leapgate.WithCount(6)))
	}
}

func TestCandidate_DecidesForItselfAndBlocksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Threshold: 5, Candidate: 2, Items: "vip=7"})
	require.Equal(t, 5, w.pass(10, item("a")))
	require.Equal(t, 7, w.pass(10, item("vip")))
	s := w.snapshot()
	require.Equal(t, []int64{12, 8, 8}, []int64{s.Admitted, s.Blocked, s.CandidateWouldBlock})
}

func TestShadow_CountsAndBlocksNothing(t *testing.T) {
	t.Parallel()
	for _, r := range []param.Rule{{Threshold: 5}, {Threshold: 5, Behavior: param.Bucket}, {MaxInFlight: 5}} {
		r.Mode = rule.Shadow
		w := newWorld(t, r)
		entries := w.hold(20, item("a"))
		require.Len(t, entries, 20)
		s := w.snapshot()
		require.Equal(t, []int64{5, 0, 15}, []int64{s.Admitted, s.Blocked, s.WouldBlock})
		exit(entries)
		r.Mode = rule.Enforce
		w.load(r)
		want := 0
		if r.MaxInFlight > 0 {
			want = 5
		}
		require.Len(t, w.hold(20, item("a")), want, "what was counted stays")
	}
}

func TestReload_KeepsTheCountsByID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		before, after param.Rule
		more          int // that pass after five have
	}{
		{"the same", param.Rule{Threshold: 5}, param.Rule{Threshold: 5}, 0},
		{"a larger threshold", param.Rule{Threshold: 5}, param.Rule{Threshold: 7}, 2},
		{"a smaller threshold", param.Rule{Threshold: 5}, param.Rule{Threshold: 3}, 0},
		{"a candidate", param.Rule{Threshold: 5}, param.Rule{Threshold: 6, Candidate: 5}, 1},
		{"without its candidate", param.Rule{Threshold: 5, Candidate: 2}, param.Rule{Threshold: 6}, 1},
		{"the value has a limit now", param.Rule{Threshold: 5}, param.Rule{Threshold: 5, Items: "a=8"}, 3},
		{"the value had a limit", param.Rule{Threshold: 7, Items: "a=5"}, param.Rule{Threshold: 7}, 2},
		{"another argument", param.Rule{Threshold: 5}, param.Rule{Threshold: 5, Arg: "other"}, 5},
		{"another interval", param.Rule{Threshold: 5}, param.Rule{Threshold: 5, Interval: time.Minute}, 5},
		{"another ID", param.Rule{Threshold: 5}, param.Rule{ID: "new", Threshold: 5}, 5},
		{"more in flight", param.Rule{MaxInFlight: 5}, param.Rule{MaxInFlight: 6}, 1},
		{"a larger burst", param.Rule{Threshold: 5, Behavior: param.Bucket}, param.Rule{Threshold: 5, Behavior: param.Bucket, Burst: 9}, 4},
		{"in flight instead", param.Rule{Threshold: 5}, param.Rule{MaxInFlight: 3}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.before)
			opts := []leapgate.EntryOption{item("a"), leapgate.WithArg("other", "a")}
			before := w.hold(10, opts...)
			require.Len(t, before, 5)
			w.load(tt.after)
			after := w.hold(20, opts...)
			require.Len(t, after, tt.more)
			exit(before)
			exit(after)
			if tt.after.MaxInFlight > 0 {
				require.Len(t, w.hold(20, opts...), int(tt.after.MaxInFlight))
			}
		})
	}
}

func TestWhenFull_NamedValuesAreNeverEvictedAndAlwaysHaveRoom(t *testing.T) {
	t.Parallel()
	for _, whenFull := range []param.WhenFull{param.Evict, param.Deny, param.Share} {
		w := newWorld(t, param.Rule{Threshold: 2, MaxKeys: 3, WhenFull: whenFull, Items: "vip=1, late=1"})
		require.Equal(t, 1, w.pass(3, item("vip")))
		for i := range 100 {
			w.pass(2, item(fmt.Sprint(i)))
		}
		require.Zero(t, w.pass(3, item("vip")), whenFull)
		require.Equal(t, 1, w.pass(3, item("late")), whenFull)
		require.Zero(t, w.pass(3, item("late")), whenFull)
		require.LessOrEqual(t, w.snapshot().Values, 5)
	}
}

func TestWhenFull_ANewValueTakesThePlaceOfAnotherIsRefusedOrSharesWithOthers(t *testing.T) {
	t.Parallel()
	for _, behavior := range []param.Behavior{param.Reject, param.Bucket} {
		for whenFull, want := range map[param.WhenFull][]int{param.Evict: {2, 2, 2}, param.Deny: {0, 0, 0}, param.Share: {2, 0, 0}} {
			w := newWorld(t, param.Rule{ID: "few", Threshold: 2, MaxKeys: 3, WhenFull: whenFull, Behavior: behavior})
			for _, known := range []string{"a", "b", "c"} {
				require.Equal(t, 2, w.pass(3, item(known)))
			}
			for i, value := range []string{"x", "y", "z"} {
				require.Equal(t, want[i], w.pass(3, item(value)), "%v %v", whenFull, value)
			}
			if whenFull == param.Evict {
				require.Equal(t, 3, w.snapshot().Values)
				continue
			}
			require.Zero(t, w.pass(3, item("a")), "known values are not disturbed")
			_, err := w.EntryContext(t.Context(), "r", item("new"))
			if whenFull == param.Deny {
				require.ErrorContains(t, err, ", and no room for another value")
				var blocked *leapgate.BlockError
				require.ErrorAs(t, err, &blocked)
				require.Equal(t, 503, blocked.Status)
			}
			w.clock.Advance(time.Hour)
			require.Equal(t, 2, w.pass(3, item("new")), "those that hold nothing any more make room")
		}
	}
}

func TestWhenFull_ANewValueIsRefusedWhileAllHaveCallsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{ID: "few", MaxInFlight: 1, MaxKeys: 2})
	a, b := w.call(item("a")), w.call(item("b"))
	_, err := w.EntryContext(t.Context(), "r", item("c"))
	require.EqualError(t, err, `param rule "few" on "r": 1 of 1 in flight, and no room for another value`)
	require.Nil(t, w.call(item("a")))
	a.Exit()
	c := w.call(item("c"))
	require.NotNil(t, c)
	require.Nil(t, w.call(item("b")), "an evicted value takes no place with it")
	b.Exit()
	c.Exit()
}

func TestRefusal_SaysWhenTheValueWillPass(t *testing.T) {
	t.Parallel()
	for text, r := range map[string]param.Rule{
		`param rule "x" on "r": 6 of 5 in 1s; retry in 1.2s`:                      {Threshold: 5},
		`param rule "x" on "r": 9 of 5 in 1s, at most 8 at once; retry in 200ms`:  {Threshold: 5, Behavior: param.Bucket, Burst: 8},
		`param rule "x" on "r": 2 of 5 in 1s, with a queue of 0s; retry in 200ms`: {Threshold: 5, Behavior: param.Pace},
		`param rule "x" on "r": 4 of 3 in 1s; retry in 1.334s`:                    {Threshold: 5, Items: "a=3"},
	} {
		r.ID = "x"
		w := newWorld(t, r)
		w.pass(8, item("a"))
		_, err := w.EntryContext(t.Context(), "r", item("a"))
		require.EqualError(t, err, text)
		var blocked *leapgate.BlockError
		require.ErrorAs(t, err, &blocked)
		require.Equal(t, 429, blocked.Status)
		w.clock.Advance(blocked.RetryAfter - 1)
		require.Nil(t, w.call(item("a")))
		w.clock.Advance(1)
		require.NotNil(t, w.call(item("a")))
	}
}

func TestFlow_RuleBesideItSharesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Threshold: 2})
	require.NoError(t, w.EditRules(func(all *leapgate.Rules) error {
		all.Flow = []flow.Rule{{Resource: "r", Threshold: 3}}
		return nil
	}))
	require.Equal(t, 2, w.pass(5, item("a")))
	require.Equal(t, 1, w.pass(5, item("b")))
	require.Equal(t, int64(3), w.snapshot().Admitted)
}

func TestPass_AllocatesNothing(t *testing.T) {
	if gatetest.Race {
		t.Skip("pools forget at random then")
	}
	for name, r := range map[string]param.Rule{
		"reject":      {Threshold: 1e6},
		"bucket":      {Threshold: 1e6, Behavior: param.Bucket},
		"pace":        {Threshold: 1e6, Behavior: param.Pace},
		"in flight":   {MaxInFlight: 10},
		"candidate":   {Threshold: 1e6, Candidate: 1e6},
		"two":         {Arg: "tenant,item", Threshold: 1e6},
		"items":       {Threshold: 5, Items: "bot-*=1, 10.0.0.0/8=100, item*=1000000"},
		"an address":  {Arg: "ip", Threshold: 5, Items: "10.0.0.0/8=1000000"},
		"missing":     {Arg: "none", Threshold: 5},
		"shared":      {Arg: "none", Threshold: 1e6, Missing: param.Shared},
		"shared room": {Arg: "none", MaxInFlight: 5, Missing: param.Shared},
		"shadow":      {Threshold: 1, Mode: rule.Shadow},
		"probe":       {Top: 10},
		"top":         {Threshold: 1e6, Top: 10},
	} {
		w := newWorld(t, r)
		res, ctx := w.Resource("r"), context.Background()
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			w.clock.Advance(time.Millisecond)
			e, err := res.EntryContext(ctx, leapgate.WithArg("tenant", "t"), item("item 7"), leapgate.WithArg("ip", "10.1.2.3"))
			if err != nil {
				t.Error(name, err)
			}
			e.Exit()
		}), name)
	}
}
