package whatif

import (
	"fmt"
	"time"
)

// minSteps is the number of steps of the log that a window must have for a reliable result.
const minSteps = 5

func tooCoarse(step, window Duration) string {
	return fmt.Sprintf("The times in the log are multiples of %v, which is too imprecise for windows of %v.", step, window)
}

func ruleNotes(r *RuleReport, of *ruleTally, cfg *Config) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case len(of.bounds) == 0:
		note("It binds no resource of the log.")
	case of.note != "":
		note("%s", of.note)
	case of.missing > 0:
		note("%s had no key: the window counts do not include them.", many(of.missing, "request"))
	}
	if of.rated && time.Duration(r.Interval) < minSteps*cfg.Resolution {
		note("%s", tooCoarse(Duration(cfg.Resolution), r.Interval))
	}
	keys := 0
	for _, b := range of.bounds {
		if b.demand != nil {
			keys += len(b.demand.keys)
		}
	}
	if of.maxKeys > 0 && keys > of.maxKeys {
		note("The log has more keys than the rule counts at a time, %d. All of them were counted here.", of.maxKeys)
	}
	return notes
}

// proxyShare is the share of requests at which a key may be a proxy.
const proxyShare = 0.2

func (s *simulator) notes(r *Report, cfg *Config) (notes []string) {
	y := s.tally
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if cfg.Resolution > 0 {
		note("The times in the log are multiples of %v: requests with the same time were spread evenly over the %[1]v that begins then.", Duration(cfg.Resolution))
	}
	if r.Traffic.TopShare >= proxyShare {
		note("One key has %s of all requests: is it a proxy, with many clients behind it?", Percent(r.Traffic.TopShare))
	}
	if y.refused > 0 {
		note("%s had been blocked then. They count as demand; how long they would have taken is unknown.", many(y.refused, "request"))
	}
	if y.keyless > 0 {
		note("%s without a key: limits count them as one key, rules on arguments as calls without the argument, and no figure per key includes them.", many(y.keyless, "request"))
	}
	if y.clipped > 0 {
		note("%s cost more than %d, and count as that.", many(y.clipped, "request"), maxCost)
	}
	if y.manyResources {
		note("There are more than %d resources: later ones are counted as one.", maxResources)
	}
	if y.keys.full {
		note("There are more than %d keys: later ones are counted as one.", maxKeys)
	}
	if y.durations == 0 && y.requests > 0 && s.trial.durations {
		note("The log does not contain durations: rules on calls in flight or slow calls see none.")
	}
	if r.Blocked > 0 {
		note("Clients often repeat blocked requests. The report does not include such retries.")
	}
	return notes
}
