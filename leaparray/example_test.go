package leaparray_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/leaparray"
)

// The largest payload of the last second, in tenths of a second.
func Example() {
	ring, err := leaparray.New(10, time.Second, func(int64, *leaparray.WindowWrap[atomic.Int64]) *atomic.Int64 {
		return new(atomic.Int64)
	})
	if err != nil {
		panic(err)
	}
	saw := func(at time.Duration, size int64) {
		largest := ring.Current(int64(at)).Value()
		for old := largest.Load(); size > old && !largest.CompareAndSwap(old, size); old = largest.Load() {
		}
	}
	saw(0, 900)
	saw(250*time.Millisecond, 400)
	saw(270*time.Millisecond, 300)
	saw(980*time.Millisecond, 500)

	for w := range ring.Live(int64(1050 * time.Millisecond)) {
		fmt.Println(time.Duration(w.Start()), w.Value().Load())
	}
	// Output:
	// 200ms 400
	// 900ms 500
}

func ExampleNew() {
	_, err := leaparray.New(30, 10*time.Microsecond, func(int64, *leaparray.WindowWrap[int]) *int { return new(int) })
	fmt.Println(err)
	// Output:
	// leaparray: bad configuration: interval 10µs does not divide by 30 buckets; 25 buckets would do
}
