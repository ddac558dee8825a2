package clock

import (
	"context"
	"time"
)

// Waiter is the context of a call that waits on a time of its own, and not on a timer, as when
// the requests of a log are replayed.
type Waiter interface {
	context.Context
	// Wait lets the call wait for d, or until Wake is called. If the wait comes to nothing, the
	// error says why.
	Wait(d time.Duration) error
	// Wake ends a Wait that goes on. It does not block, and may be called under a lock.
	Wake()
}
