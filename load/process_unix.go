//go:build unix

package load

import (
	"syscall"
	"time"
)

// processTime is the processor time that this process has used.
func processTime() (used time.Duration, ok bool) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0, false
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), true
}
