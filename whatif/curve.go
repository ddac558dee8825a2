package whatif

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Curve is what a limit per key would have blocked, for every limit: each key is counted in
// windows of the clock. Make none; [Run] and [Suggest] do.
type Curve struct {
	Window Duration `json:"window"`
	Total  int64    `json:"total"` // what was wanted: requests, or their costs
	Keys   int      `json:"keys"`

	Windows Counts `json:"windows"` // what a key wanted in a window in which it wanted anything
	Peaks   Counts `json:"peaks"`   // what each key wanted in its busiest window

	Points []Point `json:"points"` // about a dozen round limits, rising
	// Suggested is the smallest of 1, 2, 3 and 5 × 10ⁿ that is at least 1.2 × the 99th
	// percentile of Peaks. Each key counts once there: of all windows, the heaviest keys would
	// set it. Its Limit is 0 if there are no keys.
	Suggested Point `json:"suggested"`
	// Warning says why the curve and the suggestion are not to be relied on; empty if nothing does.
	Warning string `json:"warning,omitempty"`

	windows, peaks []bin
}

// Point is what one limit would have blocked.
type Point struct {
	Limit   int64   `json:"limit"`
	Blocked int64   `json:"blocked"` // of all that was wanted
	Share   float64 `json:"share"`
	Keys    int     `json:"keys"` // that would have been refused anything
}

// At returns what a limit would have blocked: exactly, for all windows of the clock.
func (c *Curve) At(limit int64) Point {
	blocked, _ := above(c.windows, limit)
	_, keys := above(c.peaks, limit)
	return Point{limit, blocked, share(blocked, c.Total), int(keys)}
}

const (
	fewKeys   = 1000
	maxPoints = 12
)

func curveOf(w *windows, resolution time.Duration) Curve {
	w.finish()
	peaks := w.peaks()
	c := Curve{Window: Duration(w.length), windows: w.closed.bins(), peaks: peaks.bins()}
	c.Windows, c.Peaks = countsOf(c.windows), countsOf(c.peaks)
	c.Total, _ = above(c.windows, 0)
	c.Keys = int(c.Peaks.N)
	if c.Keys == 0 {
		return c
	}
	suggested := int64(1)
	for suggested*5 < c.Peaks.P99*6 {
		suggested = afterRound(suggested)
	}
	c.Suggested = c.At(suggested)
	for _, limit := range c.roundLimits() {
		c.Points = append(c.Points, c.At(limit))
	}
	var warnings []string
	if c.Keys < fewKeys {
		warnings = append(warnings, fmt.Sprintf("It is of only %s: with fewer than %d, a few of them decide what the busiest are like.", many(c.Peaks.N, "key"), fewKeys))
	}
	if time.Duration(c.Window) < fewSteps*resolution {
		warnings = append(warnings, tooCoarse(Duration(resolution), c.Window)+".")
	}
	c.Warning = strings.Join(warnings, " ")
	return c
}

// roundLimits returns the limits to show: from 1, or from what half of the keys never exceed, up
// to one that blocks nothing, the suggested one among them.
func (c *Curve) roundLimits() (limits []int64) {
	for limit := int64(1); ; limit = afterRound(limit) {
		limits = append(limits, limit)
		if limit >= max(c.Peaks.Max, c.Suggested.Limit) {
			break
		}
	}
	for len(limits) > maxPoints && limits[1] <= c.Peaks.P50 {
		limits = limits[1:]
	}
	if last := len(limits) - 1; last >= maxPoints {
		some := []int64{c.Suggested.Limit}
		for i := range maxPoints {
			some = append(some, limits[i*last/(maxPoints-1)])
		}
		slices.Sort(some)
		limits = slices.Compact(some)
	}
	return limits
}

// afterRound is the next of 1, 2, 3 and 5 × 10ⁿ.
func afterRound(v int64) int64 {
	of := int64(1)
	for v >= 10*of {
		of *= 10
	}
	switch v / of {
	case 1:
		return 2 * of
	case 2:
		return 3 * of
	case 3:
		return 5 * of
	default:
		return 10 * of
	}
}
