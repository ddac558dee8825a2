package breaker

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// The model keeps every call in a list, with the bucket that it began in.
func TestHanging_CountsAsAListWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.Int64Range(1, 200).Draw(t, "after")
		h := newHanging(time.Duration(after))
		length := (after + 9) / 10
		type call struct{ start, bucket int64 }
		var inFlight []call
		var opened []int64
		now := rapid.Int64Range(-500, 500).Draw(t, "now")
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += rapid.Int64Range(0, after/2+1).Draw(t, "passes")
			switch {
			case len(inFlight) > 0 && rapid.Bool().Draw(t, "ends"):
				i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "which")
				h.end(inFlight[i].start)
				inFlight = append(inFlight[:i], inFlight[i+1:]...)
			default:
				start := now - rapid.Int64Range(0, 1).Draw(t, "late")*rapid.Int64Range(0, 2*after).Draw(t, "by")
				bucket := floor(start, length)
				h.turn(start)
				if len(opened) == 0 || bucket > opened[len(opened)-1] {
					opened = append(opened, bucket)
				}
				if !slices.Contains(opened, bucket) {
					h.begin(start) // see find: such a call is counted out of time, but not for good
					h.end(start)
					continue
				}
				h.begin(start)
				inFlight = append(inFlight, call{start, bucket})
			}
			want := int64(0)
			for _, c := range inFlight {
				if c.bucket < opened[len(opened)-1]-h.behind {
					want++
				}
			}
			require.Equal(t, want, h.overdue())
		}
	})
}

// The clock of a call may be behind, so that there is no bucket for it. It is counted, and taken
// off, all the same.
func TestHanging_CallThatIsBehindIsTakenOff(t *testing.T) {
	t.Parallel()
	for ends := range int64(40) {
		h := newHanging(10)
		h.turn(100)
		h.begin(95)
		h.turn(100 + ends)
		h.end(95)
		h.turn(200)
		require.Zero(t, h.overdue())
	}
}

func floor(n, length int64) int64 {
	r := n % length
	if r < 0 {
		r += length
	}
	return n - r
}

// Calls begin and end while buckets turn and leave: in the end none is overdue.
func TestHanging_HammerNoCallIsLostWhenItsBucketLeaves(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 8, 5_000
	h := newHanging(1000)
	clock := gatetest.ClockAt(0)
	gatetest.AtOnce(goroutines, func(id int) {
		random := rand.New(rand.NewPCG(1, uint64(id)))
		var held []int64
		for range calls {
			now := clock.Now()
			if random.IntN(50) == 0 {
				runtime.Gosched()
			}
			h.turn(now)
			h.begin(now)
			held = append(held, now)
			clock.Advance(time.Duration(random.Int64N(40)))
			if len(held) > 5 {
				h.end(held[0])
				held = held[1:]
			}
		}
		for _, start := range held {
			h.end(start)
		}
	})
	h.turn(clock.Now() + 1_000_000)
	require.Zero(t, h.overdue())
}

func TestHanging_AddingAllocatesNothing(t *testing.T) {
	h := newHanging(time.Second)
	for i := range int64(11) {
		h.turn(i * int64(100*time.Millisecond))
	}
	now := int64(1050 * time.Millisecond)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		h.turn(now)
		h.begin(now)
		h.end(now)
		h.begin(300)
		h.end(300)
		h.begin(-5)
	}))
}

// What calls count for is neither lost nor counted twice when buckets turn, and when the last of
// them is sealed at any moment.
func TestHanging_HammerKeepsWhatCallsCountFor(t *testing.T) {
	t.Parallel()
	const goroutines, calls, rounds = 8, 1_000, 20
	for range rounds {
		h := newHanging(1000)
		clock := gatetest.ClockAt(0)
		var counted, elsewhere, sealed atomic.Int64
		gatetest.AtOnce(goroutines, func(id int) {
			random := rand.New(rand.NewPCG(2, uint64(id)))
			for i := range calls {
				now, n := clock.Now(), random.Int64N(1<<20)
				h.turn(now)
				if tryBegin(h.ring.Newest(), now, n) {
					counted.Add(n)
					if random.IntN(2) == 0 {
						h.end(now)
					}
				} else {
					elsewhere.Add(1)
				}
				clock.Advance(time.Duration(random.Int64N(40)))
				if id == 0 && i == calls/2 {
					sealed.Store(h.close())
				}
			}
		})
		require.NotZero(t, elsewhere.Load())
		require.Equal(t, counted.Load(), sealed.Load())
		require.Equal(t, counted.Load(), h.sum().admitted)
	}
}

// More calls than the numbers of a word can hold: only those in flight matter.
func TestHanging_NumbersOfCallsWrap(t *testing.T) {
	t.Parallel()
	h := newHanging(10)
	h.turn(0)
	newest := h.ring.Newest().Value()
	newest.begins.Store(sealed - aCall)
	newest.ends.Store(sealed - 3*aCall)
	require.True(t, tryBegin(h.ring.Newest(), 0, 5))
	for range 5 {
		h.end(0)
	}
	require.True(t, tryBegin(h.ring.Newest(), 0, 1))
	require.True(t, tryBegin(h.ring.Newest(), 0, 1))
	require.EqualValues(t, 7, h.sum().admitted)
	h.turn(100)
	require.EqualValues(t, 0, h.overdue())
	h.begin(0)
	require.EqualValues(t, 1, h.overdue())
}
