package limit

import "github.com/leapgate-go/leapgate/internal/stripes"

// answers are how many calls were admitted, and how many not, and whose.
type answers struct {
	allowed, refused, overlooked stripes.Counter
	offenders                    *offenders // nil: nobody asked for them
}

func newAnswers(cfg Config) *answers {
	a := new(answers)
	if cfg.Offenders > 0 {
		a.offenders = newOffenders(cfg.Offenders)
	}
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
	if a.offenders != nil && n > 0 {
		a.offenders.note(key)
	}
}

func (a *answers) addTo(s *Stats) {
	s.Allowed, s.Refused, s.WouldRefuse = a.allowed.Load(), a.refused.Load(), a.overlooked.Load()
}

// Offenders returns the keys that were refused most often, or would have been in mode
// Shadow, at most k, most refused first. It is empty unless Config.Offenders was set. See
// [Offender].
func (a *answers) Offenders(k int) []Offender {
	if a.offenders == nil {
		return nil
	}
	return a.offenders.top(k)
}

// ForgetOffenders begins the count of refusals anew, so that those of long ago do not
// hide those of today.
func (a *answers) ForgetOffenders() {
	if a.offenders != nil {
		a.offenders.forget()
	}
}
