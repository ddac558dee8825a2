package param_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/resource"
)

// A rule with a threshold admits what a limiter by key admits with the same limits, whatever
// is refused by another rule and given back, and whichever thresholds are loaded meanwhile.
func TestRate_ModelIsALimiterByKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := gatetest.NewClock()
		r := param.Rule{
			ID: "x", Resource: "r", Arg: "item", Threshold: float64(rapid.IntRange(0, 6).Draw(t, "threshold")),
			Behavior: rapid.SampledFrom([]param.Behavior{param.Reject, param.Bucket}).Draw(t, "behavior"), Items: "vip=7, b*=2, free=-1",
		}
		limits := func(key string) int64 {
			switch {
			case key == "vip":
				return 7
			case key == "free":
				return limit.Exempt
			case key[0] == 'b':
				return 2
			default:
				return int64(r.Threshold)
			}
		}
		cfg := limit.Config{Limit: 5, MaxLimit: 100, LimitFor: limits, Now: clock.Now}
		newLimiter := limit.NewCounter
		if r.Behavior == param.Bucket {
			newLimiter = limit.NewBurst
			r.Burst = int64(rapid.IntRange(0, 9).Draw(t, "burst"))
			cfg.Burst = r.Burst
		}
		model, err := newLimiter(cfg)
		require.NoError(t, err)
		g := leapgate.Must(leapgate.Config{Now: clock.Now})
		later := param.Rule{ID: "z", Resource: "r", Arg: "how", Threshold: 1e6, Items: "refused=0"}
		load := func() { require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{r, later}})) }
		load()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			clock.Advance(time.Duration(rapid.IntRange(0, 600).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				r.Threshold = float64(rapid.IntRange(0, 9).Draw(t, "threshold"))
				load()
			}
			value := rapid.SampledFrom([]string{"a", "b", "bob", "vip", "free", "other"}).Draw(t, "value")
			n := int64(rapid.IntRange(1, 3).Draw(t, "n"))
			how := rapid.SampledFrom([]string{"passes", "passes", "refused"}).Draw(t, "how")
			d, err := model.AllowN(context.Background(), value, n)
			require.NoError(t, err)
			e, err := g.EntryContext(context.Background(), "r", leapgate.WithArg("item", value), leapgate.WithArg("how", how), leapgate.WithCount(n))
			require.Equal(t, d.Allowed && how == "passes", err == nil, "%s %d %s", value, n, how)
			var blocked *resource.BlockError
			if how == "refused" && d.Allowed {
				require.NoError(t, model.Refund(context.Background(), value, d, d.Charged))
			} else if err != nil && d.RetryAfter < limit.Never && how == "passes" {
				require.ErrorAs(t, err, &blocked)
				require.Equal(t, d.RetryAfter, blocked.RetryAfter)
			}
			e.Exit()
		}
	})
}

// A rule on calls in flight admits what a map of counts admits, whatever comes and goes, and
// however few values there is room for.
func TestInFlight_ModelIsAMapOfCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type call struct {
			entry resource.Entry
			value string
			n     int64
		}
		maxKeys := rapid.IntRange(2, 5).Draw(t, "maxKeys")
		r := param.Rule{ID: "x", Resource: "r", Arg: "item", MaxInFlight: 3, MaxKeys: maxKeys, Items: "vip=5"}
		g := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now})
		load := func() { require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{r}})) }
		load()
		counts := make(map[string]int64)
		var calls []call
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what == 0:
				r.MaxInFlight = int64(rapid.IntRange(1, 5).Draw(t, "limit"))
				load()
			case what < 4 && len(calls) > 0:
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "which")
				calls[i].entry.Exit()
				if counts[calls[i].value] -= calls[i].n; counts[calls[i].value] == 0 {
					delete(counts, calls[i].value)
				}
				calls = append(calls[:i], calls[i+1:]...)
			default:
				value := rapid.SampledFrom([]string{"vip", "a", "b", "c", "d", "e"}).Draw(t, "value")
				n := int64(rapid.IntRange(1, 2).Draw(t, "n"))
				most := r.MaxInFlight
				if value == "vip" {
					most = 5
				}
				others := len(counts)
				if counts["vip"] > 0 {
					others-- // it may have room of its own, or not
				}
				_, known := counts[value]
				known = known || value == "vip"
				fits := counts[value]+n <= most
				e, err := g.EntryContext(context.Background(), "r", leapgate.WithArg("item", value), leapgate.WithCount(n))
				switch {
				case fits && (known || len(counts) < maxKeys):
					require.NoError(t, err, fmt.Sprint(value, n, counts, maxKeys))
				case !fits || others >= maxKeys:
					require.Error(t, err, fmt.Sprint(value, n, counts, maxKeys))
				default:
				}
				if err == nil {
					counts[value] += n
					calls = append(calls, call{e, value, n})
				}
			}
		}
	})
}
