package rulefile

import (
	"fmt"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/internal/escape"
)

// Loss is what became of something that could not be translated as it stands.
type Loss uint8

// The losses.
const (
	// Skipped: the rule was left out.
	Skipped Loss = iota
	// Changed: the rule was translated, and does not mean quite the same.
	Changed
	// Ignored: a field was left out. The rule does what it does without it.
	Ignored
)

var losses = enum.Enum{What: "loss", Names: []string{"skipped", "changed", "ignored"}}

// String is "skipped", "changed" or "ignored".
func (l Loss) String() string { return losses.String(uint8(l)) }

// Note tells of one thing that [Sentinel] could not translate as it stands.
type Note struct {
	File         string // as it was given
	Line, Column int    // from 1
	Loss         Loss
	Message      string // which rule, what in it, and why
}

// String reads: flow.json:3:5: skipped: flow rule on "GET /orders": clusterMode is true …
func (n Note) String() string {
	return fmt.Sprintf("%s:%d:%d: %v: %s", escape.Text(n.File), n.Line, n.Column, n.Loss, n.Message)
}
