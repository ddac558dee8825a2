package limit

import (
	"sync/atomic"

	"github.com/leapgate-go/leapgate/internal/frequent"
	"github.com/leapgate-go/leapgate/internal/stripes"
)

// answers are how many calls were admitted, and how many not, and whose.
type answers struct {
	allowed, refused, overlooked stripes.Counter
	most                         int                           // offenders that are tracked
	offenders                    atomic.Pointer[frequent.Keys] // nil: nobody asked for them
}

func newAnswers(cfg Config) *answers {
	a := &answers{most: cfg.Offenders}
	a.ForgetOffenders()
	return a
}

// count counts the answer to n of a key.
func (a *answers) count(d *Decision, key string, n int64) {
	if d.Allowed {
		a.allowed.Add(1)
		if !d.WouldRefuse {
			return
		}
		a.overlooked.Add(1)
	} else {
		a.refused.Add(1)
	}
	if offenders := a.offenders.Load(); offenders != nil && n > 0 {
		offenders.Count(key, 1)
	}
}

func (a *answers) addTo(s *Stats) {
	s.Allowed, s.Refused, s.WouldRefuse = a.allowed.Load(), a.refused.Load(), a.overlooked.Load()
}

// Offender is a key that was refused often.
type Offender struct {
	Key string // as the client sent it: escape it before it is shown

	// Refused is how often it was refused, at most. It was refused
	// Refused − Excess times for certain. A key that was tracked from its
	// first refusal has an Excess of 0.
	Refused, Excess int64
}

// Offenders returns the keys that were refused most often, or would have been in mode
// Shadow, at most k, most refused first. It is empty unless Config.Offenders was set. A key
// that was refused more often than all refusals / Config.Offenders is there for certain. See
// [Offender].
func (a *answers) Offenders(k int) (all []Offender) {
	offenders := a.offenders.Load()
	if offenders == nil {
		return nil
	}
	for _, f := range offenders.Top(k) {
		all = append(all, Offender{f.Key, f.Count, f.Excess})
	}
	return all
}

// ForgetOffenders begins the count of refusals anew, so that those of long ago do not
// hide those of today.
func (a *answers) ForgetOffenders() {
	if a.most > 0 {
		a.offenders.Store(frequent.New(a.most))
	}
}
