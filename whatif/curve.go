package whatif

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Curve contains the effects of limits per key, counted in windows of the clock.
type Curve struct {
	Window Duration `json:"window"`
	Total  int64    `json:"total"` // demand: requests, or their costs
	Keys   int      `json:"keys"`

	Windows Counts `json:"windows"` // the demand of a key in a window in which it was active
	Peaks   Counts `json:"peaks"`   // the demand of each key in its busiest window

	Points []Point `json:"points"` // about a dozen round limits in ascending order
	// Suggested is the smallest of 1, 2, 3 and 5 × 10ⁿ that is at least 1.2 × the 99th percentile of Peaks. Each key
	// counts once there: in all windows, the busiest keys would determine it. Its Limit is 0 if there are no keys.
	Suggested Point `json:"suggested"`
	// Warning says why the curve and the suggestion are not reliable. It is empty if they are.
	Warning string `json:"warning,omitempty"`

	windows, peaks []bin
}

// Point contains the effect of one limit.
type Point struct {
	Limit   int64   `json:"limit"`
	Blocked int64   `json:"blocked"` // of the demand
	Share   float64 `json:"share"`
	Keys    int     `json:"keys"` // with anything blocked
}

// At returns the effect of a limit.
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
	peaks := w.finish()
	c := Curve{Window: Duration(w.length), windows: w.closed.bins(), peaks: peaks.bins()}
	c.Windows, c.Peaks = countsOf(c.windows), countsOf(c.peaks)
	c.Total, _ = above(c.windows, 0)
	c.Keys = int(c.Peaks.N)
	if c.Keys == 0 {
		return c
	}
	suggested := int64(1)
	for suggested*5 < c.Peaks.P99*6 {
		suggested = nextRound(suggested)
	}
	c.Suggested = c.At(suggested)
	for _, limit := range c.roundLimits() {
		c.Points = append(c.Points, c.At(limit))
	}
	var warnings []string
	if c.Keys < fewKeys {
		warnings = append(warnings, fmt.Sprintf("The log has only %s: with fewer than %d, a few of them determine the suggestion.", many(c.Peaks.N, "key"), fewKeys))
	}
	if time.Duration(c.Window) < minSteps*resolution {
		warnings = append(warnings, tooCoarse(Duration(resolution), c.Window))
	}
	c.Warning = strings.Join(warnings, " ")
	return c
}

// roundLimits returns the limits to show: from 1, or from the median of Peaks, up to a limit that blocks nothing. They
// include the suggested limit.
func (c *Curve) roundLimits() (limits []int64) {
	for limit := int64(1); ; limit = nextRound(limit) {
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

// nextRound returns the next of 1, 2, 3 and 5 × 10ⁿ.
func nextRound(v int64) int64 {
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
