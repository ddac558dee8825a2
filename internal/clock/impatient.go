package clock

import (
	"context"
	"time"
)

// Impatient returns a context for a call that does not wait: where it would have to, it is refused.
func Impatient(ctx context.Context) context.Context { return impatient{ctx} }

type impatient struct{ context.Context } //nolint:containedctx // it is one itself

var _ Waiter = impatient{}

func (impatient) Wait(time.Duration) error { return context.DeadlineExceeded }
func (impatient) Wake()                    {}
