package limit

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/rule"
)

func TestAll_AllowAtMostAsManyAsAllHaveRoomFor(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			wide, _ := a.new(t, Config{Name: "wide", Limit: 10, Window: time.Hour})
			tight, _ := a.new(t, Config{Name: "tight", Limit: 4})
			for _, g := range []*Group{All(wide, tight), All(tight, All(wide)), All(All(wide, tight))} {
				wide.Reset("a")
				tight.Reset("a")
				ask := func(n int64) Decision {
					d, err := g.AllowAtMost(t.Context(), "a", n)
					require.NoError(t, err)
					return d
				}
				require.EqualValues(t, 3, ask(3).Charged)
				d := ask(9)
				require.True(t, d.Allowed)
				require.EqualValues(t, 1, d.Charged)
				require.Equal(t, "tight", d.Name)
				require.Zero(t, d.Remaining)
				require.Positive(t, d.MoreAfter)
				require.EqualValues(t, 6, wide.Peek("a").Remaining, "it has got back what the other had no room for")

				// What was taken can be given back and settled as any other decision.
				require.NoError(t, g.Refund(t.Context(), "a", d, 1))
				require.EqualValues(t, 7, wide.Peek("a").Remaining)
				require.EqualValues(t, 1, tight.Peek("a").Remaining)
				require.ErrorIs(t, g.Refund(t.Context(), "a", d, 2), ErrCount)
				d = ask(5)
				require.EqualValues(t, 1, d.Charged)
				require.NoError(t, g.Settle(t.Context(), "a", d, 2))
				require.EqualValues(t, 5, wide.Peek("a").Remaining)

				d = ask(9)
				require.False(t, d.Allowed)
				require.Zero(t, d.Charged)
				require.Equal(t, tight.Peek("a").RetryAfter, d.RetryAfter, "until one fits")
				require.EqualValues(t, 5, wide.Peek("a").Remaining, "a refusal costs nothing")
				require.Zero(t, ask(0).Charged)
			}
			_, err := All(wide).AllowAtMost(t.Context(), "a", -1)
			require.ErrorIs(t, err, ErrCount)
			d, err := All().AllowAtMost(t.Context(), "a", 5)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		})
	}
}

// It takes what one call after the other of one each would, and each limit ends up as with
// those.
func TestProperty_AllowAtMostOfSeveralIsAsManySingleCalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := new(fake)
		var some, single []limiter
		var together, oneByOne []Limiter
		for range rapid.IntRange(1, 4).Draw(t, "limits") {
			a := rapid.SampledFrom(everyAlgorithm).Draw(t, "algorithm")
			cfg := a.drawConfig(t)
			cfg.Now = clock.Load
			x, err := a.make(cfg)
			require.NoError(t, err)
			y, err := a.make(cfg)
			require.NoError(t, err)
			some, together = append(some, x), append(together, x)
			single, oneByOne = append(single, y), append(oneByOne, y)
		}
		g, h := All(together...), All(oneByOne...)
		for range rapid.IntRange(1, 25).Draw(t, "calls") {
			if next := drawNow(t, clock.Load(), int64(6*time.Millisecond)); next > clock.Load() {
				clock.Store(next)
			}
			n := rapid.Int64Range(1, 15).Draw(t, "n")
			want := int64(0)
			for range n {
				if d, err := h.Allow(t.Context(), "a"); err == nil && d.Allowed {
					want++
				}
			}
			d, err := g.AllowAtMost(t.Context(), "a", n)
			require.NoError(t, err)
			require.Equal(t, want, d.Charged)
			require.Equal(t, want > 0, d.Allowed)
			for i := range some {
				require.Equal(t, single[i].Peek("a"), some[i].Peek("a"))
			}
			if d.Allowed {
				require.Equal(t, h.Peek("a").Remaining, d.Remaining)
			}
		}
	})
}

// None is lost and none invented, whatever is given back meanwhile.
func TestAll_HammerAllowAtMost(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			wide, _ := a.new(t, Config{Limit: 3000})
			tight, _ := a.new(t, Config{Limit: 1000})
			g := All(wide, tight)
			var taken atomic.Int64
			gatetest.AtOnce(16, func(id int) {
				for i := range 100 {
					if d, err := g.AllowAtMost(t.Context(), "a", int64((i+id)%5+1)); err == nil {
						taken.Add(d.Charged)
					}
				}
			})
			for {
				d, err := g.AllowAtMost(t.Context(), "a", 7)
				require.NoError(t, err)
				if !d.Allowed {
					break
				}
				taken.Add(d.Charged)
			}
			require.EqualValues(t, 1000, taken.Load())
			require.EqualValues(t, 2000, wide.Peek("a").Remaining)
		})
	}
}

// free counts nothing.
type free struct{ *foreign }

func (f free) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	d, err := f.foreign.AllowN(ctx, key, n)
	d.Charged = 0
	return d, err
}

// A limiter of a program without AllowAtMost, and limits that refuse nobody.
func TestAll_AllowAtMostWithOthers(t *testing.T) {
	t.Parallel()
	var asked []string
	own, _ := newCounter(t, Config{Name: "own", Limit: 3})
	f := &foreign{allowed: true, asked: &asked}
	d, err := All(f, own).AllowAtMost(t.Context(), "a", 5)
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Charged)
	require.EqualValues(t, 3, f.charged)
	require.Equal(t, []string{"foreign", "refund"}, asked)
	d, err = All(f, own).AllowAtMost(t.Context(), "a", 5)
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.EqualValues(t, 3, f.charged)

	// One that has only AllowN is asked again for what it says remains.
	own.Reset("a")
	plain := struct{ Limiter }{own}
	d, err = All(plain).AllowAtMost(t.Context(), "a", 5)
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Charged)
	require.False(t, own.Peek("a").Allowed)

	// One that does not take back the rest keeps it; the caller has what all have room for.
	own.Reset("a")
	stubborn := refundless{&foreign{allowed: true, asked: &asked}}
	d, err = All(stubborn, own).AllowAtMost(t.Context(), "a", 5)
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Charged)

	own.Reset("a")
	_, err = All(own, &foreign{asked: &asked, err: errors.ErrUnsupported}).AllowAtMost(t.Context(), "a", 2)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualValues(t, 3, own.Peek("a").Remaining)

	// One that admits without counting, as while a server is away, admits all.
	own.Reset("a")
	away := free{&foreign{allowed: true, asked: &asked}}
	d, err = All(away, own).AllowAtMost(t.Context(), "a", 5)
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Charged)

	own.Reset("a")
	shadow, _ := newCounter(t, Config{Name: "shadow", Limit: 1, Mode: rule.Shadow})
	d, err = All(shadow, own).AllowAtMost(t.Context(), "a", 5)
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Charged, "a limit in mode shadow takes nothing away")
	require.True(t, d.WouldRefuse)
	d, err = shadow.AllowAtMost(t.Context(), "b", 5)
	require.NoError(t, err)
	require.Equal(t, []any{true, true, Exempt, int64(math.MaxInt64)}, []any{d.Allowed, d.WouldRefuse, d.Limit, d.Remaining})
	d, err = All(shadow).AllowAtMost(t.Context(), "c", 1)
	require.NoError(t, err)
	require.False(t, d.WouldRefuse)
}
