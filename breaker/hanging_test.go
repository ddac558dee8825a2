package breaker

import (
	"math/rand/v2"
	"runtime"
	"slices"
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
				h.add(inFlight[i].start, -1)
				inFlight = append(inFlight[:i], inFlight[i+1:]...)
			default:
				start := now - rapid.Int64Range(0, 1).Draw(t, "late")*rapid.Int64Range(0, 2*after).Draw(t, "by")
				bucket := floor(start, length)
				h.turn(start)
				if len(opened) == 0 || bucket > opened[len(opened)-1] {
					opened = append(opened, bucket)
				}
				if !slices.Contains(opened, bucket) {
					h.add(start, 1) // see find: such a call is counted out of time, but not for good
					h.add(start, -1)
					continue
				}
				h.add(start, 1)
				inFlight = append(inFlight, call{start, bucket})
			}
			want := int64(0)
			for _, c := range inFlight {
				if c.bucket < opened[len(opened)-1]-h.behind {
					want++
				}
			}
			require.Equal(t, want, h.overdue.Load())
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
		h.add(95, 1)
		h.turn(100 + ends)
		h.add(95, -1)
		h.turn(200)
		require.Zero(t, h.overdue.Load())
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
			h.add(now, 1)
			held = append(held, now)
			clock.Advance(time.Duration(random.Int64N(40)))
			if len(held) > 5 {
				h.add(held[0], -1)
				held = held[1:]
			}
		}
		for _, start := range held {
			h.add(start, -1)
		}
	})
	h.turn(clock.Now() + 1_000_000)
	require.Zero(t, h.overdue.Load())
}

func TestHanging_AddingAllocatesNothing(t *testing.T) {
	h := newHanging(time.Second)
	for i := range int64(11) {
		h.turn(i * int64(100*time.Millisecond))
	}
	now := int64(1050 * time.Millisecond)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		h.turn(now)
		h.add(now, 1)
		h.add(now, -1)
		h.add(300, 1)
		h.add(300, -1)
		h.add(-5, 1)
	}))
}
