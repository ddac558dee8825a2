package leaphttp

import (
	"net/http"

	"github.com/leapgate-go/leapgate/internal/charging"
)

// Checker asks limits inside a handler, for a key that only the handler knows, such as a user
// name that stands in the body. Make one with [NewChecker]. All methods may be called by any
// number of goroutines at once.
type Checker struct{ middleware *middleware }

// NewChecker returns a checker. Of [Config], it has Limits, Headers, Refuse and Logger; a
// [Limit] has a Limiter, and may have a Name, a Skip and FailClosed. Anything else must not be
// set. The error, if any, is [ErrConfig], and names everything that is wrong with cfg.
func NewChecker(cfg Config) (*Checker, error) {
	var faults faults
	charging.Unused(cfg, faults.add, ", which a Checker does not look at; want none",
		"Gate", "Mux", "Route", "Origin", "Args", "Status", "Include", "Exclude", "Criticality", "DecisionLog")
	if len(cfg.Limits) == 0 {
		faults.add("Limits is empty; want at least one")
	}
	for i, l := range cfg.Limits {
		if l.Key != nil || l.Cost != nil || l.InFlight != nil {
			faults.add("Limits[%d] has a Key, a Cost or InFlight; want a Limiter alone: Check has the key and the number", i)
		}
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	c := &Checker{newMiddleware(Config{Limits: cfg.Limits, Headers: cfg.Headers, Refuse: cfg.Refuse, Logger: cfg.Logger}, &faults)}
	return c, faults.err()
}

// MustChecker is [NewChecker] for a configuration that is known to be good. It panics
// otherwise.
func MustChecker(cfg Config) *Checker {
	c, err := NewChecker(cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// Wrap makes it possible for a handler to correct what Check has charged, with [Settle] and
// [Refund]. What [New] returns does so too: one of them is enough. It panics if next is nil.
func (c *Checker) Wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("leaphttp: the handler is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(newRecorder(w, r).writer(), r)
	})
}

// Check takes n of key, counted as [LimiterKey] has it, from all the limits, and sets the header fields. If
// one refuses, it answers as the middleware does and returns false; the handler must not
// answer then. With n = 0 it takes nothing, and passes if 1 would; less than 0 is taken for 0.
// It must be called before the handler answers, for each key once.
//
//	if !logins.Check(w, r, user, 1) {
//		return
//	}
func (c *Checker) Check(w http.ResponseWriter, r *http.Request, key string, n int64) bool {
	var few [fewLimits]charge
	m := c.middleware
	charges, refusal := m.limits.ask(detached{r}, r, &charging.Asked{Key: key, N: max(0, n)}, few[:0])
	m.fields.set(w.Header(), charges, refusal, new([2]string))
	if refusal != nil {
		m.answer(w, r, refusal)
		return false
	}
	if rec := recorderOf(w); rec != nil {
		rec.charges = append(rec.charges, charges...)
	}
	return true
}
