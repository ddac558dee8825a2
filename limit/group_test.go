package limit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func newCounter(t require.TestingT, cfg Config) (*RateLimiter, *fake) {
	clock := new(fake)
	clock.Store(minute)
	if cfg.Now == nil {
		cfg.Now = clock.Load
	}
	c, err := NewCounter(cfg)
	require.NoError(t, err)
	return c, clock
}

func TestAll_WhatOneRefusesTheOthersGetBack(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			wide, _ := a.new(t, Config{Name: "wide", Limit: 10})
			tight, _ := a.new(t, Config{Name: "tight", Limit: 3, Window: time.Minute})
			for _, g := range []*Group{All(wide, tight), All(tight, wide)} {
				wide.Reset("a")
				tight.Reset("a")
				for i := range int64(3) {
					d, err := g.Allow(t.Context(), "a")
					require.NoError(t, err)
					require.True(t, d.Allowed)
					require.Equal(t, "tight", d.Name, "the one with the least remaining")
					require.EqualValues(t, 3, d.Limit)
					require.Equal(t, 2-i, d.Remaining)
					require.EqualValues(t, 1, d.Charged)
				}
				for range 20 {
					d, err := g.Allow(t.Context(), "a")
					require.NoError(t, err)
					require.False(t, d.Allowed)
					require.Equal(t, "tight", d.Name)
					require.Zero(t, d.Remaining)
					require.Zero(t, d.Charged)
				}
				require.EqualValues(t, 7, wide.Peek("a").Remaining, "refusals cost nothing")
				require.EqualValues(t, 0, tight.Peek("a").Remaining)
				require.Equal(t, wide.Peek("a").ResetAfter, All(wide).Peek("a").ResetAfter)
			}
		})
	}
}

func TestAll_RefundAndSettleGoToEach(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			one, _ := a.new(t, Config{Limit: 10})
			two, _ := a.new(t, Config{Limit: 20})
			three, _ := a.new(t, Config{Limit: 30})
			g := All(one, All(two, three))
			left := func() [3]int64 {
				return [3]int64{one.Peek("a").Remaining, two.Peek("a").Remaining, three.Peek("a").Remaining}
			}
			d, err := g.AllowN(t.Context(), "a", 6)
			require.NoError(t, err)
			require.EqualValues(t, 6, d.Charged)
			require.Equal(t, [3]int64{4, 14, 24}, left())
			require.NoError(t, g.Refund(t.Context(), "a", d, 2))
			require.Equal(t, [3]int64{6, 16, 26}, left())
			require.ErrorIs(t, g.Refund(t.Context(), "a", d, 7), ErrCount)

			d, err = g.AllowN(t.Context(), "a", 6)
			require.NoError(t, err)
			require.NoError(t, g.Settle(t.Context(), "a", d, 1))
			require.Equal(t, [3]int64{5, 15, 25}, left())
			d, err = g.AllowN(t.Context(), "a", 1)
			require.NoError(t, err)
			require.NoError(t, g.Settle(t.Context(), "a", d, 8))
			require.Equal(t, [3]int64{0, 7, 17}, left())
			require.ErrorIs(t, g.Settle(t.Context(), "", d, 8), ErrKey)

			d, err = g.AllowN(t.Context(), "a", 1)
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.NoError(t, g.Settle(t.Context(), "a", d, 2), "what a refused call has cost all the same")
			require.Equal(t, [3]int64{0, 5, 15}, left())
			d, err = g.AllowN(t.Context(), "a", 0)
			require.NoError(t, err)
			require.False(t, d.Allowed)
			require.Zero(t, d.Charged)
		})
	}
}

// foreign is a limiter of a program, which may be remote, and fail.
type foreign struct {
	remote  bool
	allowed bool
	err     error
	asked   *[]string
	charged int64
}

func (f *foreign) AllowN(_ context.Context, _ string, n int64) (Decision, error) {
	*f.asked = append(*f.asked, "foreign")
	if f.err != nil || !f.allowed {
		return Decision{Name: "foreign", RetryAfter: time.Second}, f.err
	}
	f.charged += n
	return Decision{Allowed: true, Name: "foreign", Limit: 100, Remaining: 100 - f.charged, Charged: n, Degraded: true}, nil
}

func (f *foreign) Refund(_ context.Context, _ string, _ Decision, n int64) error {
	*f.asked = append(*f.asked, "refund")
	f.charged -= n
	return nil
}

func (f *foreign) Remote() bool { return f.remote }

// noting is a limiter of this package that tells when it is asked.
type noting struct {
	*RateLimiter
	asked *[]string
}

func (l noting) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	*l.asked = append(*l.asked, "own")
	return l.RateLimiter.AllowN(ctx, key, n)
}

func TestAll_RemoteOnesAreAskedFirst(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{true, false} {
		var asked []string
		own, _ := newCounter(t, Config{Name: "own", Limit: 1})
		f := &foreign{remote: remote, allowed: true, asked: &asked}
		g := All(noting{own, &asked}, f)
		require.Equal(t, remote, g.Remote())
		require.Equal(t, remote, All(All(), g).Remote())

		d, err := g.Allow(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.True(t, d.Degraded)
		d, err = g.Allow(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, "own", d.Name)
		require.EqualValues(t, 1, f.charged, "what it took for the refused call is given back")
		if remote {
			require.Equal(t, []string{"foreign", "own", "foreign", "own", "refund"}, asked)
		} else {
			require.Equal(t, []string{"own", "foreign", "own"}, asked)
		}
		require.NoError(t, g.Settle(t.Context(), "a", Decision{}, 3))
		require.EqualValues(t, 4, f.charged, "a limiter that cannot settle is asked for more")
	}
}

func TestAll_AnErrorTakesNothing(t *testing.T) {
	t.Parallel()
	var asked []string
	own, _ := newCounter(t, Config{Limit: 5})
	g := All(own, &foreign{asked: &asked, err: errors.ErrUnsupported})
	d, err := g.AllowN(t.Context(), "a", 2)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.Zero(t, d)
	require.EqualValues(t, 5, own.Peek("a").Remaining)

	_, err = g.AllowN(t.Context(), "", 1)
	require.ErrorIs(t, err, ErrKey)
	_, err = g.AllowN(t.Context(), "a", -1)
	require.ErrorIs(t, err, ErrCount)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.AllowN(ended, "a", 1)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, asked, 1)
	require.Panics(t, func() { All(own, nil) })

	d, err = All().Allow(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.False(t, All(own).Peek("").Allowed)
}

// Several limits, any histories: what one refuses costs nothing, and the wait is the true
// one for all of them together.
func TestAll_RetryAfterIsTrueToTheNanosecond(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := new(fake)
		var limiters []Limiter
		var own []limiter
		for range rapid.IntRange(1, 4).Draw(t, "limits") {
			a := rapid.SampledFrom(algorithms).Draw(t, "algorithm")
			cfg := a.drawConfig(t)
			cfg.Limit, cfg.Now = max(5, cfg.Limit), clock.Load
			l, err := a.make(cfg)
			require.NoError(t, err)
			own, limiters = append(own, l), append(limiters, l)
		}
		g := All(limiters...)
		window := int64(6 * time.Millisecond)
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			if next := drawNow(t, clock.Load(), window); next > clock.Load() {
				clock.Store(next)
			}
			var before []Decision
			for _, l := range own {
				before = append(before, l.Peek("a"))
			}
			n := rapid.Int64Range(1, 5).Draw(t, "n")
			d, err := g.AllowN(t.Context(), "a", n)
			require.NoError(t, err)
			if d.Allowed {
				continue
			}
			for i, l := range own {
				require.Equal(t, before[i], l.Peek("a"), "it has cost something")
			}
			now := clock.Load()
			clock.Store(now + int64(d.RetryAfter) - 1)
			if g.would("a", n).Allowed {
				t.Fatalf("%d at %d returns %+v; it passes a nanosecond earlier", n, now, d)
			}
			clock.Add(1)
			if !g.would("a", n).Allowed {
				t.Fatalf("%d at %d returns %+v; it does not pass then", n, now, d)
			}
			if rapid.Bool().Draw(t, "wait") {
				d, err := g.AllowN(t.Context(), "a", n)
				require.NoError(t, err)
				require.True(t, d.Allowed)
			}
		}
	})
}

func TestAll_HammerTogether(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			one, _ := a.new(t, Config{Limit: 300})
			two, _ := a.new(t, Config{Limit: 100})
			g := All(one, two)
			var admitted fake
			gatetest.AtOnce(16, func(int) {
				for range 100 {
					if d, err := g.Allow(t.Context(), "a"); err == nil && d.Allowed {
						admitted.Add(1)
					}
				}
			})
			// While others hold a reservation that is given back a moment later, a call may be
			// refused. When all is quiet, what is left is exact.
			require.EqualValues(t, 100, admitted.Load())
			require.EqualValues(t, 200, one.Peek("a").Remaining)
			require.Zero(t, two.Peek("a").Remaining)
		})
	}
}

func TestAll_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, err := NewLog(Config{Name: "one", Limit: 1})
		require.NoError(t, err)
		two, err := NewLog(Config{Name: "two", Limit: 2, Window: time.Minute})
		require.NoError(t, err)
		g := All(one, two)
		start := time.Now()
		for _, want := range []time.Duration{0, time.Second, time.Minute, 61 * time.Second} {
			d, err := g.Wait(t.Context(), "a", 1)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.Equal(t, want, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err = g.Wait(ctx, "a", 1)
		require.ErrorIs(t, err, ErrBlocked)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A limit that cannot be asked, or that does not take back what it gave, must not let in
// that another refuses.
func TestAll_RefusalCountsMoreThanAnError(t *testing.T) {
	t.Parallel()
	var asked []string
	own, _ := newCounter(t, Config{Name: "own", Limit: 1, Window: time.Minute})
	away := &foreign{asked: &asked, remote: true, err: errors.ErrUnsupported}
	for _, remote := range []Limiter{away, refundless{&foreign{asked: &asked, remote: true, allowed: true}}} {
		own.Reset("a")
		require.True(t, allow(t, own, 1).Allowed)
		d, err := All(remote, own).AllowN(t.Context(), "a", 1)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, "own", d.Name)
		require.Positive(t, d.RetryAfter)
	}
}

// refundless takes nothing back.
type refundless struct{ *foreign }

func (refundless) Refund(context.Context, string, Decision, int64) error {
	return errors.ErrUnsupported
}

func TestAll_NilOfAType(t *testing.T) {
	t.Parallel()
	var none *RateLimiter
	require.PanicsWithValue(t, "limit: All: limiter 1 is a nil *limit.RateLimiter", func() { All(All(), none) })
}
