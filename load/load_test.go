package load

import (
	"io/fs"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// busy is a container on v2 with one processor, of which it uses a share all the time.
type busy struct {
	*box
	mu    sync.Mutex
	share float64
	used  time.Duration
	since time.Time
	hangs chan struct{} // if it is not nil, reading cpu.stat hangs until it is closed
}

func newBusy() *busy { return &busy{box: ofQuota("100000 100000\n"), since: time.Now()} }

func (b *busy) use(share float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	b.share = share
}

func (b *busy) hang(until chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangs = until
}

// advance counts what was used. The caller holds mu.
func (b *busy) advance() {
	b.used += time.Duration(b.share * float64(time.Since(b.since)))
	b.since = time.Now()
}

func (b *busy) Open(name string) (fs.File, error) {
	b.mu.Lock()
	hangs := b.hangs
	b.mu.Unlock()
	if name == v2+"cpu.stat" && hangs != nil {
		<-hangs
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance()
	if name == v2+"cpu.stat" {
		b.set(name, "usage_usec "+strconv.FormatInt(b.used.Microseconds(), 10)+"\nnr_periods 0\nnr_throttled 0\n")
	}
	return b.files.Open(name)
}

func (b *busy) start(t *testing.T, cfg Config) *Sampler {
	t.Helper()
	m := b.machine()
	m.files, m.now = cgroup.Files{Root: b}, time.Now
	cfg.Logger = slog.New(slog.DiscardHandler)
	s, err := start(cfg, m)
	require.NoError(t, err)
	return s
}

// pass lets time go by, and all come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestStart_BadConfig(t *testing.T) {
	t.Parallel()
	for every, text := range map[time.Duration]string{-1: "-1ns", time.Millisecond: "1ms", 10*time.Second + 1: "10.000000001s"} {
		s, err := Start(Config{Every: every})
		require.EqualError(t, err, "leapgate: bad load configuration: Every is "+text+"; want 100ms to 10s, or 0 for 250ms")
		require.ErrorIs(t, err, ErrConfig)
		require.Nil(t, s)
	}
}

func TestSampler_StepInLoadIsSeenAfterTwoAndAHalfSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		s := b.start(t, Config{})
		defer s.Close()
		pass(10 * time.Second)
		require.Equal(t, Signal{Known: true}, s.Signals().CPU)
		b.use(1)
		pass(time.Second)
		require.InDelta(t, 0.5, s.Signals().CPU.Value, 0.001)
		require.InDelta(t, 1, s.Signals().CPU.Raw, 0.001)
		pass(1250 * time.Millisecond)
		require.Less(t, s.Signals().CPU.Value, 0.8)
		pass(250 * time.Millisecond)
		require.GreaterOrEqual(t, s.Signals().CPU.Value, 0.8)
		b.use(0)
		pass(2500 * time.Millisecond)
		require.LessOrEqual(t, s.Signals().CPU.Value, 0.2)
		pass(time.Minute)
		require.Equal(t, Signal{Known: true}, s.Signals().CPU)
	})
}

func TestSampler_ReadingThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		b.use(0.5)
		s := b.start(t, Config{})
		pass(10 * time.Second)
		require.InDelta(t, 0.5, s.Signals().CPU.Value, 1e-3)
		release := make(chan struct{})
		b.hang(release)
		pass(1250*time.Millisecond - 1)
		require.True(t, s.Signals().CPU.Known)
		pass(2)
		require.Equal(t, Signals{}, *s.Signals())
		pass(time.Hour)
		require.Equal(t, Signals{}, *s.Signals())
		b.hang(nil)
		close(release)
		synctest.Wait()
		pass(250 * time.Millisecond)
		require.InDelta(t, 0.5, s.Signals().CPU.Value, 1e-3)
		require.NoError(t, s.Close())
	})
}

func TestSampler_ZeroIsUnknown(t *testing.T) {
	t.Parallel()
	s := new(Sampler)
	require.Equal(t, Signals{}, *s.Signals())
	require.Empty(t, s.Source())
}

// The samples that a reader sees are whole ones, and never go back.
func TestSampler_ManyReadWhileItSamples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBusy()
		b.use(1)
		s := b.start(t, Config{})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				last := uint64(0)
				for range 1000 {
					now := s.Signals()
					assert.GreaterOrEqual(t, now.Seq, last)
					assert.Equal(t, now.Seq > 1, now.CPU.Known)
					last = now.Seq
					time.Sleep(10 * time.Millisecond)
				}
				assert.EqualValues(t, 40, last)
			})
		}
		wg.Wait()
		require.NoError(t, s.Close())
	})
}

// The zero Config: the true machine, the true clock. Not parallel, for goleak.
func TestStart_ZeroConfig(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := Start(Config{})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Signals().Seq)
	require.Contains(t, []string{cgroup.V2, cgroup.V1, process, ""}, s.Source())
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.Signals() }))
	require.NoError(t, s.Close())
	goleak.VerifyNone(t, before)
}
