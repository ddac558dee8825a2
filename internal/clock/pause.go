package clock

import (
	"runtime/debug"
	"time"
)

// LongestPause returns the longest time for which the garbage collector has stopped the program,
// of the pauses that ended within so much time before now; of the last 256.
func LongestPause(within time.Duration) (longest time.Duration) {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	since := time.Now().Add(-within)
	for i, end := range stats.PauseEnd { // the newest first
		if end.Before(since) {
			break
		}
		longest = max(longest, stats.Pause[i])
	}
	return longest
}
