// Package blocked has the one error that every refusal is, of rules and of limits
// alike, which do not import each other.
package blocked

import "errors"

// Err is leapgate.ErrBlocked.
var Err = errors.New("leapgate: blocked")
