package whatif

// Curve is what a limit per key would have blocked, for every limit: each key is counted in
// windows of the clock. Make none; [Run] and [Suggest] do.
type Curve struct {
	Window Duration `json:"window"`
	Total  int64    `json:"total"` // what was wanted: requests, or their costs
	Keys   int      `json:"keys"`

	Windows Counts `json:"windows"` // what a key wanted in a window in which it wanted anything
	Peaks   Counts `json:"peaks"`   // what each key wanted in its busiest window

	Points    []Point `json:"points"` // about a dozen round limits, rising
	Suggested Point   `json:"suggested"`
	// Warning says why the suggestion is not to be relied on; empty if nothing does.
	Warning string `json:"warning,omitempty"`
}

// Point is what one limit would have blocked.
type Point struct {
	Limit   int64   `json:"limit"`
	Blocked int64   `json:"blocked"` // of all that was wanted
	Share   float64 `json:"share"`
	Keys    int     `json:"keys"` // that would have been refused anything
}

// At returns what a limit would have blocked: exactly, for all windows of the clock.
func (c *Curve) At(limit int64) Point { return Point{} }
