package whatif

import (
	"context"
	"io"
)

// Comparison is who would be better or worse off with other rules.
type Comparison struct {
	Before *Report `json:"before"`
	After  *Report `json:"after"`

	// How many requests only one of them would have blocked, or both.
	OnlyBefore int64 `json:"onlyBefore"`
	OnlyAfter  int64 `json:"onlyAfter"`
	Both       int64 `json:"both"`

	// How many keys would have fewer requests blocked with the rules after, and how many
	// more; and the ten of each for whom it changes most, most first.
	Better     int         `json:"better"`
	Worse      int         `json:"worse"`
	MostBetter []KeyChange `json:"mostBetter"`
	MostWorse  []KeyChange `json:"mostWorse"`

	Resources []ResourceChange `json:"resources"` // the ten for which it changes most, most first
}

// KeyChange is a key and how many of its requests would be blocked.
type KeyChange struct {
	Key      string `json:"key"` // as the log has it: escape it before it is shown
	Requests int64  `json:"requests"`
	Before   int64  `json:"before"`
	After    int64  `json:"after"`
}

// ResourceChange is a resource and how many of its requests would be blocked.
type ResourceChange struct {
	Resource   string `json:"resource"` // as the log has it: escape it before it is shown
	Requests   int64  `json:"requests"`
	OnlyBefore int64  `json:"onlyBefore"`
	OnlyAfter  int64  `json:"onlyAfter"`
}

// Compare tries two sets of rules on the same requests. It takes the terms from before: of
// after only Rules, Limits and Arg matter.
func Compare(ctx context.Context, before, after Config, requests Source) (*Comparison, error) {
	return nil, nil
}

// WriteText writes the comparison for people. It escapes what comes from the log.
func (c *Comparison) WriteText(w io.Writer) error { return nil }
