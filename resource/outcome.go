package resource

import (
	"context"
	"errors"

	"github.com/leapgate-go/leapgate/internal/enum"
)

// Outcome is how a call ended. It says what the call told of the resource, and is what
// rules go by that look at failures.
type Outcome uint8

// The outcomes. Every call that ends counts as completed, whatever its outcome.
const (
	Success Outcome = iota // the resource did what it should
	Failure                // it did not; counts as an exception
	Ignored                // the call says nothing about the resource, for instance because its caller gave up
)

var outcomes = enum.Enum[Outcome]{What: "outcome", Names: []string{"success", "failure", "ignored"}}

// String is the outcome's name: "success", "failure", "ignored".
func (o Outcome) String() string { return outcomes.String(o) }

// outcomeOf is the outcome of an error when the program does not say otherwise. Whose
// cancellation it was is not known here; see [Call].
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(err, context.Canceled):
		return Ignored
	default:
		return Failure
	}
}
