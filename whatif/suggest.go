package whatif

import (
	"context"
	"io"
	"time"
)

// SuggestConfig says for what a limit is wanted.
type SuggestConfig struct {
	// Windows are what the limits are for: 1 ms to 366 days each; none are 1 minute.
	Windows []time.Duration
}

// Suggestion is limits per key that would have bothered few.
type Suggestion struct {
	Train  Traffic          `json:"train"`
	Test   *Traffic         `json:"test,omitempty"`
	Limits []SuggestedLimit `json:"limits"` // one for each window
}

// SuggestedLimit is the limit for one window: the smallest of 1, 2, 3 and 5 × 10ⁿ that is at
// least 1.2 × the 99th percentile of the keys' busiest windows. Each key counts once there: of
// all windows, the heaviest keys would set it.
type SuggestedLimit struct {
	Limit int64 `json:"limit"`
	Curve Curve `json:"curve"` // of the requests that it comes from; its Suggested has the limit
	// Test is what it would have blocked of other requests; nil if there are none.
	Test    *Point `json:"test,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// Suggest finds a limit per key for each window, from the requests of train. If test is not
// nil, it says what that limit does to those.
func Suggest(ctx context.Context, cfg SuggestConfig, train, test Source) (*Suggestion, error) {
	return nil, nil
}

// WriteText writes the suggestion for people. It escapes what comes from the log.
func (s *Suggestion) WriteText(w io.Writer) error { return nil }
