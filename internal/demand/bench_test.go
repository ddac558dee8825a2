package demand

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkRefused is what an answer costs.
func BenchmarkRefused(b *testing.B) {
	for _, calls := range []int64{5, 60, 390, 100_000} {
		for _, w := range []Window{{time.Second, 10, false}, {time.Second, 1000, true}} {
			b.Run(fmt.Sprintf("%d/%v", calls, w), func(b *testing.B) {
				c := Calls{PerSecond: slices.Repeat([]int64{calls, calls + calls/2, calls - calls/2}, 1200)}
				for b.Loop() {
					Refused(c, w, calls)
				}
			})
		}
	}
}
