// Package callerror has the errors of calls that did not begin. Package leapgate exports
// them, with what they mean; packages below it return them.
package callerror

import "errors"

// Each is leapgate.Err and its name.
var (
	Blocked = errors.New("leapgate: blocked")
	Name    = errors.New("leapgate: bad resource name")
	Count   = errors.New("leapgate: bad count")
	Origin  = errors.New("leapgate: bad origin")
	Arg     = errors.New("leapgate: bad argument of a call")
)
