package isolation

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// call is one that waits for places in a goroutine of its own. What it gave may be read
// when it has ended.
type call struct {
	e     resource.Entry
	err   error
	at    time.Duration // after start
	ended atomic.Bool
	give  context.CancelFunc
}

// queue begins a call that takes n places, and returns when it waits, or has them.
func (g *gate) queue(t testing.TB, start time.Time, n int64) *call {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &call{give: cancel}
	go func() {
		c.e, c.err = g.Resource("a").EntryContext(ctx, resource.WithCount(n))
		c.at = time.Since(start)
		c.ended.Store(true)
	}()
	synctest.Wait()
	return c
}

// ended tells which of the calls have come to an end, and how.
func ended(calls []*call) string {
	synctest.Wait()
	var is []byte
	for _, c := range calls {
		switch {
		case !c.ended.Load():
			is = append(is, '-')
		case c.err == nil:
			is = append(is, 'P')
		default:
			is = append(is, 'b')
		}
	}
	return string(is)
}

func waiting(wait time.Duration) Rule {
	return Rule{ID: "few", Resource: "a", MaxInFlight: 3, MaxWait: wait}
}

func TestWait_WhoCameFirstIsServedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(time.Minute)), time.Now()
		held := g.hold(t, "a", 3)
		var calls []*call
		for range 5 {
			calls = append(calls, g.queue(t, start, 1))
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, "-----", ended(calls))
		require.Equal(t, []int64{3, 0, 0, 0, 3}, g.totals("a")) // a call that waits is not in flight
		for i, want := range []string{"P----", "PP---", "PPP--"} {
			time.Sleep(10 * time.Millisecond)
			held[i].Exit()
			require.Equal(t, want, ended(calls))
		}
		calls[1].e.Exit()
		calls[0].e.Exit()
		require.Equal(t, "PPPPP", ended(calls))
		require.Equal(t, 15*time.Millisecond, calls[0].at)
		time.Sleep(20 * time.Millisecond)
		for _, c := range calls[2:] {
			c.e.Exit()
		}
		require.Equal(t, []int64{8, 8, 0, 0, 0}, g.totals("a"))
		require.Zero(t, g.taken(t, "a", "few"))
		s := g.Resource("a").Snapshot()
		require.Equal(t, (15+25+35+20+10+20+20+20)*time.Millisecond/8, s.AvgRT) // without the waits
	})
}

func TestWait_TooLongIsARefusalAfterExactlyMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(50*time.Millisecond)), time.Now()
		held := g.hold(t, "a", 3)
		_, err := g.Resource("a").Entry() // without a context it waits as well
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		require.EqualError(t, err, `isolation rule "few" on "a": 4 of 3 in flight`)
		blocked, ok := err.(*resource.BlockError) //nolint:errorlint // it is just that
		require.True(t, ok)
		require.Zero(t, blocked.RetryAfter)
		require.Equal(t, []int64{3, 0, 1, 0, 3}, g.totals("a"))
		s := g.rule(t, "a", "few")
		require.Equal(t, []int64{3, 1}, []int64{s.Admitted, s.Blocked})
		require.Equal(t, time.Now(), s.LastRefusal.At.Local())
		require.Equal(t, 4.0, s.LastRefusal.Observed)

		_, err = g.Resource("a").EntryContext(nil, resource.WithCount(2)) //nolint:staticcheck // nil is what is tested
		require.ErrorIs(t, err, callerror.ErrBlocked)
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		exit(held...)
		require.Zero(t, g.taken(t, "a", "few"))
	})
}

func TestWait_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(time.Minute)), time.Now()
		held := g.hold(t, "a", 3)
		c := g.queue(t, start, 2)
		time.Sleep(time.Second)
		c.give()
		require.Equal(t, "b", ended([]*call{c}))
		require.Equal(t, time.Second, c.at)
		deadline, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		_, err := g.Resource("a").EntryContext(deadline)
		require.Equal(t, 8*time.Second, time.Since(start))
		for err, cause := range map[error]error{c.err: context.Canceled, err: context.DeadlineExceeded} {
			require.ErrorIs(t, err, callerror.ErrBlocked)
			require.ErrorIs(t, err, cause)
			var blocked *resource.BlockError
			require.ErrorAs(t, err, &blocked)
			require.Equal(t, "few", blocked.RuleID)
			require.Equal(t, blocked.Error()+": "+cause.Error(), err.Error())
		}
		require.Equal(t, []int64{3, 0, 3, 0, 3}, g.totals("a"))
		s := g.rule(t, "a", "few")
		require.Equal(t, []int64{3, 3}, []int64{s.Admitted, s.Blocked})

		_, err = g.Resource("a").EntryContext(deadline) // it has ended by now
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, []int64{3, 0, 3, 0, 3}, g.totals("a"))
		exit(held...)
		require.Zero(t, g.taken(t, "a", "few"))
	})
}

func TestWait_WhoGivesUpStrandsNobodyAndKeepsNoPlace(t *testing.T) {
	t.Parallel()
	// Of three that want 2, 1 and 1 places, while one is free.
	for i, want := range [][2]string{{"bP-", "bPP"}, {"-b-", "PbP"}, {"--b", "PPb"}} {
		t.Run([]string{"head", "middle", "tail"}[i], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, start := newGate(t, false, waiting(time.Minute)), time.Now()
				held := g.hold(t, "a", 2)
				calls := []*call{g.queue(t, start, 2), g.queue(t, start, 1), g.queue(t, start, 1)}
				require.Equal(t, "---", ended(calls))
				calls[i].give()
				require.Equal(t, want[0], ended(calls))
				exit(held...)
				require.Equal(t, want[1], ended(calls))
				for _, c := range calls {
					c.e.Exit()
				}
				require.Zero(t, g.taken(t, "a", "few"))
				require.Len(t, g.hold(t, "a", 3), 3)
			})
		})
	}
}

func TestWait_BatchAtTheHeadIsNotOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(time.Minute)), time.Now()
		held := g.hold(t, "a", 3)
		calls := []*call{g.queue(t, start, 3), g.queue(t, start, 1)}
		held[0].Exit()
		calls = append(calls, g.queue(t, start, 1)) // comes while a place is free
		held[1].Exit()
		require.Equal(t, "---", ended(calls))
		held[2].Exit()
		require.Equal(t, "P--", ended(calls))
		calls[0].e.Exit()
		require.Equal(t, "PPP", ended(calls))
		exit(&calls[1].e, &calls[2].e)
		require.Zero(t, g.taken(t, "a", "few"))
	})
}

func TestWait_MoreThanThereArePlacesFailsAtOnce(t *testing.T) { // pitfall 18
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(time.Minute)), time.Now()
		require.Nil(t, g.try(t, "a", 4))
		held := g.hold(t, "a", 3)
		require.Nil(t, g.try(t, "a", 4))
		require.Zero(t, time.Since(start))
		exit(held...)
		require.Equal(t, []int64{3, 3, 8, 0, 0}, g.totals("a"))
		require.Equal(t, int64(8), g.rule(t, "a", "few").Blocked)
	})
}

// The wait ends in both ways at once: by the timer, or by the context, and by the turn.
func TestWait_TurnComesAtTheVeryMomentOfGivingUp(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for round := range 200 {
		synctest.Test(t, func(t *testing.T) {
			g, start := newGate(t, false, waiting(time.Second)), time.Now()
			held := g.hold(t, "a", 3)
			calls := []*call{g.queue(t, start, 2), g.queue(t, start, 1)}
			if round%2 == 0 {
				time.Sleep(time.Second) // the timers of both are due
			} else {
				calls[0].give()
			}
			exit(held...)
			outcomes[ended(calls)]++
			for _, c := range calls {
				if c.err != nil {
					require.ErrorIs(t, c.err, callerror.ErrBlocked)
					require.Equal(t, round%2 == 1, errors.Is(c.err, context.Canceled))
				}
				c.e.Exit()
			}
			s, totals := g.rule(t, "a", "few"), g.totals("a")
			require.Equal(t, int64(6), totals[0]+totals[2])
			g.rest(t, s.Admitted, s.Blocked)
			require.Len(t, g.hold(t, "a", 3), 3)
		})
	}
	require.Positive(t, outcomes["bP"]) // at least by the context
}

func TestWait_RaisedLimitLetsInWhoQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(time.Minute)), time.Now()
		held := g.hold(t, "a", 3)
		calls := []*call{g.queue(t, start, 2), g.queue(t, start, 1), g.queue(t, start, 1)}
		more := waiting(time.Minute)
		more.MaxInFlight = 6
		g.load(t, more)
		require.Equal(t, "PP-", ended(calls))
		held[0].Exit()
		require.Equal(t, "PPP", ended(calls))
		exit(held...)
		for _, c := range calls {
			c.e.Exit()
		}
		require.Zero(t, g.taken(t, "a", "few"))
	})
}

func TestWait_RaisedLimitOfAPatternLetsInWhoQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := Rule{ID: "few", Match: rule.Default, MaxInFlight: 1, MaxWait: time.Minute}
		g, start := newGate(t, false, rule), time.Now()
		held := g.hold(t, "a", 1)
		calls := []*call{g.queue(t, start, 1), g.queue(t, start, 1)}
		rule.MaxInFlight = 2
		g.load(t, rule)
		require.Equal(t, "P-", ended(calls))
		exit(held...)
		require.Equal(t, "PP", ended(calls))
	})
}

func TestWait_LimitIsLoweredBelowABatchThatQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(time.Minute)), time.Now()
		held := g.hold(t, "a", 3)
		calls := []*call{g.queue(t, start, 3), g.queue(t, start, 1), g.queue(t, start, 1)}
		less := waiting(time.Minute)
		less.MaxInFlight = 2
		g.load(t, less)
		exit(held...)
		require.Equal(t, "-PP", ended(calls)) // the batch can never come, and holds nobody back
		calls[1].e.Exit()
		require.Len(t, g.hold(t, "a", 1), 1)
		time.Sleep(time.Minute)
		require.Equal(t, "bPP", ended(calls))
		require.Equal(t, time.Minute, calls[0].at)
		require.Equal(t, int64(2), g.taken(t, "a", "few"))
	})
}

// The call goes on under the rules that it came under.
func TestWait_RuleIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	off, shadow, noWait := waiting(time.Minute), waiting(time.Minute), waiting(0)
	off.Mode, shadow.Mode = rule.Off, rule.Shadow
	for name, rules := range map[string][]Rule{"removed": nil, "off": {off}, "shadow": {shadow}, "does not wait": {noWait}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, start := newGate(t, false, waiting(time.Minute)), time.Now()
				was := controllersOf(g.guard, "a")
				held := g.hold(t, "a", 3)
				calls := []*call{g.queue(t, start, 1), g.queue(t, start, 1)}
				g.load(t, rules...)
				require.Equal(t, "--", ended(calls))
				e := g.try(t, "a", 1) // never waits
				require.Equal(t, name == "does not wait", e == nil)
				exit(held[0])
				require.Equal(t, "P-", ended(calls))
				time.Sleep(time.Minute)
				require.Equal(t, "Pb", ended(calls))
				exit(held...)
				calls[0].e.Exit()
				require.Zero(t, was[0].state.places.Taken())
			})
		})
	}
}

func TestWait_GateIsClosedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, waiting(time.Minute)), time.Now()
		held := g.hold(t, "a", 3)
		calls := []*call{g.queue(t, start, 1), g.queue(t, start, 1)}
		g.Close()
		require.Len(t, g.hold(t, "a", 5), 5) // unguarded
		exit(held[0])
		require.Equal(t, "P-", ended(calls))
		time.Sleep(time.Minute)
		require.Equal(t, "Pb", ended(calls))
		exit(held...)
		calls[0].e.Exit()
		require.Zero(t, g.taken(t, "a", "few"))
		require.Equal(t, []int64{4, 4, 1, 0, 0}, g.totals("a"))
	})
}

// held is a guard without checks that is held up when it is asked for them once more.
type held struct{ until chan struct{} }

func (h *held) Kind() string { return "held" }

func (h *held) Bind(string, []resource.Check) ([]resource.Check, bool) {
	if until := h.until; until != nil {
		h.until = nil
		<-until
	}
	return nil, false
}

// Rules that were never carried out, because others came before they could be, leave
// nothing behind with those that queue.
func TestWait_RulesAreChangedAndChangedBackMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rule := Rule{ID: "few", Match: rule.Default, MaxInFlight: 3, MaxWait: time.Minute}
		g, start, h := &gate{guard: ruleset.New(&Kind, ruleset.Env{})}, time.Now(), &held{}
		g.registry = resource.NewRegistry(resource.Config{Guards: []resource.Guard{g.guard}, Plugged: []resource.Guard{h}})
		g.load(t, rule)
		entries := g.hold(t, "a", 3)
		calls := []*call{g.queue(t, start, 1), g.queue(t, start, 1)}
		until := make(chan struct{})
		h.until = until
		less := rule
		less.MaxInFlight = 1
		changes, err := load(g.guard, []Rule{less})
		require.NoError(t, err)
		go g.Changed(changes)()
		synctest.Wait()
		g.load(t, rule)
		close(until)
		synctest.Wait()
		entries[0].Exit()
		require.Equal(t, "P-", ended(calls))
		exit(entries...)
		require.Equal(t, "PP", ended(calls))
	})
}
