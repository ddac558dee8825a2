//go:build !unix

package load

import "time"

// processTime is not known here.
func processTime() (used time.Duration, ok bool) { return 0, false }
