// Package callerror has the errors of calls that did not begin. Package leapgate exports
// them, with what they mean; packages below it return them.
package callerror

import "errors"

// Each is that of the same name in package leapgate.
var (
	ErrBlocked = errors.New("leapgate: blocked")
	ErrName    = errors.New("leapgate: bad resource name")
	ErrCount   = errors.New("leapgate: bad count")
	ErrOrigin  = errors.New("leapgate: bad origin")
	ErrArg     = errors.New("leapgate: bad argument of a call")
)
