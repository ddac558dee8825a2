package param_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/param"
)

// The race: many goroutines ask for few values while others flood the table with new ones,
// panic, end, give up waiting, take batches and are refused by a later rule. Nobody is ever inside
// beyond the limit of a value, and in the end nobody is.
func TestInFlight_HammerNoValueIsEverOverItsLimit(t *testing.T) {
	t.Parallel()
	const goroutines, values, limit = 64, 100, 2
	w := newWorld(t, param.Rule{MaxInFlight: limit, MaxKeys: 80, Top: 5})
	require.NoError(t, w.EditRules(func(all *leapgate.Rules) error {
		all.Param = append(all.Param,
			param.Rule{ID: "later", Resource: "r", Arg: "how", Threshold: 1e6, Items: "refused=0"},
			param.Rule{ID: "waits", Resource: "r", Arg: "turn", Threshold: 1, Interval: time.Hour, Behavior: param.Pace, MaxWait: time.Hour})
		return nil
	}))
	w.pass(1, leapgate.WithArg("turn", "next")) // the next turn comes in an hour
	var inside [values]atomic.Int64
	var passed atomic.Int64
	names := make([]string, values)
	for i := range names {
		names[i] = fmt.Sprint("value ", i)
	}
	call := func(id, i int) {
		defer func() { _ = recover() }()
		value := (id + i) % values
		n := int64(1 + i%7/6)
		opts := []leapgate.EntryOption{leapgate.WithCount(n)}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		flood := i%11 == 0
		switch {
		case flood:
			opts = append(opts, item(fmt.Sprint("new ", id, i)))
		case i%5 == 0:
			opts = append(opts, item(names[value]), leapgate.WithArg("how", "refused"))
		case i%17 == 0:
			opts = append(opts, item(names[value]), leapgate.WithArg("turn", "next"))
			go cancel()
		default:
			opts = append(opts, item(names[value]))
		}
		e, err := w.EntryContext(ctx, "r", opts...)
		if err != nil {
			return
		}
		defer e.Exit()
		passed.Add(n)
		if !flood {
			if now := inside[value].Add(n); now > limit {
				t.Errorf("%d of %d inside", now, limit)
			}
			inside[value].Add(-n)
		}
		switch {
		case i%13 == 0:
			panic("the call fails")
		case i%19 == 0:
			runtime.Goexit()
		default:
		}
	}
	gatetest.AtOnce(goroutines, func(id int) {
		for i := range gatetest.Rounds(2000) {
			var ended sync.WaitGroup
			ended.Go(func() { call(id, i) })
			ended.Wait()
		}
	})
	require.Zero(t, gates.Snapshot(t, w.Gate, "r").Concurrency)
	require.Equal(t, passed.Load(), w.snapshot().Admitted)
	for _, name := range names[:80] {
		entries := w.hold(5, item(name))
		require.Len(t, entries, limit, name)
		exit(entries)
	}
}

// The race: rules are loaded again and again while calls take and give back.
func TestInFlight_HammerReloadsLoseNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{MaxInFlight: 3})
	var inside atomic.Int64
	var calls sync.WaitGroup
	stop := make(chan struct{})
	calls.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				w.load(param.Rule{MaxInFlight: int64(1 + i%3), Items: []string{"", "a=3", "b=1"}[i%3], Missing: param.Missing(i % 3)})
			}
		}
	})
	gatetest.AtOnce(8, func(int) {
		for range gatetest.Rounds(5000) {
			if e := w.call(item("a")); e != nil {
				if now := inside.Add(1); now > 3 {
					t.Errorf("%d of 3 inside", now)
				}
				inside.Add(-1)
				e.Exit()
			}
		}
	})
	close(stop)
	calls.Wait()
	w.load(param.Rule{MaxInFlight: 3})
	require.Len(t, w.hold(9, item("a")), 3)
}

// The race: all goroutines want the same few values in one window. Exactly the limit of
// each is admitted, whatever is given back meanwhile.
func TestRate_HammerAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	for _, r := range []param.Rule{
		{Threshold: 100},
		{Threshold: 100, Candidate: 50},
		{Threshold: 7, Behavior: param.Bucket, Burst: 100},
		{Arg: "item,how", Threshold: 100},
	} {
		w := newWorld(t, r)
		require.NoError(t, w.EditRules(func(all *leapgate.Rules) error {
			all.Param = append(all.Param, param.Rule{ID: "later", Resource: "r", Arg: "other", Threshold: 1e6, Items: "refused=0"})
			return nil
		}))
		var passed [4]atomic.Int64
		gatetest.AtOnce(16, func(id int) {
			for i := range gatetest.Rounds(1000) {
				value := (id + i) % len(passed)
				other := "passes"
				if i%3 == 0 {
					other = "refused"
				}
				e, err := w.EntryContext(context.Background(), "r", item(fmt.Sprint(value)), leapgate.WithArg("how", "x"), leapgate.WithArg("other", other))
				if err == nil {
					passed[value].Add(1)
					e.Exit()
				}
			}
		})
		for value := range passed {
			// What is asked for and given back may refuse others for a moment: the rest passes now.
			rest := w.pass(200, item(fmt.Sprint(value)), leapgate.WithArg("how", "x"), leapgate.WithArg("other", "passes"))
			require.Equal(t, int64(100), passed[value].Load()+int64(rest), r)
		}
		s := w.snapshot()
		require.Equal(t, int64(400), s.Admitted)
		w.clock.Advance(time.Hour)
		require.Equal(t, 100, w.pass(200, item("0"), leapgate.WithArg("how", "x")))
	}
}
