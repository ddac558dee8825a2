package whatif

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// SuggestConfig says for what a limit is wanted.
type SuggestConfig struct {
	// Windows are what the limits are for: 1 ms to 366 days each; none are 1 minute.
	Windows []time.Duration
	// Resolution is how exact the times of the requests are, as in [Config]: curves of windows
	// that are too short for it have a warning.
	Resolution time.Duration
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
	Limit  int64    `json:"limit"`          // 0: there is none, for want of keys
	Train  Curve    `json:"train"`          // whose Suggested it is
	Test   *Point   `json:"test,omitempty"` // nil if there is no limit
}

// Suggest finds a limit per key for each window, from the requests of train: Suggested of the
// [Curve]. If test is not nil, it says what that limit would have blocked there.
// Without requests in either there is an error.
func Suggest(ctx context.Context, cfg SuggestConfig, train, test Source) (*Suggestion, error) {
	terms := Config{Windows: cfg.Windows, Resolution: cfg.Resolution, OnePlacement: true}
	trained, err := runSome(ctx, terms, train, "train")
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
	tested, err := runSome(ctx, terms, test, "test")
	if err != nil {
		return nil, err
	}
	s.Test = &tested.Traffic
	for i := range s.Limits {
		if l := &s.Limits[i]; l.Limit > 0 {
			point := tested.Curves[i].At(l.Limit)
			l.Test = &point
		}
	}
	for _, note := range tested.Notes {
		if !slices.Contains(s.Notes, note) {
			s.Notes = append(s.Notes, "Of the test: "+note)
		}
	}
	if !s.Test.First.After(s.Train.Last) && !s.Train.First.After(s.Test.Last) {
		s.Notes = append(s.Notes, "The requests of the test are of the same time as those of the suggestion, at least in part: so it says little.")
	}
	return s, nil
}

// runSome is [Run] of requests that must be some.
func runSome(ctx context.Context, cfg Config, requests Source, name string) (*Report, error) {
	r, err := Run(ctx, cfg, requests)
	if err == nil && r.Traffic.Requests == 0 {
		err = fmt.Errorf("whatif: %s has no requests; want some", name)
	}
	return r, err
}
