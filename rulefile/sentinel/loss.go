package sentinel

import (
	"fmt"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// Effect is what became of something that could not be translated as it stands.
type Effect string

// The effects.
const (
	Skipped Effect = "skipped" // the rule was left out
	Changed Effect = "changed" // the rule was translated, and does not mean quite the same
	Ignored Effect = "ignored" // a field was left out; the rule does what it does without it
)

// Loss is one thing that [Parse] could not translate as it stands.
type Loss struct {
	File         string // as it was given
	Line, Column int    // from 1
	Effect       Effect
	Message      string // which rule, what in it, and why
}

// String reads: flow.json:3:5: skipped: flow rule on "GET /orders": clusterMode is true.
func (l Loss) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", escape.Text(l.File), l.Line, l.Column, l.Effect, l.Message)
}
