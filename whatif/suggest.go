package whatif

import (
	"context"
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
	Limits []SuggestedLimit `json:"limits"` // one for each window, shortest first
	Notes  []string         `json:"notes,omitempty"`
}

// SuggestedLimit is the limit for one window.
type SuggestedLimit struct {
	Window Duration `json:"window"`
	Limit  int64    `json:"limit"` // 0: there is none, for want of keys
	Train  Curve    `json:"train"` // whose Suggested it is
	Test   *Point   `json:"test,omitempty"`
}

// Suggest finds a limit per key for each window, from the requests of train: Suggested of the
// [Curve]. If test is not nil, it says what that limit would have blocked there.
func Suggest(ctx context.Context, cfg SuggestConfig, train, test Source) (*Suggestion, error) {
	trained, err := Run(ctx, Config{Windows: cfg.Windows}, train)
	if err != nil {
		return nil, err
	}
	s := &Suggestion{Train: trained.Traffic, Notes: trained.Notes}
	for _, c := range trained.Curves {
		s.Limits = append(s.Limits, SuggestedLimit{Window: c.Window, Limit: c.Suggested.Limit, Train: c})
	}
	if test == nil {
		return s, nil
	}
	tested, err := Run(ctx, Config{Windows: cfg.Windows}, test)
	if err != nil {
		return nil, err
	}
	s.Test = &tested.Traffic
	for i := range s.Limits {
		point := tested.Curves[i].At(s.Limits[i].Limit)
		s.Limits[i].Test = &point
	}
	return s, nil
}
