package isolation

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/rule"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShadow_NeverBlocksAndNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, start := newGate(t, false, Rule{ID: "few", Resource: "a", MaxInFlight: 3, MaxWait: time.Hour, Mode: rule.Shadow}), time.Now()
		held := g.hold(t, "a", 5)
		require.Len(t, held, 5)
		batch := g.try(t, "a", 4) // more than there are places
		require.Zero(t, time.Since(start))
		require.Equal(t, []int64{9, 0, 0, 6, 9}, g.totals("a"))
		s := g.rule(t, "a", "few")
		require.Equal(t, []int64{3, 0, 6}, []int64{s.Admitted, s.Blocked, s.WouldBlock})
		require.Zero(t, s.LastRefusal)
		batch.Exit()
		exit(held[3:]...) // those that it would have blocked give nothing back
		require.Equal(t, int64(3), g.taken(t, "a", "few"))
		held[0].Exit()
		held = append(held, g.hold(t, "a", 2)...) // it would block the second
		require.Equal(t, []int64{11, 7, 0, 7, 4}, g.totals("a"))
		exit(held...)
		require.Zero(t, g.taken(t, "a", "few"))
	})
}

// Each rule in shadow remembers of each call whether it had admitted it.
func TestShadow_ManyRulesEachCountTheirOwn(t *testing.T) {
	t.Parallel()
	var rules []Rule
	for i := range int64(20) {
		rules = append(rules, Rule{ID: fmt.Sprint(i), Resource: "a", MaxInFlight: 1 + i, Mode: rule.Shadow})
	}
	g := newGate(t, true, rules...)
	held := g.hold(t, "a", 15)
	require.Len(t, held, 15)
	taken := func() (taken []int64) {
		for i := range rules {
			taken = append(taken, g.taken(t, "a", fmt.Sprint(i)))
		}
		return taken
	}
	// The last four are beyond 16, and are not asked.
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 0, 0, 0, 0}, taken())
	require.Zero(t, g.rule(t, "a", "19").Admitted)
	require.Equal(t, int64(14), g.rule(t, "a", "0").WouldBlock)
	require.Equal(t, []int64{15, 0, 0, 14, 15}, g.totals("a"))
	held[14].Exit() // admitted by those of 15 places and more
	held[0].Exit()  // admitted by all
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 13, 0, 0, 0, 0}, taken())
	g.load(t, rules[10:]...)
	require.Len(t, g.hold(t, "a", 1), 1)
	require.Equal(t, int64(1), g.taken(t, "a", "19"))
	exit(held...) // those that ended above do nothing
	g.load(t, rules...)
	require.Equal(t, []int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, func() []int64 {
		all := taken()
		for i := range 10 { // removed and added again, so they are new
			require.Zero(t, all[i])
		}
		return all
	}())
}

// The bits of an entry are those of the rules that it came under, whatever rules are
// before and after them now.
func TestShadow_EntriesEndUnderTheRulesTheyCameUnder(t *testing.T) {
	t.Parallel()
	a := Rule{ID: "a", Resource: "a", MaxInFlight: 2, Mode: rule.Shadow}
	b := Rule{ID: "b", Resource: "a", MaxInFlight: 1, Mode: rule.Shadow}
	c := Rule{ID: "c", Resource: "a", MaxInFlight: 5, Mode: rule.Shadow}
	g := newGate(t, true, a, b)
	held := g.hold(t, "a", 2) // b admits the first only
	g.load(t, c, b, a)
	held = append(held, g.hold(t, "a", 1)...) // only c admits it
	taken := func() []int64 {
		return []int64{g.taken(t, "a", "a"), g.taken(t, "a", "b"), g.taken(t, "a", "c")}
	}
	require.Equal(t, []int64{2, 1, 1}, taken())
	held[1].Exit()
	require.Equal(t, []int64{1, 1, 1}, taken())
	held[2].Exit()
	require.Equal(t, []int64{1, 1, 0}, taken())
	a.Mode, b.Mode = rule.Enforce, rule.Enforce
	g.load(t, b, c, a)
	require.Empty(t, g.hold(t, "a", 1)) // b is full with a call from its time in shadow
	held[0].Exit()
	require.Equal(t, []int64{0, 0, 0}, taken())
	require.Len(t, g.hold(t, "a", 3), 1)
}

func TestShadow_RefusalOfAnEnforcedRuleTakesNothing(t *testing.T) {
	t.Parallel()
	g := newGate(t, true,
		Rule{ID: "shadow", Resource: "a", MaxInFlight: 5, Mode: rule.Shadow},
		Rule{ID: "large", Resource: "a", MaxInFlight: 9},
		Rule{ID: "small", Resource: "a", MaxInFlight: 2})
	require.Len(t, g.hold(t, "a", 5), 2)
	for _, id := range []string{"shadow", "large", "small"} {
		require.Equal(t, int64(2), g.taken(t, "a", id), id)
		require.Equal(t, int64(2), g.rule(t, "a", id).Admitted, id)
	}
	require.Zero(t, g.rule(t, "a", "shadow").WouldBlock)
}

// The race: calls that end under sets of rules in which a rule has another bit, or is
// enforced.
func TestShadow_HammerWithReloads(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 3000
	rules := []Rule{
		{ID: "1", Resource: "a", MaxInFlight: 1},
		{ID: "2", Resource: "a", MaxInFlight: 2},
		{ID: "3", Resource: "a", MaxInFlight: 3},
	}
	with := func(round int) (list []Rule) {
		for i := range rules {
			r := rules[(i+round)%3]
			r.Mode = rule.Mode((round/3 + i) % 3)
			list = append(list, r)
		}
		return list
	}
	g := newGate(t, true, with(0)...)
	handle := g.Resource("a")
	stop := make(chan struct{})
	var loader, wg sync.WaitGroup
	loader.Go(func() {
		for round := 0; ; round++ {
			select {
			case <-stop:
				return
			default:
				g.load(t, with(round)...)
			}
		}
	})
	var passed, blocked atomic.Int64
	for range workers {
		wg.Go(func() {
			for range each {
				e, err := handle.Entry()
				if err == nil {
					passed.Add(1)
				} else {
					assert.ErrorIs(t, err, callerror.ErrBlocked)
					blocked.Add(1)
				}
				e.Exit()
			}
		})
	}
	wg.Wait()
	close(stop)
	loader.Wait()
	for i, r := range rules {
		require.Zero(t, g.taken(t, "a", r.ID), i)
	}
	totals := g.totals("a")
	require.Equal(t, []int64{passed.Load(), passed.Load(), blocked.Load(), 0},
		[]int64{totals[0], totals[1], totals[2], totals[4]})
}
