package leaparray_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate/leaparray"
)

// payloads is what is kept of a tenth of a second. Many goroutines change it at once.
type payloads struct {
	bytes, largest atomic.Int64
}

// A ring with buckets of one's own: the payloads of the last second, in tenths of a second.
func Example() {
	ring, err := leaparray.New(10, time.Second, func(*payloads, int64, *leaparray.WindowWrap[payloads]) {
		// The zero value is a good one.
	})
	if err != nil {
		panic(err)
	}
	saw := func(at time.Duration, size int64) {
		tenth := ring.Current(int64(at)).Value()
		tenth.bytes.Add(size)
		for old := tenth.largest.Load(); size > old && !tenth.largest.CompareAndSwap(old, size); old = tenth.largest.Load() {
		}
	}
	saw(0, 900)
	saw(250*time.Millisecond, 400)
	saw(270*time.Millisecond, 300)
	saw(980*time.Millisecond, 500)

	for w := range ring.Live(int64(1050 * time.Millisecond)) {
		fmt.Println(time.Duration(w.Start()), w.Value().bytes.Load(), w.Value().largest.Load())
	}
	// Output:
	// 200ms 700 400
	// 900ms 500 500
}

func ExampleNew() {
	_, err := leaparray.New(30, 10*time.Microsecond, func(*int, int64, *leaparray.WindowWrap[int]) {})
	fmt.Println(err)
	// Output:
	// leaparray: bad configuration: interval 10µs does not divide by 30 buckets; 25 buckets would do
}
