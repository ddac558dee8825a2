package system_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/load"
	"github.com/leapgate-go/leapgate/system"
)

// source is a Load of a program.
type source func() *load.Signals

func (s source) Signals() *load.Signals { return s() }

// The rule itself is asked for a call, is loaded, and its figures are read, while it asks for the signals.
func TestSignals_OfASourceThatCallsTheGate(t *testing.T) {
	t.Parallel()
	clock, asked := gatetest.NewClock(), 0
	rules := leapgate.Rules{System: []system.Rule{all(system.Rule{MaxCPU: 0.9, MaxInFlight: 1})}}
	var gate *leapgate.Gate
	gate = leapgate.Must(leapgate.Config{Now: clock.Now, Load: source(func() *load.Signals {
		if asked++; asked%3 == 1 {
			for range 3 { // the second and third are refused
				if e, err := gate.Entry("a"); err == nil {
					defer e.Exit()
				}
			}
			rules.System[0].CoolOff += time.Second
			require.NoError(t, gate.LoadRules(rules))
			gate.Snapshot()
		}
		return new(load.Signals)
	})})
	defer gate.Close()
	require.NoError(t, gate.LoadRules(rules))
	for range 10 {
		clock.Advance(100 * ms)
		if e, err := gate.Entry("a"); err == nil {
			e.Exit()
		}
	}
	require.Greater(t, asked, 10)
}

func TestSignals_OfASourceThatPanicsAreUnknown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	clock, given := gatetest.NewClock(), load.Known(1)
	fails := true
	gate := leapgate.Must(leapgate.Config{
		Now: clock.Now, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Load: source(func() *load.Signals {
			if fails {
				panic("no signal")
			}
			return &load.Signals{Seq: 1, CPU: given}
		}),
	})
	defer gate.Close()
	require.NoError(t, gate.LoadRules(leapgate.Rules{System: []system.Rule{all(system.Rule{MaxCPU: 0.9, Strategy: system.Refuse})}}))
	for range 5 {
		clock.Advance(100 * ms)
		e, err := gate.Entry("a")
		require.NoError(t, err)
		e.Exit()
	}
	require.Equal(t, load.Signals{}, *gate.Signals())
	require.EqualValues(t, 6, gate.GuardFaults())
	require.Equal(t, 1, strings.Count(log.String(), `panic="no signal"`), "each cause is logged once")
	fails = false
	clock.Advance(100 * ms)
	_, err := gate.Entry("a")
	require.ErrorIs(t, err, leapgate.ErrBlocked)
}

// Somebody looks, and is held up while the signals are read; others have looked since.
func TestSignals_ThatComeLateAreNotTakenForNewer(t *testing.T) {
	t.Parallel()
	clock, late := gatetest.NewClock(), make(chan *load.Signals)
	asking := make(chan bool, 1)
	hang := false
	gate := leapgate.Must(leapgate.Config{Now: clock.Now, Load: source(func() *load.Signals {
		if hang {
			hang = false
			asking <- true
			return <-late
		}
		return &load.Signals{Seq: 2, CPU: load.Known(0.5)}
	})})
	defer gate.Close()
	require.NoError(t, gate.LoadRules(leapgate.Rules{System: []system.Rule{all(system.Rule{MaxCPU: 0.9, Strategy: system.Refuse})}}))
	hang = true
	done := make(chan error)
	go func() {
		_, err := gate.Entry("a")
		done <- err
	}()
	<-asking
	_, err := gate.Entry("a")
	require.NoError(t, err, "nobody waits for it")
	clock.Advance(100 * ms)
	_, err = gate.Entry("a")
	require.NoError(t, err)
	late <- &load.Signals{Seq: 1, CPU: load.Known(1)}
	require.NoError(t, <-done)
	clock.Advance(99 * ms)
	_, err = gate.Entry("a")
	require.NoError(t, err)
}
