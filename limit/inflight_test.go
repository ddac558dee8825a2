package limit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/occupancy"
	"github.com/leapgate-go/leapgate/rule"
)

func newInFlight(t require.TestingT, cfg Config) *InFlight {
	l, err := NewInFlight(cfg)
	require.NoError(t, err)
	return l
}

// acquire takes a place of a key, and returns how to give it back; nil if it was refused.
func acquire(t require.TestingT, l *InFlight, key string) (release func()) {
	place, d, err := l.Acquire(nil, key) //nolint:staticcheck // a nil context never ends
	require.NoError(t, err)
	require.Equal(t, d.Allowed, place.from != nil)
	if !d.Allowed {
		return nil
	}
	return place.Release
}

func TestInFlight_SoManyAtATime(t *testing.T) {
	t.Parallel()
	l := newInFlight(t, Config{Name: "exports", Limit: 2})
	first, d, err := l.Acquire(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, Decision{Allowed: true, Name: "exports", Limit: 2, Remaining: 1, Charged: 1}, d)
	second, d, err := l.Acquire(t.Context(), "a")
	require.NoError(t, err)
	require.Zero(t, d.Remaining)
	third, d, err := l.Acquire(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, Decision{Name: "exports", Limit: 2}, d, "nobody knows when a place is free")
	third.Release()
	require.NotNil(t, acquire(t, l, "b"), "another key")
	require.EqualValues(t, 3, l.Stats().InFlight)
	require.False(t, l.Peek("a").Allowed)
	first.Release()
	first.Release()
	require.EqualValues(t, 1, l.Peek("a").Remaining, "a second release does nothing")
	second.Release()
	require.EqualValues(t, 2, l.Peek("a").Remaining)
	s := l.Stats()
	require.Equal(t, []int64{3, 1, 1}, []int64{s.Allowed, s.Refused, s.InFlight})
	require.Equal(t, []Description{{Name: "exports", Limit: 2}}, l.Describe())
	var none Place
	none.Release()
}

func TestInFlight_ErrorsAreNoRefusals(t *testing.T) {
	t.Parallel()
	l := newInFlight(t, Config{Limit: 2, LimitFor: byPlan})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for want, try := range map[error]func() (Place, Decision, error){
		ErrKey:           func() (Place, Decision, error) { return l.Acquire(t.Context(), "") },
		ErrCount:         func() (Place, Decision, error) { return l.Acquire(t.Context(), "bad") },
		context.Canceled: func() (Place, Decision, error) { return l.Acquire(over, "a") },
	} {
		place, d, err := try()
		require.ErrorIs(t, err, want)
		require.Zero(t, d)
		place.Release()
	}
	_, _, err := l.Acquire(t.Context(), strings.Repeat("k", MaxKeyLength+1))
	require.ErrorIs(t, err, ErrKey)
	require.False(t, l.Peek("").Allowed)
	require.False(t, l.Peek("bad").Allowed)
	release := acquire(t, l, "a")
	require.NoError(t, l.Close())
	_, _, err = l.Acquire(t.Context(), "a")
	require.ErrorIs(t, err, ErrClosed)
	release()
	require.Zero(t, l.Stats().InFlight)
	require.Zero(t, l.Stats().Allowed-1)
}

func TestInFlight_LimitsByKeyAndByCallAndChanges(t *testing.T) {
	t.Parallel()
	l := newInFlight(t, Config{Limit: 5, MaxLimit: 10, LimitFor: byPlan})
	for key, want := range map[string]int{"any": 5, "vip": 10, "ban": 0} {
		for range want {
			require.NotNil(t, acquire(t, l, key), key)
		}
		require.Nil(t, acquire(t, l, key), key)
	}
	require.Equal(t, Never, l.Peek("ban").RetryAfter)
	place, d, err := l.Acquire(t.Context(), "free")
	require.NoError(t, err)
	require.Equal(t, unlimited(""), d)
	place.Release()
	require.Equal(t, unlimited(""), l.Peek("free"))
	require.Equal(t, 2, l.Stats().Keys)
	require.NoError(t, l.SetLimit(7))
	acquire(t, l, "any")
	require.EqualValues(t, 1, l.Peek("any").Remaining)
	require.NoError(t, l.SetLimit(1))
	require.Zero(t, l.Peek("any").Remaining)
	require.Nil(t, acquire(t, l, "any"))
	require.ErrorIs(t, l.SetLimit(11), ErrCount)
	_, d, err = l.AcquireLimit(t.Context(), "any", 9)
	require.NoError(t, err)
	require.EqualValues(t, 2, d.Remaining)
	_, _, err = l.AcquireLimit(t.Context(), "any", 11)
	require.ErrorIs(t, err, ErrCount)
}

func TestInFlight_ShadowRefusesNobody(t *testing.T) {
	t.Parallel()
	l := newInFlight(t, Config{Limit: 1, Mode: rule.Shadow, Offenders: 5})
	var places [3]Place
	for i := range places {
		var d Decision
		var err error
		places[i], d, err = l.Acquire(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, i > 0, d.WouldRefuse)
		require.Equal(t, int64(math.MaxInt64), d.Remaining)
	}
	s := l.Stats()
	require.Equal(t, []int64{3, 0, 2, 1}, []int64{s.Allowed, s.Refused, s.WouldRefuse, s.InFlight})
	require.Equal(t, []Offender{{"a", 2, 0}}, l.Offenders(1))
	require.NoError(t, l.SetMode(rule.Enforce))
	places[2].Release()
	require.Nil(t, acquire(t, l, "a"), "what was beyond has no place, and gives none back")
	places[0].Release()
	require.NotNil(t, acquire(t, l, "a"))
}

func TestInFlight_AKeyWithPlacesIsNeverEvicted(t *testing.T) {
	t.Parallel()
	for _, policy := range []Policy{Evict, Deny, Share} {
		const most = 2000
		l := newInFlight(t, Config{Limit: 2, MaxKeys: most, WhenFull: policy})
		held := make([]func(), most)
		for i := range held {
			held[i] = acquire(t, l, strconv.Itoa(i))
			require.NotNil(t, held[i])
		}
		for i := range 5000 {
			place, d, err := l.Acquire(t.Context(), "new "+strconv.Itoa(i))
			require.NoError(t, err)
			require.Equal(t, Decision{Limit: 2, Crowded: true, Unavailable: true}, d)
			place.Release()
		}
		require.True(t, l.Peek("new").Crowded)
		require.EqualValues(t, 5000, l.Stats().Crowded)
		require.EqualValues(t, 1, l.Peek("7").Remaining)
		require.NotNil(t, acquire(t, l, "7"), "of a known key")

		// Wherever one is free, a new key finds it.
		for range 20 {
			i := rand.IntN(most)
			if i == 7 {
				continue
			}
			held[i]()
			held[i] = acquire(t, l, fmt.Sprint("late ", rand.Int()))
			require.NotNil(t, held[i])
		}
		require.Equal(t, most, l.Stats().Keys)
		for _, release := range held {
			release()
		}
		l.Sweep()
		require.Equal(t, 1, l.Stats().Keys)
		require.Zero(t, l.Stats().Evicted)
	}
}

func TestInFlight_Config(t *testing.T) {
	t.Parallel()
	_, err := NewInFlight(Config{Limit: 1, Window: time.Second, Buckets: 2, Burst: 3, MaxBytes: 4, Strict: true})
	require.ErrorIs(t, err, ErrConfig)
	for _, field := range []string{"Window is 1s", "Buckets is 2", "Burst is 3", "MaxBytes is 4", "Strict is true"} {
		require.ErrorContains(t, err, "limit: bad configuration of InFlight: "+field)
	}
}

func TestInFlight_AgreesWithAMapOfCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most, limit := rapid.IntRange(1, 6).Draw(t, "keys"), rapid.Int64Range(0, 3).Draw(t, "limit")
		l := newInFlight(t, Config{Limit: limit, MaxLimit: 3, MaxKeys: most})
		inside := map[string]int64{}
		type held struct {
			key     string
			release func()
		}
		var all []held
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				key := rapid.StringMatching(`[a-j]`).Draw(t, "key")
				release := acquire(t, l, key)
				fits := inside[key] < limit && (inside[key] > 0 || len(inside) < most)
				require.Equal(t, fits, release != nil)
				if fits {
					inside[key]++
					all = append(all, held{key, release})
				}
			},
			"release": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("nobody is inside")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				all[i].release()
				if inside[all[i].key]--; inside[all[i].key] == 0 {
					delete(inside, all[i].key)
				}
				all = append(all[:i], all[i+1:]...)
			},
			"set": func(t *rapid.T) {
				limit = rapid.Int64Range(0, 3).Draw(t, "limit")
				require.NoError(t, l.SetLimit(limit))
			},
			"": func(t *rapid.T) {
				require.EqualValues(t, len(all), l.Stats().InFlight)
				require.LessOrEqual(t, l.Stats().Keys, most)
				for key, n := range inside {
					require.Equal(t, max(0, limit-n), l.Peek(key).Remaining)
				}
			},
		})
	})
}

// The races: two for the last place, a key that is taken out while another finds it, calls
// that panic or end their goroutines. Never is one above; at the end all places are free.
func TestInFlight_HammerKeysPanicsAndFloods(t *testing.T) {
	t.Parallel()
	const goroutines, values, limit = 64, 100, 2
	turns := 2000
	if gatetest.Race || testing.Short() {
		turns = 300
	}
	for _, most := range []int{values / 2, values + 50} {
		l := newInFlight(t, Config{Limit: limit, MaxKeys: most})
		var inside [values]atomic.Int64
		var above, passes, crowded atomic.Int64
		call := func(random *rand.Rand) {
			v := random.IntN(values)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if random.IntN(8) == 0 {
				cancel()
			}
			place, d, err := l.Acquire(ctx, strconv.Itoa(v))
			defer place.Release()
			if d.Crowded {
				crowded.Add(1)
			}
			if err != nil || !d.Allowed {
				return
			}
			passes.Add(1)
			if inside[v].Add(1) > limit {
				above.Add(1)
			}
			defer inside[v].Add(-1)
			switch random.IntN(4) {
			case 0:
				panic("of the call")
			case 1:
				runtime.Goexit()
			case 2:
				runtime.Gosched()
			}
		}
		var done sync.WaitGroup
		for id := range goroutines {
			random := rand.New(rand.NewPCG(uint64(id), 9))
			done.Go(func() {
				for turn := range turns {
					if turn%16 == 0 { // a flood
						place, _, err := l.Acquire(context.Background(), fmt.Sprint("new ", random.Int()))
						assert.NoError(t, err)
						place.Release()
					}
					if turn%64 == 0 {
						l.Sweep()
					}
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						defer func() { _ = recover() }()
						call(random)
					}()
					<-ended
				}
			})
		}
		done.Wait()
		require.Zero(t, above.Load())
		require.NotZero(t, passes.Load())
		require.Zero(t, l.Stats().InFlight)
		require.LessOrEqual(t, l.Stats().Keys, most)
		for v := range values {
			require.EqualValues(t, limit, l.Peek(strconv.Itoa(v)).Remaining)
		}
		l.Sweep()
		require.Zero(t, l.Stats().Keys)
		if most > values {
			require.Zero(t, crowded.Load(), "more keys than can hold places at a time")
		}
	}
}

// A limit that is full all the time: as many are inside as may be, and no more.
func TestInFlight_HammerOneKey(t *testing.T) {
	t.Parallel()
	const limit = 7
	l := newInFlight(t, Config{Limit: limit})
	var inside, passes atomic.Int64
	gatetest.AtOnce(64, func(int) {
		for range 500 {
			place, d, err := l.Acquire(context.Background(), "a")
			if err == nil && d.Allowed {
				passes.Add(1)
				assert.LessOrEqual(t, inside.Add(1), int64(limit))
				runtime.Gosched()
				inside.Add(-1)
			}
			place.Release()
		}
	})
	s := l.Stats()
	require.Equal(t, passes.Load(), s.Allowed)
	require.EqualValues(t, 64*500, s.Allowed+s.Refused)
	for range limit {
		require.NotNil(t, acquire(t, l, "a"))
	}
	require.Nil(t, acquire(t, l, "a"))
}

func TestInFlight_AllocatesNothing(t *testing.T) {
	l := newInFlight(t, Config{Limit: 1, LimitFor: func(string) int64 { return Default }})
	ctx := t.Context()
	ok := true
	calls := func() {
		place, d, err := l.Acquire(ctx, "a")
		refused, none, err2 := l.Acquire(ctx, "a")
		ok = ok && err == nil && err2 == nil && d.Allowed && !none.Allowed
		refused.Release()
		place.Release()
	}
	calls()
	require.Zero(t, testing.AllocsPerRun(100, calls))
	require.True(t, ok)
	require.Equal(t, 2*unsafe.Sizeof(uintptr(0)), unsafe.Sizeof(Place{}))
	require.Equal(t, uintptr(16), unsafe.Sizeof(occupancy.Held{}), "beside the bytes of the key")
}
