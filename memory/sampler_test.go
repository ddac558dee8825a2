package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStart_MemoryIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, 1 << 40, math.MaxInt64} {
		under(t, giving(n), func(b *bubble) {
			requireUsed(t, n, b.Sampler)
			require.EqualValues(t, 1, b.begun.Load())
			require.Empty(t, b.log.lines())
		})
	}
}

func TestStart_ReadsAtTheGivenPace(t *testing.T) {
	t.Parallel()
	for every, period := range map[time.Duration]time.Duration{
		0:                        time.Second,
		time.Second:              time.Second,
		10 * time.Millisecond:    10 * time.Millisecond,
		250*time.Millisecond + 1: 250*time.Millisecond + 1,
		time.Hour:                time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{}
			m.gives(0)
			s, err := memory.Start(memory.Config{Every: every, Reader: m.read})
			require.NoError(t, err)
			for i := range int64(20) {
				require.Equal(t, i+1, m.begun.Load())
				requireUsed(t, i, s)
				m.gives(i + 1)
				pass(period - 1)
				requireUsed(t, i, s)
				pass(1)
			}
			require.NoError(t, s.Close())
			pass(10 * period)
			require.EqualValues(t, 21, m.begun.Load(), "and none after Close")
		})
	}
}

func TestStart_BadConfig(t *testing.T) {
	t.Parallel()
	for every, text := range map[time.Duration]string{
		-time.Second:            "-1s",
		-1:                      "-1ns",
		1:                       "1ns",
		10*time.Millisecond - 1: "9.999999ms",
		time.Hour + 1:           "1h0m0.000000001s",
		math.MaxInt64:           "2562047h47m16.854775807s",
		math.MinInt64:           "-2562047h47m16.854775808s",
	} {
		m := &machine{}
		s, err := memory.Start(memory.Config{Every: every, Reader: m.read})
		require.EqualError(t, err, "leapgate: bad memory configuration: Every is "+text+"; want 10ms to 1h0m0s, or 0 for 1s")
		require.ErrorIs(t, err, memory.ErrConfig)
		require.Nil(t, s)
		require.Zero(t, m.begun.Load(), "nothing was read")
	}
}

// The zero Config: the true machine, the true clock. Not parallel, for goleak.
func TestStart_ZeroConfig(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := memory.Start(memory.Config{})
	require.NoError(t, err)
	used, known := s.Used()
	require.True(t, known)
	require.Positive(t, used)
	require.NoError(t, s.Close())
	goleak.VerifyNone(t, before)
	requireUnknown(t, s)
}

func TestStart_FirstReadingHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		release := m.hangs(7)
		began := time.Now()
		s, err := memory.Start(memory.Config{Reader: m.read})
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
		requireUnknown(t, s)
		pass(time.Hour)
		requireUnknown(t, s)
		require.EqualValues(t, 1, m.begun.Load(), "no other begins")

		release()
		synctest.Wait()
		requireUsed(t, 7, s)
		m.gives(8)
		pass(time.Second)
		requireUsed(t, 8, s)
		require.NoError(t, s.Close())
	})
}

func TestSampler_ZeroIsUnknown(t *testing.T) {
	t.Parallel()
	requireUnknown(t, new(memory.Sampler))
}

func TestSampler_FirstReadingsFail(t *testing.T) {
	t.Parallel()
	under(t, failing(errBroken), func(b *bubble) {
		for range 30 {
			requireUnknown(t, b.Sampler)
			pass(time.Second)
		}
		b.gives(7)
		pass(time.Second)
		requireUsed(t, 7, b.Sampler)
		require.Len(t, b.log.lines(), 1)
	})
}

func TestSampler_LastGoodReadingStaysForFiveTimesEvery(t *testing.T) {
	t.Parallel()
	under(t, giving(7), func(b *bubble) {
		pass(3 * time.Second) // of good ones, the last just now
		for range 3 {
			b.fails(errBroken)
			pass(5*time.Second - 1)
			requireUsed(t, 7, b.Sampler)
			pass(2)
			requireUnknown(t, b.Sampler)
			pass(time.Hour)
			requireUnknown(t, b.Sampler)
			b.gives(7)
			pass(time.Second - 1) // to the next reading
			requireUsed(t, 7, b.Sampler)
		}
		require.Len(t, b.log.lines(), 1, "once per cause, also if it was good in between")
	})
}

// Three failures in a row, again and again, are not enough.
func TestSampler_GoodReadingNowAndThen(t *testing.T) {
	t.Parallel()
	under(t, giving(7), func(b *bubble) {
		b.does(func() (int64, error) {
			if b.begun.Load()%4 == 1 {
				return 7, nil
			}
			return 99, errBroken
		})
		for range 100 {
			pass(time.Second)
			requireUsed(t, 7, b.Sampler)
		}
	})
}

// typedNil is an error that cannot say what it is.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

func TestSampler_BadReaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want   string
		reader reader
	}{
		{`error="broken: 5"`, func() (int64, error) { return 5, fmt.Errorf("%w: 5", errBroken) }},
		{`error=""`, func() (int64, error) { return 5, errors.New("") }},
		{`error=<nil>`, func() (int64, error) { return 5, (*typedNil)(nil) }},
		{`error="the reading is -1 bytes; want 0 or more"`, giving(-1)},
		{`error="the reading is -9223372036854775808 bytes; want 0 or more"`, giving(math.MinInt64)},
		{`error="the reader panicked: gone mad"`, func() (int64, error) { panic("gone mad") }},
		{`error="the reader panicked: broken"`, func() (int64, error) { panic(errBroken) }},
		{`error="the reader panicked: <nil>"`, func() (int64, error) { panic((*typedNil)(nil)) }},
		{`error="the reader has ended its goroutine"`, func() (int64, error) { runtime.Goexit(); return 5, nil }},
	} {
		under(t, c.reader, func(b *bubble) {
			for range 10 {
				requireUnknown(t, b.Sampler)
				pass(time.Second)
			}
			require.Equal(t, []string{
				`level=WARN msg="leapgate: a reading of the memory failed; each cause is logged once" ` + c.want + " memory_unknown_after=5s",
			}, b.log.lines())
			b.gives(7)
			pass(time.Second)
			requireUsed(t, 7, b.Sampler)
		})
	}
}

func TestSampler_EachCauseIsLoggedOnce(t *testing.T) {
	t.Parallel()
	under(t, failing(errBroken), func(b *bubble) {
		for i := range 1000 {
			b.fails([]error{errBroken, errors.New("burnt")}[i%2])
			pass(time.Second)
		}
		require.Len(t, b.log.lines(), 2)
	})
}

// Neither the log nor the memory of a sampler grows for ever.
func TestSampler_CausesThatDifferEveryTime(t *testing.T) {
	t.Parallel()
	under(t, failing(errBroken), func(b *bubble) {
		for i := range 500 {
			b.fails(fmt.Errorf("fault %d", i))
			pass(time.Second)
		}
		lines := b.log.lines()
		require.Len(t, lines, 100)
		require.Contains(t, lines[0], "error=broken")
		require.Contains(t, lines[99], `error="fault 98"`)
	})
	long := strings.Repeat("x", 200)
	under(t, failing(errors.New(long)), func(b *bubble) {
		for i := range 500 {
			b.fails(fmt.Errorf("%s %d", long, i))
			pass(time.Second)
		}
		require.Len(t, b.log.lines(), 1, "what differs behind 200 characters is the same")
	})
}

func TestSampler_ReadingHangs(t *testing.T) {
	t.Parallel()
	under(t, giving(7), func(b *bubble) {
		release := b.hangs(8)
		pass(5*time.Second - 1)
		requireUsed(t, 7, b.Sampler)
		pass(2)
		requireUnknown(t, b.Sampler)
		pass(time.Hour)
		requireUnknown(t, b.Sampler)
		require.EqualValues(t, 2, b.begun.Load(), "no other begins")

		release()
		synctest.Wait()
		requireUsed(t, 8, b.Sampler)
		pass(time.Minute)
		requireUsed(t, 8, b.Sampler)
		require.EqualValues(t, 62, b.begun.Load(), "it goes on")
		require.Empty(t, b.log.lines())
	})
}

func TestSampler_CloseWhileAReadingHangs(t *testing.T) {
	t.Parallel()
	under(t, giving(7), func(b *bubble) {
		release := b.hangs(8)
		pass(1500 * time.Millisecond)
		requireUsed(t, 7, b.Sampler)
		for range 2 {
			began := time.Now()
			err := b.Close()
			require.ErrorIs(t, err, memory.ErrHangs)
			require.EqualError(t, err, "leapgate: a reading of the memory hangs: the reader has not returned 1s after Close; want it to")
			require.Equal(t, time.Second, time.Since(began))
			requireUnknown(t, b.Sampler)
		}
		release()
		synctest.Wait()
		requireUnknown(t, b.Sampler) // what comes late does not count; and Close is nil now
	})
}

func TestSampler_CloseWaitsForAReading(t *testing.T) {
	t.Parallel()
	under(t, giving(7), func(b *bubble) {
		b.does(func() (int64, error) { time.Sleep(700 * time.Millisecond); return 8, nil })
		pass(1200 * time.Millisecond)
		require.EqualValues(t, 1, b.inside.Load())
		began := time.Now()
		require.NoError(t, b.Close())
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.Zero(t, b.inside.Load())
	})
}

func TestSampler_CloseByMany(t *testing.T) {
	t.Parallel()
	under(t, giving(7), func(b *bubble) {
		began := time.Now()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				assert.NoError(t, b.Close())
				_, known := b.Used()
				assert.False(t, known)
			})
		}
		wg.Wait()
		require.Equal(t, began, time.Now(), "nobody waits for anything")
	})
}

// A reading that comes in while Close is called must not make the memory known again.
func TestSampler_CloseRacesAReading(t *testing.T) {
	t.Parallel()
	for range 500 {
		under(t, giving(7), func(b *bubble) {
			time.Sleep(time.Second) // and no synctest.Wait: the reading begins now
			require.NoError(t, b.Close())
			requireUnknown(t, b.Sampler)
			pass(time.Minute)
			requireUnknown(t, b.Sampler)
		})
	}
}

// hangingHandler is a logger that blocks, as on a full pipe.
type hangingHandler struct {
	slog.Handler
	gate <-chan struct{}
}

func (h hangingHandler) Handle(context.Context, slog.Record) error { <-h.gate; return nil }

func TestSampler_LoggerHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, gate := &machine{}, make(chan struct{})
		m.gives(7)
		s, err := memory.Start(memory.Config{Reader: m.read, Logger: slog.New(hangingHandler{slog.Default().Handler(), gate})})
		require.NoError(t, err)
		m.fails(errBroken)
		pass(5*time.Second - 1)
		requireUsed(t, 7, s)
		pass(2)
		requireUnknown(t, s)
		require.ErrorIs(t, s.Close(), memory.ErrHangs)
		close(gate)
		require.NoError(t, s.Close())
	})
}

// Each reading is larger than the one before: Used never goes back, and never gives
// what was not read.
func TestSampler_ManyAskWhileItSamples(t *testing.T) {
	t.Parallel()
	const step, turns = 1<<32 + 1, 2999 // not quite 30 s
	under(t, giving(0), func(b *bubble) {
		var readings atomic.Int64
		b.does(func() (int64, error) { return readings.Add(1) * step, nil })
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				last := int64(0)
				for range turns {
					used, known := b.Used()
					if !known || used < last || used%step != 0 || used > readings.Load()*step {
						assert.Fail(t, "wrong", "known %v, used %d after %d", known, used, last)
						return
					}
					last = used
					time.Sleep(10 * time.Millisecond)
				}
				assert.Equal(t, int64(29*step), last)
			})
		}
		wg.Wait()
		require.EqualValues(t, 29, readings.Load())
	})
}

func TestSampler_UsedAllocatesNothing(t *testing.T) {
	s, err := memory.Start(memory.Config{Every: time.Hour, Reader: giving(7)})
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.Used() }))
	require.NoError(t, s.Close())
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.Used() }))
}
