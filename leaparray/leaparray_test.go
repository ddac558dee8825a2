package leaparray

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.nofailfile", "true") // what fails is printed; no files in the checkout
	goleak.VerifyTestMain(m)
}

// startRing makes a ring whose values are their own starts.
func startRing(t testing.TB, buckets int, interval time.Duration) *LeapArray[int64] {
	t.Helper()
	a, err := New(buckets, interval, func(value *int64, start int64, _ *WindowWrap[int64]) { *value = start })
	require.NoError(t, err)
	return a
}

// live returns the starts of the live buckets.
func live[T any](a *LeapArray[T], now int64) []int64 {
	starts := []int64{}
	for w := range a.Live(now) {
		starts = append(starts, w.Start())
	}
	return starts
}

// oldest returns the start of the oldest live bucket.
func oldest[T any](a *LeapArray[T], now int64) (start int64, ok bool) {
	if w := a.Oldest(now); w != nil {
		return w.Start(), true
	}
	return 0, false
}

func noBucket(*int64, int64, *WindowWrap[int64]) {}

func TestNew_BadConfigurationSaysWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		buckets   int
		interval  time.Duration
		newBucket func(*int64, int64, *WindowWrap[int64])
		wrong     string
		right     string
	}{
		{"no buckets", 0, time.Second, noBucket, "0 buckets", "want 1 to 65536"},
		{"negative buckets", -3, time.Second, noBucket, "-3 buckets", "want 1 to 65536"},
		{"too many buckets", MaxBuckets + 1, MaxBuckets + 1, noBucket, "65537 buckets", "want 1 to 65536"},
		{"no interval", 10, 0, noBucket, "interval 0s", "want more than 0"},
		{"negative interval", 10, -time.Second, noBucket, "interval -1s", "want more than 0"},
		{"indivisible, fewer would do", 30, 10 * time.Microsecond, noBucket, "10µs does not divide by 30 buckets", "25 buckets would do"},
		{"indivisible, more would do", 9, time.Second, noBucket, "1s does not divide by 9 buckets", "8 buckets would do"},
		{"shorter than its buckets", 10, 3, noBucket, "3ns does not divide by 10 buckets", "3 buckets would do"},
		{"prime", 7, 13, noBucket, "13ns does not divide by 7 buckets", "1 buckets would do"},
		{"more would be too many", MaxBuckets, MaxBuckets + 1, noBucket, "65.537µs does not divide by 65536 buckets", "; 1 buckets would do"},
		{"no constructor", 10, time.Second, nil, "newBucket is nil", "want a function that makes a bucket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, err := New(c.buckets, c.interval, c.newBucket)
			require.Nil(t, a)
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, c.wrong)
			require.ErrorContains(t, err, c.right)
		})
	}
}

// Whatever number of buckets the error proposes is accepted, and none is closer.
func TestNew_ProposedNumberOfBucketsIsTheNearestThatWorks(t *testing.T) {
	t.Parallel()
	proposal := regexp.MustCompile(`(\d+) buckets would do`)
	rapid.Check(t, func(t *rapid.T) {
		buckets := rapid.IntRange(1, 3000).Draw(t, "buckets")
		interval := time.Duration(rapid.Int64Range(1, 1_000_000).Draw(t, "interval"))
		_, err := New(buckets, interval, noBucket)
		if interval%time.Duration(buckets) == 0 {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, ErrConfig)
		match := proposal.FindStringSubmatch(err.Error())
		require.NotNil(t, match, err)
		proposed, _ := strconv.Atoi(match[1])
		_, err = New(proposed, interval, noBucket)
		require.NoError(t, err)
		distance := max(proposed-buckets, buckets-proposed)
		for n := max(1, buckets-distance+1); n < buckets+distance; n++ {
			require.NotZero(t, interval%time.Duration(n), "%d buckets would be closer than %d", n, proposed)
		}
	})
}

func TestNew_SentinelsConfigurations(t *testing.T) {
	t.Parallel()
	a, err := New(20, 10_000*time.Millisecond, noBucket)
	require.NoError(t, err)
	require.Len(t, a.slots, 20)
	require.Equal(t, 500*time.Millisecond, a.Length())
	require.EqualValues(t, 10*time.Second, a.interval())

	_, err = New(30, 10_000*time.Nanosecond, noBucket)
	require.ErrorIs(t, err, ErrConfig)
	_, err = New(0, 10_000*time.Millisecond, noBucket)
	require.ErrorIs(t, err, ErrConfig)
	_, err = New[int64](20, 10_000*time.Millisecond, nil)
	require.ErrorIs(t, err, ErrConfig)
}

func TestNew_LargestRing(t *testing.T) {
	t.Parallel()
	a := startRing(t, MaxBuckets, MaxBuckets)
	for now := range int64(MaxBuckets + 10) {
		require.Equal(t, now, a.Current(now).Start())
	}
	require.Len(t, live(a, MaxBuckets+9), MaxBuckets)
	require.EqualValues(t, 10, a.Oldest(MaxBuckets+9).Start())
}

func TestCurrent_StartAndIndex(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	const created = 1_596_199_310_000 * ms
	a := startRing(t, 20, 10*time.Second)

	w := a.Current(created)
	require.Equal(t, created, w.Start())
	require.Equal(t, 0, a.index(w.start))

	w = a.Current(created + 801*ms)
	require.Equal(t, created+500*ms, w.Start())
	require.Equal(t, 1, a.index(w.start))
	require.Equal(t, created+500*ms, *w.Value())
}

func TestCurrent_SameBucketUntilItEnds(t *testing.T) {
	t.Parallel()
	type counts struct{ pass, block int }
	const ms = int64(time.Millisecond)
	a, err := New(2, 2000*time.Millisecond, func(*counts, int64, *WindowWrap[counts]) {})
	require.NoError(t, err)
	require.Equal(t, time.Second, a.Length())

	const at = 1_596_199_310_437 * ms
	w := a.Current(at)
	start := at - at%(1000*ms)
	require.Equal(t, start, w.Start())
	require.Equal(t, counts{}, *w.Value())

	a.Current(start).Value().pass++
	a.Current(start).Value().block++
	require.Same(t, w, a.Current(start+500*ms))
	a.Current(start+500*ms).Value().pass++
	require.Equal(t, counts{pass: 2, block: 1}, *w.Value())

	next := a.Current(start + 1000*ms)
	require.NotSame(t, w, next)
	require.Equal(t, start+1000*ms, next.Start())
	require.Equal(t, counts{}, *next.Value())
	require.Equal(t, counts{pass: 2, block: 1}, *w.Value(), "a holder of the old bucket holds it whole")
}

// The constructor lets nobody through before all have asked for the
// bucket, so that each of them makes one.
func TestCurrent_SixteenOpenOneBucketTogether(t *testing.T) {
	t.Parallel()
	const threads = 16
	var made atomic.Int64
	var all sync.WaitGroup
	all.Add(threads)
	a, err := New(2, 2*time.Second, func(*atomic.Int64, int64, *WindowWrap[atomic.Int64]) {
		made.Add(1)
		all.Done()
		all.Wait()
	})
	require.NoError(t, err)

	var wg sync.WaitGroup
	got := make([]*WindowWrap[atomic.Int64], threads)
	for i := range got {
		wg.Go(func() {
			got[i] = a.Current(700)
			got[i].Value().Add(1)
		})
	}
	wg.Wait()
	require.EqualValues(t, threads, made.Load(), "buckets made, of which one is published")
	for _, w := range got {
		require.Same(t, got[0], w)
	}
	require.EqualValues(t, threads, got[0].Value().Load())
	require.Equal(t, []int64{0}, live(a, 700))
}

func TestLive_ValuesThroughTheWindow(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	a, err := New(2, time.Second, func(*int, int64, *WindowWrap[int]) {})
	require.NoError(t, err)
	sum := func(now int64) (sum int) {
		for w := range a.Live(now) {
			sum += *w.Value()
		}
		return sum
	}
	require.Equal(t, 0, sum(0))
	*a.Current(0).Value() += 5
	*a.Current(500 * ms).Value() += 3
	require.Equal(t, 8, sum(999*ms))
	require.Equal(t, 3, sum(1000*ms))
	require.Equal(t, 3, sum(1499*ms))
	require.Equal(t, 0, sum(1500*ms))
}

func TestLive_BucketExactlyOneIntervalOldIsOut(t *testing.T) {
	t.Parallel()
	a := startRing(t, 4, 40)
	for _, now := range []int64{0, 10, 20, 30} {
		a.Current(now)
	}
	for _, c := range []struct {
		now  int64
		want []int64
	}{
		{30, []int64{0, 10, 20, 30}},
		{39, []int64{0, 10, 20, 30}},
		{40, []int64{10, 20, 30}},
		{49, []int64{10, 20, 30}},
		{50, []int64{20, 30}},
		{69, []int64{30}},
		{70, []int64{}},
		{1000, []int64{}},
	} {
		require.Equal(t, c.want, live(a, c.now), "at %d", c.now)
		start, ok := oldest(a, c.now)
		require.Equal(t, len(c.want) > 0, ok, "at %d", c.now)
		if ok {
			require.Equal(t, c.want[0], start, "at %d", c.now)
		}
	}
	require.EqualValues(t, 30, a.Newest().Start(), "looking opens nothing")
}

func TestLive_EmptyRing(t *testing.T) {
	t.Parallel()
	a := startRing(t, 4, 40)
	require.Nil(t, a.Newest())
	require.Nil(t, a.Oldest(0))
	require.Empty(t, live(a, 0))
	a.Trim(0)
	require.Nil(t, a.Newest())
}

func TestLive_LoopLeftEarly(t *testing.T) {
	t.Parallel()
	a := startRing(t, 4, 40)
	for _, now := range []int64{0, 10, 20, 30} {
		a.Current(now)
	}
	for leave := range int64(4) {
		seen := []int64{}
		for w := range a.Live(30) {
			seen = append(seen, w.Start())
			if w.Start() == leave*10 {
				break
			}
		}
		require.Equal(t, []int64{0, 10, 20, 30}[:leave+1], seen)
	}
}

func TestRing_OneBucket(t *testing.T) {
	t.Parallel()
	a := startRing(t, 1, 10)
	w := a.Current(5)
	require.Same(t, w, a.Current(9))
	require.Equal(t, []int64{0}, live(a, 9))
	require.Empty(t, live(a, 10))
	require.EqualValues(t, 10, a.Current(10).Start())
	require.Equal(t, []int64{10}, live(a, 10))
	require.Equal(t, []int64{10}, live(a, 0))
}

func TestRing_TimeGoesBack(t *testing.T) {
	t.Parallel()
	a := startRing(t, 4, 40)
	a.Current(0)
	a.Current(20)
	newest := a.Current(100)
	a.Current(90)
	for _, older := range []int64{99, 90, 60, 20, 0, -1, -1000, -1 << 62} {
		require.Same(t, newest, a.Current(older), "at %d", older)
		require.Equal(t, []int64{100}, live(a, older), "at %d", older)
		require.Same(t, newest, a.Oldest(older), "at %d", older)
		a.Trim(older)
		require.Same(t, newest, a.Newest(), "at %d", older)
	}
	a.Current(125)
	require.Equal(t, []int64{100, 120}, live(a, 30), "an older now is taken for the time of the newest bucket")
	start, _ := oldest(a, 30)
	require.EqualValues(t, 100, start)
}

func TestRing_NegativeTimes(t *testing.T) {
	t.Parallel()
	a := startRing(t, 4, 40)
	for _, c := range []struct{ now, start int64 }{{-41, -50}, {-40, -40}, {-21, -30}, {-10, -10}, {-1, -10}, {0, 0}, {9, 0}, {10, 10}} {
		require.Equal(t, c.start, a.Current(c.now).Start(), "at %d", c.now)
	}
	require.Equal(t, []int64{-10, 0, 10}, live(a, 19))
	require.Equal(t, []int64{0, 10}, live(a, 39))

	b := startRing(t, 3, 30)
	for now := int64(-100); now < -60; now++ {
		b.Current(now)
	}
	require.Equal(t, []int64{-90, -80, -70}, live(b, -61))
	require.Equal(t, []int64{-80, -70}, live(b, -60))
	require.Empty(t, live(b, -40))
}

func TestRing_SkippedSpansHaveNoBucket(t *testing.T) {
	t.Parallel()
	a := startRing(t, 5, 50)
	a.Current(0)
	a.Current(35)
	require.Equal(t, []int64{0, 30}, live(a, 49))
	require.Equal(t, []int64{30}, live(a, 50))
	a.Current(62)
	require.Equal(t, []int64{30, 60}, live(a, 62))
	a.Current(1_000_000)
	require.Equal(t, []int64{1_000_000}, live(a, 1_000_000), "what is left in the slots is out of date")
}

// Times so far apart that their difference does not fit into 64 bits are not
// mixed up, and nothing panics.
func TestRing_ExtremeTimes(t *testing.T) {
	t.Parallel()
	const far = int64(1) << 62
	extremes := []int64{0, 1, -1}
	for _, at := range []int64{far, -far, math.MaxInt64, math.MinInt64} {
		for d := range int64(3) {
			extremes = append(extremes, at+d-1, at+d*7, at-d*7)
		}
	}
	for _, buckets := range []int{1, 3, 10} {
		for _, interval := range []time.Duration{30, 30 * time.Hour, math.MaxInt64 / 30 * 30} {
			for _, first := range extremes {
				for _, then := range extremes {
					a := startRing(t, buckets, interval)
					a.Current(first)
					for range 2 {
						a.Oldest(then)
						live(a, then)
						a.Trim(then)
						w := a.Current(then)
						require.Same(t, w, a.Newest())
						require.LessOrEqual(t, len(live(a, then)), buckets)
					}
				}
			}
		}
	}
}

func TestRing_FarPastAndFarFuture(t *testing.T) {
	t.Parallel()
	const far = int64(1) << 62 // is 4 more than a multiple of 10
	a := startRing(t, 3, 30)
	require.Equal(t, -far-6, a.Current(-far).Start())
	require.Equal(t, []int64{-far - 6}, live(a, -far))
	require.Empty(t, live(a, far), "2^63 ns later, which is not before")
	require.Empty(t, live(a, math.MaxInt64))
	require.Nil(t, a.Oldest(far))
	require.Equal(t, far-4, a.Current(far).Start())
	require.Equal(t, []int64{far - 4}, live(a, far))
	require.Equal(t, []int64{far - 4}, live(a, -far), "an older now, 2^63 ns before")
	require.Equal(t, int64(math.MaxInt64-7), a.Current(math.MaxInt64).Start())
	require.Equal(t, []int64{math.MaxInt64 - 7}, live(a, math.MaxInt64))
}

// The bucket of a now right after math.MinInt64 would begin before it. It must not
// come out at the other end of time: the ring would stay there for ever.
func TestRing_BeginningOfTimeDoesNotWrapRound(t *testing.T) {
	t.Parallel()
	a := startRing(t, 3, 30)
	newest := a.Current(1000)
	require.Same(t, newest, a.Current(math.MinInt64), "an older now gets the newest")
	require.Same(t, newest, a.Newest())

	b := startRing(t, 3, 30)
	require.Negative(t, b.Current(math.MinInt64).Start())
	require.EqualValues(t, 1000, b.Current(1000).Start())
}

func TestCovers_Edges(t *testing.T) {
	t.Parallel()
	w := startRing(t, 4, 40).Current(25)
	for now, want := range map[int64]bool{
		19: false, 20: true, 25: true, 29: true, 30: false,
		-20: false, math.MaxInt64: false, math.MinInt64: false,
	} {
		require.Equal(t, want, w.Covers(now), "at %d", now)
	}
	n := startRing(t, 4, 40).Current(-25)
	for now, want := range map[int64]bool{-31: false, -30: true, -21: true, -20: false, 0: false, 25: false} {
		require.Equal(t, want, n.Covers(now), "at %d", now)
	}
}

func TestCovers_NoBucket(t *testing.T) {
	t.Parallel()
	var none *WindowWrap[int]
	for _, now := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		require.False(t, none.Covers(now), "at %d", now)
	}
}

func TestConstructor_GetsTheNewestBefore(t *testing.T) {
	t.Parallel()
	type call struct {
		start int64
		prev  *WindowWrap[int]
	}
	var calls []call
	a, err := New(3, 30, func(_ *int, start int64, prev *WindowWrap[int]) {
		calls = append(calls, call{start, prev})
	})
	require.NoError(t, err)
	first := a.Current(5)
	second := a.Current(10)
	a.Current(15)
	a.Current(3)
	third := a.Current(1000)
	a.Current(1005)
	require.Equal(t, []call{{0, nil}, {10, first}, {1000, second}}, calls)
	require.Same(t, third, a.Newest())
}

// A constructor may look at the ring. What it sees is the ring without its bucket.
func TestConstructor_ReadsTheRing(t *testing.T) {
	t.Parallel()
	var a *LeapArray[[]int64]
	a, err := New(3, 30, func(seen *[]int64, start int64, prev *WindowWrap[[]int64]) {
		*seen = live(a, start)
	})
	require.NoError(t, err)
	require.Equal(t, []int64{}, *a.Current(0).Value())
	require.Equal(t, []int64{0}, *a.Current(10).Value())
	require.Equal(t, []int64{0, 10}, *a.Current(20).Value())
	require.Equal(t, []int64{10, 20}, *a.Current(30).Value())
	require.Equal(t, []int64{30}, *a.Current(50).Value())
}

// One goroutine is about to open bucket 10 when another opens bucket 20. Bucket 10
// was skipped then: it must not come up any more, and the first gets bucket 20.
func TestCurrent_SkippedBucketIsNotFilledLate(t *testing.T) {
	t.Parallel()
	arrived, released := make(chan struct{}), make(chan struct{})
	var madeTen atomic.Int64
	a, err := New(4, 40, func(value *int64, start int64, prev *WindowWrap[int64]) {
		if start == 10 {
			madeTen.Add(1)
			close(arrived)
			<-released
		}
		*value = start
	})
	require.NoError(t, err)
	a.Current(0)

	late := make(chan *WindowWrap[int64])
	go func() { late <- a.Current(10) }()
	<-arrived
	twenty := a.Current(20)
	require.EqualValues(t, 20, twenty.Start())
	require.Equal(t, []int64{0, 20}, live(a, 20))
	close(released)

	require.Same(t, twenty, <-late)
	require.Same(t, twenty, a.Newest())
	require.EqualValues(t, 1, madeTen.Load())
	for _, now := range []int64{10, 15, 20, 29, 30, 39} {
		require.Equal(t, []int64{0, 20}, live(a, now), "at %d", now)
	}
	a.Current(30)
	require.Equal(t, []int64{0, 20, 30}, live(a, 30))
	for i := range a.slots {
		if w := a.slots[i].Load(); w != nil {
			require.NotEqualValues(t, 10, w.Start())
		}
	}
}

// Two goroutines open bucket 10, which both have made. The first to publish wins,
// although the other began before it.
func TestCurrent_LateTwinIsDropped(t *testing.T) {
	t.Parallel()
	arrived, released := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	a, err := New(4, 40, func(value *string, start int64, prev *WindowWrap[string]) {
		*value = "second"
		if start == 10 && calls.Add(1) == 1 {
			close(arrived)
			<-released
			*value = "first"
		}
	})
	require.NoError(t, err)
	a.Current(0)
	late := make(chan *WindowWrap[string])
	go func() { late <- a.Current(10) }()
	<-arrived
	winner := a.Current(10)
	close(released)
	require.Same(t, winner, <-late)
	require.Equal(t, "second", *winner.Value())
	require.EqualValues(t, 2, calls.Load())
	require.Equal(t, []int64{0, 10}, live(a, 10))
}

// One goroutine is about to open bucket 10, and others open the buckets after it
// until the slot of 10 is in use again. Coming late, it must not take the slot.
func TestCurrent_LateBucketDoesNotTakeASlotInUse(t *testing.T) {
	t.Parallel()
	arrived, released := make(chan struct{}), make(chan struct{})
	a, err := New(3, 30, func(value *int64, start int64, prev *WindowWrap[int64]) {
		if start == 10 {
			close(arrived)
			<-released
		}
		*value = start
	})
	require.NoError(t, err)
	a.Current(0)
	late := make(chan *WindowWrap[int64])
	go func() { late <- a.Current(10) }()
	<-arrived
	for now := int64(20); now <= 50; now += 10 {
		a.Current(now)
	}
	close(released)
	require.EqualValues(t, 50, (<-late).Start())
	require.Equal(t, []int64{30, 40, 50}, live(a, 50))
}

// An opener is suspended right after it published its bucket, before that is in its
// slot. The next to open a bucket puts it there first.
func TestCurrent_OpenerHeldUpBeforeTheSlotIsFilled(t *testing.T) {
	t.Parallel()
	a := startRing(t, 3, 30)
	a.Current(0)
	ten := &WindowWrap[int64]{start: 10, length: 10}
	require.True(t, a.current.CompareAndSwap(a.Newest(), ten))
	require.Equal(t, []int64{0, 10}, live(a, 10), "the newest need not be in its slot")
	require.Same(t, ten, a.Current(15))
	a.Current(20)
	require.Equal(t, []int64{0, 10, 20}, live(a, 20))

	// It goes on when its bucket is in its slot, and when a newer one is.
	a.settle(ten)
	require.Equal(t, []int64{0, 10, 20}, live(a, 20))
	a.Current(30)
	a.Current(40)
	require.Equal(t, a.index(10), a.index(40))
	a.settle(ten)
	require.Equal(t, []int64{20, 30, 40}, live(a, 40))
	a.Current(50)
	a.settle(ten)
	require.Equal(t, []int64{30, 40, 50}, live(a, 50))
}

// big is large enough not to share its memory with anything else.
type big [64 << 10]byte

func TestTrim_LetsGoOfWhatIsNotLive(t *testing.T) {
	t.Parallel()
	a, err := New(4, 40, func(*big, int64, *WindowWrap[big]) {})
	require.NoError(t, err)
	var values [4]weak.Pointer[big]
	for i := range values {
		values[i] = weak.Make(a.Current(int64(i) * 10).Value())
	}
	kept := func() (kept []int) {
		runtime.GC()
		for i, v := range values {
			if v.Value() != nil {
				kept = append(kept, i)
			}
		}
		return kept
	}
	require.Equal(t, []int{0, 1, 2, 3}, kept())
	a.Trim(39)
	require.Equal(t, []int{0, 1, 2, 3}, kept(), "all are live")
	a.Trim(-1000)
	require.Equal(t, []int{0, 1, 2, 3}, kept(), "an older now")
	require.Empty(t, live(a, 1000))
	require.Equal(t, []int{0, 1, 2, 3}, kept(), "not live, but in the slots")
	a.Trim(55)
	require.Equal(t, []int{2, 3}, kept())
	require.Equal(t, []int64{20, 30}, live(a, 55))
	a.Trim(1000)
	require.Equal(t, []int{3}, kept(), "the newest stays")
	require.EqualValues(t, 30, a.Newest().Start())
	a.Current(1000)
	require.Equal(t, []int{3}, kept())
	a.Trim(0)
	require.Empty(t, kept(), "an older now is taken for the time of the newest bucket")
	runtime.KeepAlive(a)
}

// A goroutine opens bucket after bucket, so it knows which must be live, while
// others trim. If Trim took a bucket for the one that was in its slot before, or
// emptied the slot of one that just came, one would be missing.
func TestTrim_HammerNewBucketsStay(t *testing.T) {
	t.Parallel()
	const buckets, rotations = 4, 100_000
	a := startRing(t, buckets, buckets*10)
	var clock atomic.Int64
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for !done.Load() {
				a.Trim(clock.Load() - int64(i)*10)
				runtime.Gosched()
			}
		})
	}
	for i := range int64(rotations) {
		now := i * 10
		a.Current(now)
		clock.Store(now)
		if i < buckets {
			continue
		}
		next := now - (buckets-1)*10
		for w := range a.Live(now) {
			if w.Start() != next {
				t.Errorf("at %d: live bucket %d, want %d", now, w.Start(), next)
			}
			next += 10
		}
		if next != now+10 {
			t.Errorf("at %d: %d is not live", now, next)
		}
		if t.Failed() {
			break
		}
	}
	done.Store(true)
	wg.Wait()
}

// chained is a bucket's value that knows what was opened before.
type chained struct {
	start int64
	prev  *WindowWrap[chained]
}

// Many goroutines jump about in time, forth and back, and trim now and then. The
// published buckets must form one chain of rising starts, each of which was once
// the newest; whatever anybody gets must be of that chain; and a window must be
// in order, without doubles, and in its range.
func TestRing_HammerRandomJumps(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, buckets, length = 8, 15_000, 5, 10
	a, err := New(buckets, buckets*length, func(value *chained, start int64, prev *WindowWrap[chained]) {
		*value = chained{start, prev}
	})
	require.NoError(t, err)

	var clock atomic.Int64
	var wg sync.WaitGroup
	seen := make([]map[*WindowWrap[chained]]struct{}, goroutines)
	for g := range goroutines {
		seen[g] = make(map[*WindowWrap[chained]]struct{})
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			lastNewest := int64(math.MinInt64)
			for range rounds {
				now := clock.Load()
				switch random.IntN(8) {
				case 0:
					now = clock.Add(random.Int64N(length * 2))
				case 1:
					now = clock.Add(random.Int64N(length * buckets * 2))
				case 2, 3:
					now -= random.Int64N(length * buckets * 2)
				case 4:
					now += random.Int64N(length)
				}
				w := a.Current(now)
				seen[g][w] = struct{}{}
				if w.Start() < a.align(now) {
					t.Errorf("Current(%d) is bucket %d", now, w.Start())
				}
				if w.Start() < lastNewest {
					t.Errorf("Current(%d) is bucket %d, but %d was opened before", now, w.Start(), lastNewest)
				}
				lastNewest = w.Start()

				last := int64(math.MinInt64)
				first := int64(math.MaxInt64)
				for w := range a.Live(now) {
					seen[g][w] = struct{}{}
					if w.Start() <= last {
						t.Errorf("Live(%d): %d after %d", now, w.Start(), last)
					}
					if w.Start() != w.Value().start {
						t.Errorf("bucket %d has the value of bucket %d", w.Start(), w.Value().start)
					}
					first, last = min(first, w.Start()), w.Start()
				}
				if last-first >= buckets*length && last != math.MinInt64 {
					t.Errorf("Live(%d): from %d to %d", now, first, last)
				}
				if random.IntN(16) == 0 {
					a.Trim(now)
				}
			}
		})
	}
	wg.Wait()

	chain := make(map[*WindowWrap[chained]]struct{})
	for w := a.Newest(); w != nil; w = w.Value().prev {
		chain[w] = struct{}{}
		if prev := w.Value().prev; prev != nil && prev.Start() >= w.Start() {
			t.Fatalf("bucket %d was opened after bucket %d", w.Start(), prev.Start())
		}
	}
	for _, seen := range seen {
		for w := range seen {
			if _, ok := chain[w]; !ok {
				t.Fatalf("bucket %d was given out and is not among the published ones", w.Start())
			}
		}
	}
	require.Greater(t, len(chain), rounds/10, "buckets opened")
}

// Several goroutines open bucket after bucket, so none is skipped. None may be
// missing from a window afterwards: each was the newest once, and its slot must
// have been filled before the next was opened, by whomever.
func TestRing_HammerEveryBucketReachesItsSlot(t *testing.T) {
	t.Parallel()
	const openers, readers, rotations, buckets = 4, 2, 50_000, 3
	a := startRing(t, buckets, buckets*10)
	var wg sync.WaitGroup
	for range openers {
		wg.Go(func() {
			for i := range int64(rotations) {
				a.Current(i * 10)
			}
		})
	}
	for range readers {
		wg.Go(func() {
			for seen := int64(0); seen < rotations-1; {
				newest := a.Newest()
				if newest == nil {
					runtime.Gosched()
					continue
				}
				seen = newest.Start() / 10
				starts := live(a, newest.Start())
				if a.Newest() == newest && len(starts) != min(int(seen)+1, buckets) {
					t.Errorf("when %d was the newest, %v were live", newest.Start(), starts)
					return
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int64{rotations*10 - 30, rotations*10 - 20, rotations*10 - 10}, live(a, rotations*10-1))
}

func TestRing_AllocatesOnlyToOpen(t *testing.T) {
	a := startRing(t, 10, 100)
	for now := range int64(100) {
		a.Current(now)
	}
	var sink int64
	for name, f := range map[string]func(){
		"Current":              func() { sink += a.Current(95).Start() },
		"Current of older now": func() { sink += a.Current(5).Start() },
		"Newest":               func() { sink += a.Newest().Start() },
		"Oldest":               func() { sink += a.Oldest(95).Start() },
		"Trim":                 func() { a.Trim(95) },
		"Live": func() {
			for w := range a.Live(95) {
				sink += w.Start()
			}
		},
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	now := int64(100)
	// The wrap, in which the value lies.
	require.EqualValues(t, 1, testing.AllocsPerRun(100, func() { now += 10; a.Current(now) }))
}

// The naive ring is a list of what was opened, in order.
type naiveRing struct {
	buckets, length int64
	opened          []int64
}

func (n *naiveRing) align(now int64) int64 {
	for ; now%n.length != 0; now-- {
	}
	return now
}

func (n *naiveRing) newest() int64 { return n.opened[len(n.opened)-1] }

func (n *naiveRing) current(now int64) int64 {
	if start := n.align(now); len(n.opened) == 0 || start > n.newest() {
		n.opened = append(n.opened, start)
	}
	return n.newest()
}

func (n *naiveRing) live(now int64) []int64 {
	if len(n.opened) == 0 {
		return []int64{}
	}
	end := max(n.align(now), n.newest())
	starts := []int64{}
	for _, start := range n.opened {
		if start > end-n.buckets*n.length && start <= end {
			starts = append(starts, start)
		}
	}
	return starts
}

// trim forgets what is not live at now: a reader with an older now may miss it.
func (n *naiveRing) trim(now int64) {
	if len(n.opened) == 0 {
		return
	}
	live, newest := n.live(now), n.newest()
	n.opened = slices.DeleteFunc(n.opened, func(start int64) bool {
		return start != newest && !slices.Contains(live, start)
	})
}

func TestRing_AgreesWithANaiveOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		model := &naiveRing{
			buckets: rapid.Int64Range(1, 6).Draw(t, "buckets"),
			length:  rapid.Int64Range(1, 12).Draw(t, "length"),
		}
		var previous *int64 // what the constructor was given
		a, err := New(int(model.buckets), time.Duration(model.buckets*model.length),
			func(value *int64, start int64, prev *WindowWrap[int64]) {
				previous = nil
				if prev != nil {
					previous = prev.Value()
				}
				*value = start
			})
		require.NoError(t, err)
		interval := model.buckets * model.length
		clock := rapid.Int64Range(-100, 100).Draw(t, "clock")
		step := rapid.OneOf(
			rapid.Int64Range(0, model.length),
			rapid.Int64Range(-interval, interval),
			rapid.Int64Range(0, 3*interval),
		)
		t.Repeat(map[string]func(*rapid.T){
			"current": func(t *rapid.T) {
				clock += step.Draw(t, "step")
				before := slices.Clone(model.opened)
				want := model.current(clock)
				w := a.Current(clock)
				require.Equal(t, want, w.Start())
				require.Equal(t, want, *w.Value())
				require.Equal(t, clock < want+model.length && clock >= want, w.Covers(clock))
				if len(model.opened) > len(before) {
					if len(before) == 0 {
						require.Nil(t, previous)
					} else {
						require.Equal(t, before[len(before)-1], *previous)
					}
				}
			},
			"trim": func(t *rapid.T) {
				now := clock + step.Draw(t, "now")
				model.trim(now)
				a.Trim(now)
			},
			"": func(t *rapid.T) {
				for _, now := range []int64{clock, clock + step.Draw(t, "now")} {
					want := model.live(now)
					require.Equal(t, want, live(a, now), "live at %d of %v", now, model.opened)
					start, ok := oldest(a, now)
					require.Equal(t, len(want) > 0, ok)
					if ok {
						require.Equal(t, want[0], start)
					}
				}
				if len(model.opened) == 0 {
					require.Nil(t, a.Newest())
				} else {
					require.Equal(t, model.newest(), a.Newest().Start())
				}
			},
		})
	})
}

// Values of any type can be kept.
func TestRing_ValuesOfTheCallersType(t *testing.T) {
	t.Parallel()
	a, err := New(2, 20, func(s *string, start int64, prev *WindowWrap[string]) {
		*s = fmt.Sprint(start)
		if prev != nil {
			*s = *prev.Value() + " " + *s
		}
	})
	require.NoError(t, err)
	a.Current(0)
	a.Current(10)
	require.Equal(t, "0 10 20", *a.Current(20).Value())
}
