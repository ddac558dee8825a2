package sampler_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/sampler"
)

var (
	errConfig = errors.New("bad config")
	errBroken = errors.New("broken")
)

// fake is a figure that the test sets, and what a sampler read of it.
type fake struct {
	*sampler.Sampler[int64]
	log  errorLog
	read atomic.Pointer[func() (int64, error)]
	last atomic.Int64 // 0 if it is unknown
	n    atomic.Int64 // readings
}

func (f *fake) gives(v int64) { f.does(func() (int64, error) { return v, nil }) }
func (f *fake) fails(err error) {
	f.does(func() (int64, error) { return 99, err })
}
func (f *fake) does(read func() (int64, error)) { f.read.Store(&read) }

func (f *fake) start(every time.Duration) (err error) {
	f.Sampler, err = sampler.Start(sampler.Config[int64]{
		Every: every, Min: time.Second, Max: time.Minute, Default: 2 * time.Second, What: "figure",
		Logger: slog.New(&f.log), BadConfig: errConfig,
		Read: func() (int64, error) {
			f.n.Add(1)
			return (*f.read.Load())()
		},
		Take: f.last.Store, Forget: func() { f.last.Store(0) },
	})
	return err
}

// sampling runs a test in fake time with a sampler that reads 7 every second.
func sampling(t *testing.T, test func(f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		f.gives(7)
		require.NoError(t, f.start(time.Second))
		require.EqualValues(t, 7, f.last.Load(), "it reads at once")
		test(f)
		f.Close()
		require.Zero(t, f.last.Load())
		n := f.n.Load()
		time.Sleep(time.Hour)
		require.Equal(t, n, f.n.Load())
	})
}

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestStart_ReadsAtTheGivenPace(t *testing.T) {
	t.Parallel()
	for every, want := range map[time.Duration]time.Duration{0: 2 * time.Second, time.Second: time.Second, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f := new(fake)
			f.gives(1)
			require.NoError(t, f.start(every))
			pass(10*want - 1)
			require.EqualValues(t, 10, f.n.Load())
			pass(1)
			require.EqualValues(t, 11, f.n.Load())
			f.Close()
		})
	}
}

func TestStart_BadConfig(t *testing.T) {
	t.Parallel()
	for every, text := range map[time.Duration]string{-1: "-1ns", 1: "1ns", time.Minute + 1: "1m0.000000001s"} {
		f := new(fake)
		err := f.start(every)
		require.EqualError(t, err, "bad config: Every is "+text+"; want 1s to 1m0s, or 0 for 2s")
		require.ErrorIs(t, err, errConfig)
		require.Zero(t, f.n.Load())
	}
}

func TestSampler_LastGoodReadingStaysForFiveTimesEvery(t *testing.T) {
	t.Parallel()
	sampling(t, func(f *fake) {
		pass(3 * time.Second)
		for range 3 {
			f.fails(errBroken)
			pass(5*time.Second - 1)
			require.EqualValues(t, 7, f.last.Load())
			pass(2)
			require.Zero(t, f.last.Load())
			pass(time.Hour)
			f.gives(7)
			pass(time.Second - 1) // to the next reading
			require.EqualValues(t, 7, f.last.Load())
		}
		require.Len(t, f.log.errors, 1, "once per cause, also if it was good in between")
	})
}

func TestSampler_LogsAtMostAHundredCauses(t *testing.T) {
	t.Parallel()
	sampling(t, func(f *fake) {
		for i := range 500 {
			f.fails(fmt.Errorf("fault %d", i))
			pass(time.Second)
		}
		require.Len(t, f.log.errors, 100)
	})
}

// A reading that hangs makes the figure unknown, and no other one begins.
func TestSampler_ReadingHangs(t *testing.T) {
	t.Parallel()
	sampling(t, func(f *fake) {
		release := make(chan struct{})
		f.does(func() (int64, error) { <-release; return 8, nil })
		pass(5*time.Second + 1)
		require.Zero(t, f.last.Load())
		require.EqualValues(t, 2, f.n.Load())
		close(release)
		synctest.Wait()
		require.EqualValues(t, 8, f.last.Load())
	})
}

func TestSampler_CloseByManyWhileItReads(t *testing.T) {
	t.Parallel()
	for range 100 {
		sampling(t, func(f *fake) {
			time.Sleep(time.Second) // and no synctest.Wait: the reading begins now
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					f.Close()
					assert.Zero(t, f.last.Load())
				})
			}
			all.Wait()
		})
	}
}
