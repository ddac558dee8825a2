package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/rule"
)

func TestRule_Defaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, breaker.Rule{Resource: "a", ErrorRatio: 0.5}, breaker.Rule{Resource: "a", Behavior: breaker.Throttle})
	plain := breaker.Rule{
		ID: "a/1", Resource: "a", Interval: 10 * sec, Buckets: 10, MinCalls: 10, ErrorRatio: 0.5, OpenFor: 5 * sec, Probes: 3,
	}
	throttle := plain
	throttle.ID, throttle.ErrorRatio, throttle.Behavior, throttle.K, throttle.MaxReject = "a/2", 0, breaker.Throttle, 2, 0.9
	require.Equal(t, []breaker.Rule{plain, throttle}, w.gate.Rules().Breaker)
}

// What is filled in does not get in the way of an edit of one field.
func TestRule_EditingOneFieldLeavesTheOthersGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, breaker.Rule{ID: "b", Resource: "a", ErrorRatio: 0.5})
	require.NoError(t, w.gate.EditRules(func(all *leapgate.Rules) error {
		all.Breaker[0].OpenFor = time.Minute
		return nil
	}))
	require.NoError(t, w.gate.EditRules(func(all *leapgate.Rules) error {
		all.Breaker[0].OpenFor = sec
		return nil
	}))
}

func TestRule_Faults(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, tt := range []struct {
		change func(*breaker.Rule)
		want   string
	}{
		{func(r *breaker.Rule) { r.ErrorRatio = 0 }, "ErrorRatio is 0; want more than 0 and at most 1, unless one of SlowRatio, ErrorCount and Consecutive is set, or Behavior Throttle"},
		{func(r *breaker.Rule) { r.ErrorRatio = 1.01 }, "ErrorRatio is 1.01; want more than 0 and at most 1, or 0 for none"},
		{func(r *breaker.Rule) { r.ErrorRatio = nan }, "ErrorRatio is NaN; want more than 0 and at most 1, or 0 for none"},
		{func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = -0.5, sec }, "SlowRatio is -0.5; want more than 0 and at most 1, or 0 for none"},
		{func(r *breaker.Rule) { r.SlowRatio = 0.5 }, "SlowAfter is 0s; want more than 0 and at most 24h0m0s with SlowRatio"},
		{func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = 0.5, -1 }, "SlowAfter is -1ns; want more than 0 and at most 24h0m0s with SlowRatio"},
		{func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = 0.5, 25*time.Hour }, "SlowAfter is 25h0m0s; want more than 0 and at most 24h0m0s with SlowRatio"},
		{func(r *breaker.Rule) { r.SlowAfter = sec }, "SlowAfter is 1s; want 0s, since it is for rules with SlowRatio"},
		{func(r *breaker.Rule) { r.ErrorCount = -1 }, "ErrorCount is -1; want 0 to 1000000000"},
		{func(r *breaker.Rule) { r.Consecutive = math.MaxInt64 }, "Consecutive is 9223372036854775807; want 0 to 1000000000"},
		{func(r *breaker.Rule) { r.MinCalls = -1 }, "MinCalls is -1; want 1 to 1000000000"},
		{func(r *breaker.Rule) { r.Interval = ms - 1 }, "Interval is 999.999µs; want 1ms to 24h0m0s"},
		{func(r *breaker.Rule) { r.Interval = 24*time.Hour + 1 }, "Interval is 24h0m0.000000001s; want 1ms to 24h0m0s"},
		{func(r *breaker.Rule) { r.Buckets = 1001 }, "Buckets is 1001; want 1 to 1000"},
		{func(r *breaker.Rule) { r.Buckets = -1 }, "Buckets is -1; want 1 to 1000"},
		{func(r *breaker.Rule) { r.Buckets = 7 }, "Buckets is 7; want a number that divides 20s into buckets of at least 1ms, such as 5"},
		{func(r *breaker.Rule) { r.OpenFor = -sec }, "OpenFor is -1s; want 1ms to 24h0m0s"},
		{func(r *breaker.Rule) { r.OpenFor = 48 * time.Hour }, "OpenFor is 48h0m0s; want 1ms to 24h0m0s"},
		{func(r *breaker.Rule) { r.MaxOpenFor = 4 * sec }, "MaxOpenFor is 4s; want OpenFor, which is 5s, to 24h0m0s, or 0 for OpenFor"},
		{func(r *breaker.Rule) { r.Probes = 1001 }, "Probes is 1001; want 1 to 1000"},
		{func(r *breaker.Rule) { r.Probes = -1 }, "Probes is -1; want 1 to 1000"},
		{func(r *breaker.Rule) { r.ProbeTimeout = 1 }, "ProbeTimeout is 1ns; want 1ms to 24h0m0s"},
		{func(r *breaker.Rule) { r.Ramp = -1 }, "Ramp is -1ns; want 1ms to 24h0m0s"},
		{func(r *breaker.Rule) { r.Behavior = 2 }, "Behavior is 2; want Break (0) or Throttle (1)"},
		{func(r *breaker.Rule) { r.K = 0.9 }, "K is 0.9; want 1 to 1000, or 0 for 2"},
		{func(r *breaker.Rule) { r.K = nan }, "K is NaN; want 1 to 1000, or 0 for 2"},
		{func(r *breaker.Rule) { r.MaxReject = 1.5 }, "MaxReject is 1.5; want more than 0 and at most 1, or 0 for 0.9"},
		{func(r *breaker.Rule) { r.Force = 3 }, "Force is 3; want None (0), Open (1) or Closed (2)"},
	} {
		err := leapgate.Rules{Breaker: []breaker.Rule{usual(tt.change)}}.Validate()
		require.EqualError(t, err, `breaker rule 0 ("b" on "a"): `+tt.want)
		require.ErrorIs(t, err, rule.ErrFault)
	}
}

func TestRule_AllFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	err := leapgate.Rules{Breaker: []breaker.Rule{
		{Interval: -1, Buckets: -1, MinCalls: -1, ErrorRatio: 2, SlowRatio: 2, ErrorCount: -1, Consecutive: -1, OpenFor: -1, Probes: -1, ProbeTimeout: -1, Ramp: -1, Behavior: 9, K: -1, MaxReject: -1, Force: 9, Mode: 9},
	}}.Validate()
	var faults rule.Faults
	require.ErrorAs(t, err, &faults)
	var fields []string
	for _, f := range faults {
		fields = append(fields, f.Field)
	}
	require.ElementsMatch(t, []string{
		"Resource", "Interval", "Buckets", "MinCalls", "ErrorRatio", "SlowRatio", "SlowAfter", "ErrorCount", "Consecutive",
		"OpenFor", "Probes", "ProbeTimeout", "Ramp", "Behavior", "K", "MaxReject", "Force", "Mode",
	}, fields)
}

// A rule that goes from one behavior to the other need not be cleared of what that leaves unused.
func TestRule_FieldsOfTheOtherBehaviorAreAllowed(t *testing.T) {
	t.Parallel()
	full := usual(func(r *breaker.Rule) {
		r.K, r.MaxReject, r.MaxOpenFor, r.Ramp, r.ErrorCount, r.Consecutive = 3, 0.5, time.Minute, sec, 5, 5
	})
	for _, b := range []breaker.Behavior{breaker.Break, breaker.Throttle} {
		full.Behavior = b
		require.NoError(t, leapgate.Rules{Breaker: []breaker.Rule{full}}.Validate())
	}
}

func TestRule_SaysWhatItDoes(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*breaker.Rule){
		"opens at 50 % failures of at least 5 calls in 20s; blocks for 5s, then 1 probe": func(*breaker.Rule) {},
		"opens at 12.5 % failures or 80 % slower than 250ms or 1 failure or 3 failures in a row of at least 10 calls in 10s; blocks for 1s to 1m, then 3 probes, ramps up in 30s": func(r *breaker.Rule) {
			*r = breaker.Rule{
				ErrorRatio: 0.125, SlowRatio: 0.8, SlowAfter: 250 * ms, ErrorCount: 1, Consecutive: 3,
				OpenFor: sec, MaxOpenFor: time.Minute, Ramp: 30 * sec,
			}
		},
		"blocks a share, up to 90 %, beyond 2 calls for each that succeeds in 20s, from 5 calls on": func(r *breaker.Rule) { r.Behavior = breaker.Throttle },
		"forced open: blocks all":    func(r *breaker.Rule) { r.Force = breaker.Open },
		"forced closed: blocks none": func(r *breaker.Rule) { r.Force = breaker.Closed },
	} {
		w := newWorld(t, usual(change, func(r *breaker.Rule) { r.Resource = "a" }))
		complete := w.gate.Rules().Breaker[0]
		require.Equal(t, want, breaker.Kind.Describe(&complete))
	}
}

func TestRule_WarnsOfWhatIsProbablyNotMeant(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change func(*breaker.Rule)
		want   []string
	}{
		{func(*breaker.Rule) {}, nil},
		{func(r *breaker.Rule) { r.MinCalls, r.Interval = 1_000_000, sec }, nil},
		{func(r *breaker.Rule) { r.MinCalls, r.Interval = 1_000_000, 10*ms }, []string{"minCalls is 1000000, and there are never so many calls in 10ms"}},
		{func(r *breaker.Rule) { r.Consecutive = 3 }, []string{"consecutive is 3, and nothing opens before 5 calls have ended in 20s; is minCalls: 3 meant?"}},
		{func(r *breaker.Rule) { r.Consecutive = 5 }, nil},
		{func(r *breaker.Rule) { r.K = 2 }, []string{"k and maxReject mean nothing with behavior: break; is behavior: throttle meant?"}},
		{func(r *breaker.Rule) { r.SlowRatio, r.SlowAfter = 0.5, 6*sec }, []string{"probeTimeout is 5s, so a probe counts as bad before it is slow, after 6s"}},
		{func(r *breaker.Rule) { r.Behavior, r.ErrorRatio, r.Probes = breaker.Throttle, 0, 0 }, nil},
		{func(r *breaker.Rule) { r.Behavior, r.Ramp = breaker.Throttle, sec }, []string{
			"errorRatio means nothing with behavior: throttle; is behavior: break meant?",
			"probes means nothing with behavior: throttle; is behavior: break meant?",
			"ramp means nothing with behavior: throttle; is behavior: break meant?",
		}},
	} {
		r := usual(tt.change)
		require.Equal(t, tt.want, breaker.Kind.Warnings(&r))
	}
}
