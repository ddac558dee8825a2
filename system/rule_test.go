package system_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/system"
)

func TestRule_Faults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule system.Rule
		want string
	}{
		{system.Rule{}, "MaxCPU is 0; want more than 0 and at most 1, unless one of MaxThrottled, MaxPressure, MaxSchedLatency, MaxRT, MaxQPS and MaxInFlight is set"},
		{system.Rule{MaxCPU: 90}, "MaxCPU is 90; want more than 0 and at most 1, or 0 for none"},
		{system.Rule{MaxCPU: math.NaN()}, "MaxCPU is NaN; want more than 0 and at most 1, or 0 for none"},
		{system.Rule{MaxThrottled: -1}, "MaxThrottled is -1; want more than 0 and at most 1, or 0 for none"},
		{system.Rule{MaxPressure: 1.5}, "MaxPressure is 1.5; want more than 0 and at most 1, or 0 for none"},
		{system.Rule{MaxSchedLatency: 1}, "MaxSchedLatency is 1ns; want 1µs to 1m0s, or 0 for none"},
		{system.Rule{MaxRT: -1}, "MaxRT is -1ns; want 1ms to 24h0m0s, or 0 for none"},
		{system.Rule{MaxQPS: -1}, "MaxQPS is -1; want 1 to 1000000000, or 0 for none"},
		{system.Rule{MaxInFlight: 1_000_000_001}, "MaxInFlight is 1000000001; want 1 to 1000000000, or 0 for none"},
		{system.Rule{MaxCPU: 0.9, Strategy: 2}, "Strategy is 2; want Limit (0) or Refuse (1)"},
		{system.Rule{MaxQPS: 1, Strategy: system.Refuse}, "Strategy is refuse; want limit, since it is for rules with MaxCPU, MaxThrottled, MaxPressure, MaxSchedLatency or MaxRT"},
		{system.Rule{MaxQPS: 1, CoolOff: 2 * time.Hour}, "CoolOff is 2h0m0s; want 1ms to 1h0m0s, or 0 for 10s with Strategy Limit, 1s with Strategy Refuse"},
	} {
		c.rule.Resource = "a"
		require.EqualError(t, leapgate.Rules{System: []system.Rule{c.rule}}.Validate(), `system rule 0 (on "a"): `+c.want)
	}
}

// A rule is told with the bounds that it has, whatever their decimals, and warned of what may happen to it.
func TestRule_IsToldWithItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule     system.Rule
		want     string
		warnings int
	}{
		{system.Rule{MaxCPU: 0.9, MaxPressure: 1, MaxInFlight: 3}, "at most 3 in flight together; limits calls in flight above cpu 0.90 or pressure 1.00", 0},
		{system.Rule{MaxCPU: 0.004, MaxThrottled: 0.995, MaxInFlight: 3}, "at most 3 in flight together; limits calls in flight above cpu 0.004 or throttled 0.995", 0},
		{system.Rule{MaxRT: 1234567 * time.Microsecond, Strategy: system.Refuse}, "blocks all above response time 1.234567s", 0},
		{system.Rule{MaxCPU: 0.99, MaxInFlight: 3}, "at most 3 in flight together; limits calls in flight above cpu 0.99", 1},
		{system.Rule{MaxCPU: 0.99, Strategy: system.Refuse}, "blocks all above cpu 0.99", 0},
	} {
		require.Equal(t, c.want, system.Kind.Describe(&c.rule))
		require.Len(t, system.Kind.Warnings(&c.rule), c.warnings, c.want)
	}
}

func TestStrategy_Text(t *testing.T) {
	t.Parallel()
	for _, s := range []system.Strategy{system.Limit, system.Refuse} {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var back system.Strategy
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, s, back)
	}
}

func TestPlain_AllocatesNothing(t *testing.T) {
	for name, r := range map[string]system.Rule{
		"in flight": {MaxInFlight: 10}, "cpu": {MaxCPU: 0.9}, "all": {MaxCPU: 0.9, MaxQPS: 1_000_000_000, MaxInFlight: 10, MaxRT: time.Second},
	} {
		w := newWorld(t, all(r))
		w.cpu(0.5)
		handle := w.gate.Resource("a")
		e, err := handle.Entry()
		require.NoError(t, err)
		e.Exit()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			e, err := handle.Entry()
			if err != nil {
				t.Error(err)
			}
			e.Exit()
		}), name)
	}
}
