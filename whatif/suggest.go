package whatif

import (
	"context"
	"fmt"
	"slices"
)

// Suggestion is a limit per key for each window.
type Suggestion struct {
	Train  Traffic          `json:"train"`
	Test   *Traffic         `json:"test,omitempty"`
	Limits []SuggestedLimit `json:"limits"` // shortest window first
	Notes  []string         `json:"notes,omitempty"`
}

// SuggestedLimit is the limit for one window.
type SuggestedLimit struct {
	Window Duration `json:"window"`
	Limit  int64    `json:"limit"`          // 0 if there are no keys
	Train  Curve    `json:"train"`          // Limit is its Suggested
	Test   *Point   `json:"test,omitempty"` // nil if there is no limit or no test
}

// Suggest finds a limit per key for each of cfg.Windows from the requests of train: Suggested of the [Curve]. If test is
// not nil, the result says what that limit would have blocked there. A source without requests is an error.
func Suggest(ctx context.Context, cfg Config, train, test Source) (*Suggestion, error) {
	run := func(requests Source, name string) (*Report, error) {
		r, err := Run(ctx, cfg, requests)
		if err == nil && r.Traffic.Requests == 0 {
			err = fmt.Errorf("whatif: %s has no requests; want some", name)
		}
		return r, err
	}
	trained, err := run(train, "train")
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
	tested, err := run(test, "test")
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
			s.Notes = append(s.Notes, "In the test: "+note)
		}
	}
	if !s.Test.First.After(s.Train.Last) && !s.Train.First.After(s.Test.Last) {
		s.Notes = append(s.Notes, "The test and the suggestion use the same period, at least in part, so the test means little.")
	}
	return s, nil
}
