package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// report makes the report of a side when all is over.
func (s *side) report(cfg *Config) *Report {
	y := s.tally
	r := &Report{
		Traffic: y.traffic(), Blocked: y.blocked, Share: share(y.blocked, y.requests),
		Retried: y.retried, Recovered: y.recovered, Waited: y.waited, LongestWait: Duration(y.longest),
		BlockedRange: s.rangeOf(func(l *lane) int64 { return l.refused }),
		WouldBlock:   s.lanes[0].wouldRefuse, WouldBlockRange: s.rangeOf(func(l *lane) int64 { return l.wouldRefuse }),
	}
	for i := range y.rules {
		r.Rules = append(r.Rules, s.ruleReport(&y.rules[i], cfg))
	}
	for _, w := range y.curves {
		r.Curves = append(r.Curves, curveOf(w, cfg.Resolution))
	}
	r.Notes = s.notes(r, cfg)
	return r
}

func (s *side) rangeOf(blocked func(*lane) int64) (r Range) {
	for i, l := range s.lanes {
		n := blocked(l)
		if i == 0 {
			r = Range{n, n}
		}
		r.Least, r.Most = min(r.Least, n), max(r.Most, n)
	}
	return r
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func timeOf(at int64) time.Time { return time.Unix(0, at).UTC() }

func (y *tally) traffic() Traffic {
	t := Traffic{
		Requests: y.requests, Refused: y.refused, Late: y.tables.late,
		Resources: y.seen(), TopResources: y.topResources(), Keys: y.tables.keys.len(), Keyless: y.keyless, BusiestMinute: y.minute.report(),
		Top: y.top(&y.byKey, &y.byKey, &y.blockedByKey),
	}
	if y.requests > 0 {
		t.First, t.Last = timeOf(y.first), timeOf(y.last)
	}
	if len(t.Top) > 0 {
		t.TopShare = share(t.Top[0].Requests, t.Requests)
	}
	return t
}

// seen is how many resources there were.
func (y *tally) seen() (n int) {
	for _, b := range y.byRes {
		if b != nil {
			n++
		}
	}
	return n
}

func (y *tally) topResources() []ResourceCount {
	top := make([]ResourceCount, 0, most+1)
	for number, count := range y.resources.all {
		if *count == 0 || len(top) == most && *count < top[most-1].Requests {
			continue
		}
		r := ResourceCount{y.tables.resources.text(number), *count}
		at, _ := slices.BinarySearchFunc(top, r, func(a, b ResourceCount) int {
			return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Resource, b.Resource))
		})
		top = slices.Insert(top, at, r)
		top = top[:min(most, len(top))]
	}
	return top
}

func (s *side) ruleReport(of *ruleTally, cfg *Config) RuleReport {
	r := RuleReport{
		Kind: of.kind, ID: of.id, Resource: of.resource, Text: of.text, Mode: of.mode,
		Threshold: of.threshold, Interval: Duration(of.interval), PerKey: of.perKey,
		Requests: of.requests, Blocked: of.blocked, Share: share(of.blocked, of.requests), Refusals: of.refusals,
		Range:       s.rangeOf(func(l *lane) int64 { return l.blocked[of.index] }),
		WorstMinute: of.minute.report(), Top: s.tally.top(&of.byKey, &s.tally.byKey, &of.byKey),
		Busiest: of.busiest,
	}
	if of.refusals > 0 {
		r.First, r.Last = timeOf(of.first), timeOf(of.last)
	}
	for _, n := range of.byKey.all {
		if *n > 0 {
			r.Keys++
		}
	}
	if of.rated {
		for _, b := range of.bounds {
			b.wanted.finish()
			if b.exactly != nil {
				r.Exact = &of.compared
			}
		}
		r.Windows = countsOf(of.windows.bins())
		if of.perKey {
			r.Busiest = r.Windows.Max
		}
		if of.threshold > 0 && of.requests > 0 {
			r.Headroom = 1 - float64(r.Busiest)/of.threshold
		}
	}
	r.Notes = ruleNotes(&r, of, cfg)
	return r
}

func ruleNotes(r *RuleReport, of *ruleTally, cfg *Config) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	interval := time.Duration(r.Interval)
	switch {
	case len(of.bounds) == 0:
		note("It binds no resource of the log.")
	case of.note != "":
		note("%s", of.note)
	case of.missing > 0:
		note("%s had no key: its window counts are of the others.", many(of.missing, "request"))
	}
	if step := Duration(cfg.Resolution); of.rated && interval < fewSteps*cfg.Resolution {
		text := tooCoarse(step, r.Interval)
		if !cfg.OnePlacement {
			text += fmt.Sprintf(": depending on when within %v they came, it blocks %d to %d", step, r.Range.Least, r.Range.Most)
		}
		note("%s.", text)
	}
	if e := r.Exact; e != nil && e.Stricter+e.Laxer > 0 {
		these := "requests"
		if cfg.Retries > 0 {
			these = "requests, each as often as it came,"
		}
		note("Counted exactly, at most %v in any %v would have blocked %d: of these %s the rule blocks %d that an exact count admits, and admits %d that it blocks.",
			r.Threshold, r.Interval, e.Blocked, these, e.Stricter, e.Laxer)
	}
	if of.maxKeys > 0 && of.rated {
		for _, b := range of.bounds {
			if len(b.local) > of.maxKeys {
				note("More keys came than the rule counts at a time, %d: which of them it forgets differs from run to run.", of.maxKeys)
				break
			}
		}
	}
	return notes
}

// fewSteps is how many steps of the log a window must have, or the log says little of it.
const fewSteps = 5

func tooCoarse(step, window Duration) string {
	return fmt.Sprintf("The log has times of %v, so that little can be said of %v", step, window)
}

// proxyShare is from what share on a key may be that of many clients.
const proxyShare = 0.2

func (s *side) notes(r *Report, cfg *Config) (notes []string) {
	y := s.tally
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if cfg.Resolution > 0 {
		note("Times in the log are multiples of %v: requests with the same time were spread evenly over the %[1]v that begins then.", Duration(cfg.Resolution))
		if cfg.OnePlacement && len(r.Rules) > 0 {
			note("Nothing else was tried, so there are no ranges.")
		}
	}
	if r.Traffic.TopShare >= proxyShare {
		note("One key has %s of all requests: is it a proxy, with many clients behind it?", percent(r.Traffic.TopShare))
	}
	if y.refused > 0 {
		note("%s had been refused then. That is demand all the same; how long it would have taken is not known.", many(y.refused, "request"))
	}
	if y.keyless > 0 {
		note("%s without a key: limits count them as one key, rules on arguments take them for calls without one, and they are in no figure per key.", many(y.keyless, "request"))
	}
	if r.Traffic.Late > 0 {
		note("%s out of order: taken for as late as the one before.", many(r.Traffic.Late, "request"))
	}
	if y.tables.clipped > 0 {
		note("%s cost more than %d: taken for that.", many(y.tables.clipped, "request"), maxCost)
	}
	if y.tables.resources.overflows() {
		note("There are more than %d resources: those that came later are counted together.", y.tables.resources.most)
	}
	if y.tables.keys.overflows() {
		note("There are more than %d keys: those that came later are counted together.", maxKeys)
	}
	if y.durations == 0 && y.requests > 0 && s.trial.durations {
		note("The log does not tell how long requests took: rules on calls in flight or slow calls see none.")
	}
	if r.Blocked > 0 && cfg.Retries == 0 {
		note("Clients that were refused are taken to give up. Clients often come again: try retries.")
	}
	return notes
}
