package dashboard

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/demand"
	"github.com/leapgate-go/leapgate/internal/quota"
	"github.com/leapgate-go/leapgate/stat"
)

// wanted is how many calls came for a rule on a resource.
type wanted struct {
	first     int64 // the first second
	perSecond []int64
	warm      int   // how many seconds stand before what is asked about
	refused   int64 // what the rule refused after them, or would have in mode shadow
	others    int64 // what other rules refused after them
}

// wanted returns how many calls came for a flow rule on a resource in the last hour, and for so
// long before it, as far as that is known. It reports whether there is any history of the resource.
func (p *past) wanted(resource, id string, now time.Time, before time.Duration) (w wanted, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.resources[resource]
	if r == nil || r.rowsPast == nil {
		return w, false
	}
	end := now.Unix() - hourSeconds
	for step := range r.hour.From(end / stepSeconds) {
		end = (step + 1) * stepSeconds // of the last step that is done
	}
	seconds := int64((before + time.Second - 1) / time.Second)
	for second, figures := range r.demand.From(end - hourSeconds - seconds) {
		if second >= end {
			break
		}
		if w.perSecond == nil {
			w.first = second
		}
		gap := second - w.first - int64(len(w.perSecond))
		w.perSecond = append(append(w.perSecond, make([]int64, gap)...), figures[0])
	}
	rule := r.rules[ruleKey{flow.Kind.Name, id}]
	if rule == nil {
		return w, false
	}
	from := (w.first + seconds + stepSeconds - 1) / stepSeconds * stepSeconds
	from = max(from, rule.began/stepSeconds*stepSeconds)
	w.warm = int(min(from-w.first, int64(len(w.perSecond))))
	own := make(map[int64]int64) // by steps
	for step, figures := range rule.hour.From(w.first / stepSeconds) {
		own[step] = figures[pastBlocked]
		if step*stepSeconds >= from {
			w.refused += figures[pastBlocked] + figures[pastRuleWouldBlock]
		}
	}
	for step, figures := range r.hour.From(w.first / stepSeconds) {
		others := figures[pastBlock] - own[step]
		w.takeOff(step*stepSeconds, others)
		if step*stepSeconds >= from {
			w.others += others
		}
	}
	return w, true
}

// takeOff takes calls that other rules refused off what came in the step that begins with a
// second: they take no room in the window of this one.
func (w *wanted) takeOff(second, calls int64) {
	begin := min(max(0, second-w.first), int64(len(w.perSecond)))
	end := min(max(0, second+stepSeconds-w.first), int64(len(w.perSecond)))
	step := w.perSecond[begin:end]
	came := int64(0)
	for _, n := range step {
		came += n
	}
	for i, n := range step {
		if came > 0 && calls > 0 {
			off := min(n, int64(math.Round(float64(calls)*(float64(n)/float64(came)))))
			step[i] -= off
			calls -= off
		}
		came -= n
	}
}

// untold returns why it cannot be told what a rule with another threshold would have refused;
// nil if it can.
func untold(r *flow.Rule) error {
	switch {
	case r.Behavior == flow.Pace:
		return errors.New("calls wait for their turns, and how many would have waited is not known")
	case r.Strategy == flow.WarmUp:
		return errors.New("its threshold rises and falls as it warms up and cools down")
	case r.Strategy == flow.MemoryAdaptive:
		return errors.New("its threshold falls as the memory in use grows")
	case r.Associated != "":
		return errors.New("it goes by what another resource passes")
	case r.Origin != "":
		return errors.New("it counts the calls of one origin, and which calls those were is not kept")
	case r.Interval < time.Second:
		return errors.New("its interval is shorter than 1 s, and calls are kept by the second")
	case r.Interval > hourSeconds*time.Second/2:
		return errors.New("its interval is longer than half of the hour that is kept")
	default:
		return nil
	}
}

type demandView struct {
	Resource  string      `json:"resource"`
	Rule      string      `json:"rule"`
	Threshold number      `json:"threshold"`
	Untold    string      `json:"untold,omitempty"`
	Seconds   int         `json:"seconds,omitempty"`
	Blocked   *demandSpan `json:"blocked,omitempty"`
}

type demandSpan struct {
	Now  int64 `json:"now"`
	Then int64 `json:"then"`
	Low  int64 `json:"low"`
	High int64 `json:"high"`

	Others int64 `json:"others"`
}

func (d *Dashboard) serveDemand(w http.ResponseWriter, r *http.Request) {
	q := parameters(r, "resource", "rule", "threshold")
	v := demandView{Resource: q.required("resource", "the name of a resource"), Rule: q.required("rule", "the ID of a flow rule")}
	threshold := q.amount("threshold")
	if q.failed(w) {
		return
	}
	v.Threshold = number(threshold)
	if d.past == nil {
		fail(w, noHistory)
		return
	}
	rules := d.gate.FlowRules()
	at := slices.IndexFunc(rules, func(f flow.Rule) bool { return f.ID == v.Rule })
	if at < 0 {
		fail(w, noSuchRule(ruleKey{flow.Kind.Name, v.Rule}))
		return
	}
	rule := &rules[at]
	handle := d.gate.Lookup(v.Resource)
	if handle == nil {
		fail(w, noHistoryOf(v.Resource))
		return
	}
	figures := handle.Snapshot()
	if !slices.ContainsFunc(figures.Rules, func(f stat.RuleSnapshot) bool { return f.Kind == flow.Kind.Name && f.ID == v.Rule }) {
		fail(w, problem{Status: http.StatusNotFound, Detail: fmt.Sprintf("flow rule %s does not bind %s", quoted(v.Rule), quoted(v.Resource))})
		return
	}
	why := untold(rule)
	if why == nil && figures.OccupiedPass > 0 {
		why = errors.New("calls with priority wait for room, and how many would have waited is not known")
	}
	if why == nil {
		came, ok := d.past.wanted(v.Resource, v.Rule, d.timeOf(nil), rule.Interval)
		if !ok {
			fail(w, noHistoryOf(v.Resource))
			return
		}
		if v.Seconds = len(came.perSecond) - came.warm; v.Seconds <= 0 {
			v.Seconds, why = 0, fmt.Errorf("its resource has not been watched for longer than its interval, which is %v", rule.Interval)
		} else {
			d.estimating.Lock()
			defer d.estimating.Unlock()
			if r.Context().Err() != nil {
				return // the request has ended
			}
			then := demand.Refused(came.first, came.perSecond, came.warm,
				demand.Window{Interval: rule.Interval, Buckets: rule.Buckets, Strict: rule.Strict}, int64(min(threshold, quota.MaxLimit)))
			v.Blocked = &demandSpan{Now: came.refused, Then: then.Likely, Low: then.Low, High: then.High, Others: came.others}
		}
	}
	if why != nil {
		v.Untold = why.Error()
	}
	answer(w, http.StatusOK, v)
}
