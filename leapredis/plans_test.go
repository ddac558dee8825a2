package leapredis

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rulefile"
)

func TestSetPlans_SingleKeysHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		l := k.start(t, newServer(), Config{Limit: 5, MaxLimit: 10, LimitFor: byPlan, Window: time.Minute})
		require.EqualValues(t, 10, l.MaxLimit())
		named := map[string]int64{"acme": 8, "banned": 0, "partner": limit.Exempt, "vip 1": 2}
		require.NoError(t, l.SetPlans(named))
		named["acme"] = 1
		require.Equal(t, 8, passed(t, l, "acme", 20), "the map was copied")
		require.Equal(t, 0, passed(t, l, "banned", 20))
		require.Equal(t, 20, passed(t, l, "partner", 20))
		require.Equal(t, 2, passed(t, l, "vip 1", 20), "what is named comes before LimitFor")
		require.Equal(t, 10, passed(t, l, "vip 2", 20), "which is asked for the others")
		require.Equal(t, 5, passed(t, l, "any", 20))

		for _, bad := range []map[string]int64{{"acme": 11}, {"acme": limit.Default}, {"": 1}, {strings.Repeat("k", limit.MaxKeyLength+1): 1}} {
			require.Error(t, l.SetPlans(bad))
			require.EqualValues(t, 8, allow(t, l, "acme", 0).Limit, "nothing has changed")
		}
		require.ErrorIs(t, l.SetPlans(map[string]int64{"acme": 11}), limit.ErrCount)
		require.ErrorIs(t, l.SetPlans(map[string]int64{"": 1}), limit.ErrKey)
		require.NoError(t, l.SetPlans(map[string]int64{"acme": 10}))
		if k.name != "Burst" { // where it stays as time
			require.Equal(t, 2, passed(t, l, "acme", 20), "what was counted stays")
		}
		require.NoError(t, l.SetPlans(nil))
		d := allow(t, l, "acme", 0)
		require.False(t, d.Allowed)
		require.EqualValues(t, 5, d.Limit)
	})
}

func TestSetPlans_OfCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startInFlight(t, newServer(), Config{Limit: 1, MaxLimit: 3})
		require.NoError(t, l.SetPlans(map[string]int64{"acme": 3, "banned": 0, "partner": limit.Exempt}))
		inside := func(key string) (n int) {
			for range 5 {
				if _, d, err := l.Acquire(t.Context(), key); err == nil && d.Allowed {
					n++
				}
			}
			return n
		}
		require.Equal(t, []int{3, 0, 5, 1}, []int{inside("acme"), inside("banned"), inside("partner"), inside("any")})
		require.ErrorIs(t, l.SetPlans(map[string]int64{"acme": l.MaxLimit() + 1}), limit.ErrCount)
	})
}

// Plans come and go while all want the key: never is there more than the larger limit, and as
// many as that when it stays.
func TestSetPlans_HammerWithCallers(t *testing.T) {
	t.Parallel()
	eachCount(t, func(k kind) {
		t := k.t
		const small, large = 100, 1000
		l := k.start(t, newServer(), Config{Limit: small, MaxLimit: large, Window: time.Hour})
		var charged atomic.Int64
		var all sync.WaitGroup
		for id := range 8 {
			all.Go(func() {
				for i := range 150 {
					if id == 0 {
						assert.NoError(t, l.SetPlans([]map[string]int64{nil, {"a": large}}[i%2]))
					}
					d, err := l.Allow(t.Context(), "a")
					assert.NoError(t, err)
					charged.Add(d.Charged)
				}
			})
		}
		all.Wait()
		require.GreaterOrEqual(t, charged.Load(), int64(small))
		require.LessOrEqual(t, charged.Load(), int64(large))
		require.NoError(t, l.SetPlans(map[string]int64{"a": large}))
		require.EqualValues(t, large, charged.Load()+int64(passed(t, l, "a", large)))
	})
}

// A rule file changes all that it may say of limiters through Redis too.
func TestRuleFile_ChangesTheTermsOfAllLimiters(t *testing.T) {
	t.Parallel()
	s := newServer()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	limits := map[string]rulefile.Limiter{"Places": startInFlight(t, s, Config{Limit: 2, MaxLimit: 100})}
	var text strings.Builder
	text.WriteString("limits:\n  Places: {limit: 20, plans: {acme: 100, partner: -1}, mode: shadow}\n")
	for _, k := range kinds {
		limits[k.name] = k.start(t, s, Config{Limit: 2, MaxLimit: 100, Window: time.Minute, Prefix: k.name})
		fmt.Fprintf(&text, "  %s: {limit: 20, window: 1m, plans: {acme: 100, partner: -1}, mode: shadow}\n", k.name)
	}
	write(text.String())
	w, err := rulefile.Watch(rulefile.Config{Path: path, Limits: limits, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer w.Close()
	for name, l := range limits {
		require.EqualValues(t, 20, l.Describe()[0].Limit, name)
		require.Equal(t, "shadow", l.Describe()[0].Mode.String(), name)
	}
	write("limits: {Burst: {plans: {acme: 101}}}")
	require.ErrorContains(t, w.Reload(), `the plan of "acme" is 101; want at most 100`)
	write("limits: {Burst: {burst: 3}}")
	require.ErrorContains(t, w.Reload(), "burst is 3; want none: that of this limiter is the program's, and cannot change while it runs")
}
