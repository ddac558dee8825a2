package resource_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/resource"
)

// scriptedTurn is a turn that comes when the test says so; until then, it is due as told.
type scriptedTurn struct {
	check *scriptedCheck
	due   time.Duration

	mu     sync.Mutex // guards what is below
	came   bool
	sooner func()
}

func (s *scriptedTurn) Due(_ int64, sooner func()) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sooner = sooner
	if s.came {
		return 0
	}
	return s.due
}

func (s *scriptedTurn) GiveBack(int64) { s.check.guard.note("-%s turn", s.check.id) }

// is says when the turn is due from now on, and tells those that wait.
func (s *scriptedTurn) is(due time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due, s.came = due, due == 0
	if s.sooner != nil {
		s.sooner()
	}
}

// A call waits as long as its turn says, again and again, and goes on at once when that comes.
func TestTurn_MovesUpWhileTheCallWaits(t *testing.T) {
	t.Parallel()
	for name, sleep := range map[string]func(context.Context, time.Duration) error{"timer": nil, "own sleep": gatetest.SleepOnTimer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				check := &scriptedCheck{id: "a", stage: resource.Waiting}
				turn := &scriptedTurn{due: time.Hour}
				check.reserve = func(int64, resource.Caller) resource.Verdict {
					return resource.Verdict{Delay: &resource.Delay{For: time.Hour, Turn: turn}}
				}
				g, guard := scriptedGate(t, leapgate.Config{Sleep: sleep}, check)
				start := time.Now()
				passed := make(chan time.Duration)
				go func() {
					e, err := g.Entry("orders")
					e.Exit()
					if err != nil {
						t.Error(err)
					}
					passed <- time.Since(start)
				}()
				for _, due := range []time.Duration{30 * time.Minute, 20 * time.Minute, time.Minute} {
					synctest.Wait()
					time.Sleep(time.Second)
					turn.is(due)
				}
				synctest.Wait()
				time.Sleep(time.Second)
				turn.is(0)
				require.Equal(t, 4*time.Second, <-passed)
				require.Equal(t, "+a0 =a", guard.noted())
			})
		})
	}
}

// Nobody knows when the turn comes.
func TestTurn_ThatNobodyCanForetell(t *testing.T) {
	t.Parallel()
	for name, sleep := range map[string]func(context.Context, time.Duration) error{"timer": nil, "own sleep": gatetest.SleepOnTimer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				check := &scriptedCheck{id: "a", stage: resource.Waiting}
				turn := &scriptedTurn{due: -1}
				check.reserve = func(int64, resource.Caller) resource.Verdict {
					return resource.Verdict{Delay: &resource.Delay{For: time.Minute, Turn: turn}}
				}
				g, guard := scriptedGate(t, leapgate.Config{Sleep: sleep}, check)
				start := time.Now()
				_, err := g.Entry("orders")
				require.ErrorIs(t, err, leapgate.ErrBlocked)
				require.Equal(t, time.Minute, time.Since(start))
				time.AfterFunc(time.Second, func() { turn.is(0) })
				e, err := g.Entry("orders")
				require.NoError(t, err)
				e.Exit()
				require.Equal(t, time.Minute+time.Second, time.Since(start))
				require.Equal(t, "+a0 -a turn +a0 =a", guard.noted())
			})
		})
	}
}

// On a given clock a call waits for a place as long as the clock says.
func TestTurn_ThatNobodyCanForetell_OnAGivenClock(t *testing.T) {
	t.Parallel()
	c := gatetest.NewClock()
	check := &scriptedCheck{id: "a", stage: resource.Waiting}
	check.reserve = func(int64, resource.Caller) resource.Verdict {
		return resource.Verdict{Delay: &resource.Delay{For: time.Minute, Turn: &scriptedTurn{due: -1}}}
	}
	g, _ := scriptedGate(t, leapgate.Config{Now: c.Now, Sleep: func(_ context.Context, d time.Duration) error {
		c.Advance(d)
		return nil
	}}, check)
	require.False(t, gates.Enter(t, g, "orders"))
	require.EqualValues(t, gatetest.Start+int64(time.Minute), c.Now())
}

// A check after the one whose turn came refuses: the turn is given back.
func TestTurn_IsGivenBackIfALaterCheckRefuses(t *testing.T) {
	t.Parallel()
	waits, last := &scriptedCheck{id: "a", stage: resource.Waiting}, &scriptedCheck{id: "z", stage: resource.Waiting}
	waits.reserve = func(int64, resource.Caller) resource.Verdict {
		turn := new(scriptedTurn)
		turn.is(0)
		return resource.Verdict{Delay: &resource.Delay{For: time.Minute, Turn: turn}}
	}
	last.reserve = func(int64, resource.Caller) resource.Verdict { return refusal(-1) }
	g, guard := scriptedGate(t, leapgate.Config{}, waits, last)
	require.False(t, gates.Enter(t, g, "orders"))
	require.Equal(t, "+a0 !z -a turn", guard.noted())
}

// panicky is a turn whose methods panic.
type panicky struct{}

func (panicky) Due(int64, func()) time.Duration { panic("due") }
func (panicky) GiveBack(int64)                  { panic("give back") }

// A turn that panics holds nobody up.
func TestTurn_Panics(t *testing.T) {
	t.Parallel()
	refuses := false
	waits, last := &scriptedCheck{id: "a", stage: resource.Waiting}, &scriptedCheck{id: "z", stage: resource.Waiting}
	waits.reserve = func(int64, resource.Caller) resource.Verdict {
		return resource.Verdict{Delay: &resource.Delay{For: time.Minute, Turn: panicky{}}}
	}
	last.reserve = func(int64, resource.Caller) resource.Verdict {
		if refuses {
			return refusal(-1)
		}
		return resource.Verdict{}
	}
	g, _ := scriptedGate(t, leapgate.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, waits, last)
	require.True(t, gates.Enter(t, g, "orders"))
	require.EqualValues(t, 1, g.GuardFaults())
	refuses = true
	require.False(t, gates.Enter(t, g, "orders"))
	require.EqualValues(t, 3, g.GuardFaults())
}

// panickyCounter is a counter of blocks that panics.
type panickyCounter struct{}

func (panickyCounter) Add(int64) { panic("add") }

func TestDelay_CounterOfBlocksThatPanics(t *testing.T) {
	t.Parallel()
	waits := &scriptedCheck{id: "a", stage: resource.Waiting, reserve: func(int64, resource.Caller) resource.Verdict {
		return resource.Verdict{Delay: &resource.Delay{For: time.Minute, Blocked: panickyCounter{}}}
	}}
	g, _ := scriptedGate(t, leapgate.Config{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Sleep:  func(context.Context, time.Duration) error { return context.Canceled },
	}, waits)
	require.False(t, gates.Enter(t, g, "orders"))
	require.EqualValues(t, 1, g.GuardFaults())
	require.EqualValues(t, 1, gates.Snapshot(t, g, "orders").Block)
}

// waiter is the context of a call that waits on a given clock: what happens meanwhile, the test says.
type waiter struct {
	context.Context //nolint:containedctx // it is one
	meanwhile       func(d time.Duration) error
	woken           int
}

func (w *waiter) Wait(d time.Duration) error { return w.meanwhile(d) }
func (w *waiter) Wake()                      { w.woken++ }

// A call with a time of its own waits on no timer: others know when its turn comes.
func TestTurn_OnATimeOfTheCallsOwn(t *testing.T) {
	t.Parallel()
	now := gatetest.NewClock()
	turn := &scriptedTurn{due: time.Hour}
	waits := &scriptedCheck{id: "a", stage: resource.Waiting, reserve: func(int64, resource.Caller) resource.Verdict {
		return resource.Verdict{Delay: &resource.Delay{For: time.Hour, Turn: turn}}
	}}
	g, guard := scriptedGate(t, leapgate.Config{Now: now.Now}, waits)
	var asked []time.Duration
	w := &waiter{Context: context.Background()}
	enter := func(then ...func() error) error {
		asked = nil
		w.meanwhile = func(d time.Duration) error {
			asked = append(asked, d)
			do := then[0]
			then = then[1:]
			return do()
		}
		e, err := g.EntryContext(w, "orders")
		e.Exit()
		return err
	}
	after := func(d, due time.Duration) func() error {
		return func() error {
			now.Advance(d)
			turn.is(due)
			return nil
		}
	}
	require.NoError(t, enter(after(time.Minute, 10*time.Minute), after(10*time.Minute, 0)))
	require.Equal(t, []time.Duration{time.Hour, 10 * time.Minute}, asked)
	require.Equal(t, 2, w.woken)
	require.Equal(t, 11*time.Minute, gates.Snapshot(t, g, "orders").WaitTime)

	// Nobody knows when.
	turn.is(-1)
	turn.came = false
	require.ErrorIs(t, enter(after(20*time.Minute, -1), after(40*time.Minute, -1)), leapgate.ErrBlocked)
	require.Equal(t, []time.Duration{time.Hour, 40 * time.Minute}, asked)

	stopped := errors.New("stopped")
	err := enter(func() error { return stopped })
	require.ErrorIs(t, err, stopped)
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	require.Equal(t, "+a0 =a +a0 -a turn +a0 -a turn", guard.noted())
}
