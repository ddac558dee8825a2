package leaphttp

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/leapgate-go/leapgate/limit"
)

// Settle makes what a request has cost into actual, when its handler knows: what the limits
// with a [Limit.Cost] have charged for it, and what a [Checker] has. Less is given back, and
// more is charged, whatever the limit: see [limit.RateLimiter.Settle]. The other limits keep
// what they charged.
//
// It finds the middlewares through writers that have Unwrap, as [http.ResponseController]
// does. It may be called once, by one goroutine at a time, also when the handler has
// returned; again, it does nothing. It reports whether there was anything to settle. The
// error is that of the limits that failed, or [limit.ErrCount] if actual cannot be: then nothing
// was settled.
func Settle(w http.ResponseWriter, actual int64) (settled bool, err error) {
	if actual < 0 || actual > limit.MaxLimit {
		return false, fmt.Errorf("%w: %d; want 0 to %d", limit.ErrCount, actual, int64(limit.MaxLimit))
	}
	for c := recorderOf(w); c != nil; c = recorderOf(c.ResponseWriter) {
		for i := range c.charges {
			if charge := &c.charges[i]; charge.Settle {
				settled = true
				c.settled.Store(actual + 1)
				d := spent(charge)
				err = errors.Join(err, charge.By.Own.settler.Settle(detached{c.request}, charge.Key, d, actual))
			}
		}
	}
	return settled, err
}

// Refund gives back what the limits have charged for a request, all of them: so that only
// failed logins count, or what the cache answers is free. Requests in flight keep their
// place until the handler returns. For the rest it is as [Settle]; the error is that of the
// limits that failed.
func Refund(w http.ResponseWriter) (refunded bool, err error) {
	for c := recorderOf(w); c != nil; c = recorderOf(c.ResponseWriter) {
		for i := range c.charges {
			if charge := &c.charges[i]; charge.Charged > 0 && charge.By.InFlight == nil {
				refunded = true
				d := spent(charge)
				err = errors.Join(err, charge.By.Limiter.Refund(detached{c.request}, charge.Key, d, d.Charged))
			}
		}
	}
	return refunded, err
}

// Renew renews the leases of the places in flight that a request has: see
// [limit.Place.Renew]. A handler that runs longer than they last calls it from time to time,
// three times in the time of a lease for instance; not after it has returned, and by one
// goroutine at a time. It finds them as [Settle] does. The error is that of the leases that
// failed; nil if there are none.
func Renew(w http.ResponseWriter) (err error) {
	for c := recorderOf(w); c != nil; c = recorderOf(c.ResponseWriter) {
		for i := range c.charges {
			err = errors.Join(err, c.charges[i].Place.Renew(c.request.Context()))
		}
	}
	return err
}

// spent returns the decision, which is corrected now, and not again.
func spent(c *charge) limit.Decision {
	d := c.Decision
	c.Settle, c.Charged = false, 0
	return d
}
