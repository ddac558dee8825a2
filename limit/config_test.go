package limit

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfig_ZeroIsGood(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, err := a.make(Config{})
			require.NoError(t, err)
			require.Equal(t, DefaultMaxKeys, l.Stats().MaxKeys)
		})
	}
	for _, window := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 7 * time.Second, 1009 * time.Millisecond} {
		_, err := NewBucketed(Config{Window: window})
		require.NoError(t, err, "the default number of buckets fits %v", window)
	}
}

func TestConfig_Edges(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, cfg := range []Config{
				{Limit: MaxLimit, Window: MaxWindow, MaxKeys: 1, WhenFull: Share, Offenders: maxOffenders},
				{Limit: 1, Window: MinWindow, WhenFull: Deny, Name: strings.Repeat("n", 1024)},
			} {
				l, clock := a.new(t, cfg)
				require.True(t, allow(t, l, cfg.Limit).Allowed)
				d := allow(t, l, cfg.Limit)
				require.False(t, d.Allowed)
				clock.Add(int64(d.RetryAfter))
				require.True(t, allow(t, l, cfg.Limit).Allowed)
			}
		})
	}
}

func TestConfig_EveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	for _, a := range everyAlgorithm {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			_, err := a.make(Config{
				Name: "bad\n", Limit: -1, Window: time.Microsecond, MaxKeys: -1, WhenFull: 7, Offenders: -1, Buckets: -1, MaxBytes: -1, MaxLimit: -2, Mode: 9, Burst: -1,
			})
			require.ErrorIs(t, err, ErrConfig)
			var fields []string
			for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
				var fault *ConfigError
				require.ErrorAs(t, one, &fault)
				require.ErrorIs(t, fault, ErrConfig)
				require.NotEmpty(t, fault.Want)
				fields = append(fields, fault.Field)
			}
			require.ElementsMatch(t, []string{"Limit", "Window", "MaxKeys", "WhenFull", "Offenders", "Buckets", "MaxBytes", "MaxLimit", "Mode", "Burst"}, fields)
		})
	}
}

func TestConfig_Faults(t *testing.T) {
	t.Parallel()
	for text, cfg := range map[string]Config{
		`limit: bad configuration of Counter: Limit is 2305843009213693952; want 0 to 2305843009213693951`:                           {Limit: MaxLimit + 1},
		`limit: bad configuration of Counter "per client": Window is 999.999µs; want 1ms to 8784h0m0s, or 0 for 1s`:                  {Name: "per client", Window: time.Millisecond - 1},
		`limit: bad configuration of Counter: Window is 8784h0m0.000000001s; want 1ms to 8784h0m0s, or 0 for 1s`:                     {Window: MaxWindow + 1},
		`limit: bad configuration of Counter: MaxKeys is 100000001; want 1 to 100000000, or 0 for 100000`:                            {MaxKeys: MaxKeys + 1},
		`limit: bad configuration of Counter: WhenFull is 3; want Evict (0), Deny (1) or Share (2)`:                                  {WhenFull: 3},
		`limit: bad configuration of Counter: Offenders is 10001; want 1 to 10000, or 0 for none`:                                    {Offenders: maxOffenders + 1},
		`limit: bad configuration of Counter: Buckets is 5; want 0: only a Bucketed has buckets`:                                     {Buckets: 5},
		`limit: bad configuration of Counter: MaxBytes is 5; want 0: a Counter keeps no times`:                                       {MaxBytes: 5},
		`limit: bad configuration of Counter: Strict is true; want false: only a Bucketed can be told to be strict; a Log always is`: {Strict: true},
	} {
		_, err := NewCounter(cfg)
		require.EqualError(t, err, text)
	}
	_, err := NewCounter(Config{Burst: 5})
	require.EqualError(t, err, "limit: bad configuration of Counter: Burst is 5; want 0: only a Burst has one")
	_, err = NewCounter(Config{Limit: 5, MaxLimit: 4})
	require.EqualError(t, err, "limit: bad configuration of Counter: MaxLimit is 4; want 5, which is Limit, to 2305843009213693951; or 0 for Limit")
	_, err = NewBucketed(Config{Buckets: 7})
	require.EqualError(t, err, "limit: bad configuration of Bucketed: Buckets is 7; want a number that divides 1s into buckets of at least 1ms, such as 5")
	_, err = NewBucketed(Config{Buckets: 1001})
	require.EqualError(t, err, "limit: bad configuration of Bucketed: Buckets is 1001; want 1 to 1000, or 0 for 10")
	_, err = NewLog(Config{Name: strings.Repeat("n", 1025)})
	require.ErrorIs(t, err, ErrConfig)
	require.Less(t, len(err.Error()), 300)
	_, err = NewLog(Config{Limit: math.MinInt64, Window: math.MinInt64})
	require.ErrorIs(t, err, ErrConfig)
}

func TestPolicy_String(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Evict Deny Share Policy(9)", Evict.String()+" "+Deny.String()+" "+Share.String()+" "+Policy(9).String())
}
