package dashboard

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sort"
	"time"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/demand"
	"github.com/leapgate-go/leapgate/internal/quota"
	"github.com/leapgate-go/leapgate/stat"
)

// wanted is what came for a rule on a resource, and what became of it.
type wanted struct {
	demand.Calls
	others  map[int64]int64 // what other rules refused, by the second in which their steps begin
	refused int64           // what the rule refused after the warm seconds, or would have in mode shadow
	sum     int64           // of others after them
	// steady is the threshold that the rule had all the time; negative if it was changed.
	steady float64
}

// wanted returns how many calls came for a flow rule on a resource in the last hour, and for so
// long before it, as far as that is known. It reports whether there is any history of the two.
func (p *past) wanted(name, id string, now time.Time, before time.Duration) (w wanted, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.resources[name]
	if r == nil || r.rowsPast == nil {
		return w, false
	}
	rule := r.rules[ruleKey{flow.Kind.Name, id}]
	if rule == nil {
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
		if w.PerSecond == nil {
			w.First = second
		}
		gap := second - w.First - int64(len(w.PerSecond))
		w.PerSecond = append(append(w.PerSecond, make([]int64, gap)...), figures[0])
	}
	from := (w.First + seconds + stepSeconds - 1) / stepSeconds * stepSeconds
	from = max(from, rule.began/stepSeconds*stepSeconds)
	w.Warm = int(min(from-w.First, int64(len(w.PerSecond))))
	w.steady = -1
	if rule.steady <= from && rule.round == p.round {
		w.steady = rule.kept.threshold
	}
	own := make(map[int64]int64) // by steps
	for step, figures := range rule.hour.From(w.First / stepSeconds) {
		own[step] = figures[pastBlocked]
		if step*stepSeconds >= from {
			w.refused += figures[pastBlocked] + figures[pastRuleWouldBlock]
		}
	}
	w.others = make(map[int64]int64)
	for step, figures := range r.hour.From(w.First / stepSeconds) {
		others := figures[pastBlock] - own[step]
		w.others[step*stepSeconds] = others
		if step*stepSeconds >= from {
			w.sum += others
		}
	}
	return w, true
}

// without returns the calls without those that other rules refused, which take no room in the window of this
// one. Which those were is not kept: takeOff takes so many off the seconds of a step.
func (w *wanted) without(takeOff func(step []int64, calls int64)) demand.Calls {
	c := w.Calls
	c.PerSecond = slices.Clone(c.PerSecond)
	for second, calls := range w.others {
		begin := min(max(0, second-c.First), int64(len(c.PerSecond)))
		end := min(max(0, second+stepSeconds-c.First), int64(len(c.PerSecond)))
		if calls > 0 {
			takeOff(c.PerSecond[begin:end], calls)
		}
	}
	return c
}

// evenly takes calls off each second in proportion to what came in it.
func evenly(step []int64, calls int64) {
	came := int64(0)
	for _, n := range step {
		came += n
	}
	for i, n := range step {
		if came > 0 {
			off := min(n, int64(math.Round(float64(calls)*(float64(n)/float64(came)))))
			step[i] -= off
			calls -= off
		}
		came -= n
	}
}

// fromTheTop takes calls off the seconds in which the most came, as a limit would.
func fromTheTop(step []int64, calls int64) {
	left := -calls
	for _, n := range step {
		left += n
	}
	level := sort.Search(int(max(0, slices.Max(append(step, 0)))), func(level int) bool {
		below := int64(0)
		for _, n := range step {
			below += min(n, int64(level))
		}
		return below >= left
	})
	for i, n := range step {
		step[i] = min(n, int64(level))
	}
}

// estimate returns what the rule would have refused with another limit.
func (w *wanted) estimate(window demand.Window, limit int64) demand.Range {
	r := demand.Refused(w.without(evenly), window, limit)
	if w.sum > 0 {
		shaped := w.without(fromTheTop)
		shaped.Shaped = true
		r.Low = min(r.Low, demand.Refused(shaped, window, limit).Low)
		r.High = max(r.High, demand.Refused(w.Calls, window, limit).High)
	}
	if w.steady >= 0 { // a higher limit refuses no more, and a lower one no less
		steady := int64(w.steady)
		if limit >= steady {
			r.Likely, r.Low, r.High = min(r.Likely, w.refused), min(r.Low, w.refused), min(r.High, w.refused)
		}
		if limit <= steady {
			r.Likely, r.Low, r.High = max(r.Likely, w.refused), max(r.Low, w.refused), max(r.High, w.refused)
		}
	}
	return r
}

// wide returns why a range is wide; "" if it is not.
func (w *wanted) wide(r demand.Range) string {
	switch {
	case !r.IsWide():
		return ""
	case w.sum > 0:
		return "other rules refused calls too, and which of them would have come to this one is not kept"
	default:
		return "so near to what comes at most it depends on where in their seconds the calls lay, which is not kept"
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

// estimates are made one at a time, for each takes a processor.
type estimates struct {
	places chan struct{} // held by those that are made or wait
	turn   chan struct{} // held by the one that is made
}

const maxEstimates = 8 // at a time

func newEstimates() estimates {
	return estimates{make(chan struct{}, maxEstimates), make(chan struct{}, 1)}
}

// begin waits for the turn of a request. If there are too many it answers so.
func (e estimates) begin(w http.ResponseWriter, r *http.Request) (done func(), ok bool) {
	select {
	case e.places <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, problem{Status: http.StatusServiceUnavailable, Detail: "too many are asking for estimates; try again in 1 s"})
		return nil, false
	}
	select {
	case e.turn <- struct{}{}:
		return func() { <-e.turn; <-e.places }, true
	case <-r.Context().Done():
		<-e.places
		return nil, false
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

	Others int64  `json:"others"`
	Wide   string `json:"wide,omitempty"` // why so little is known
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
		if v.Seconds = len(came.PerSecond) - came.Warm; v.Seconds <= 0 {
			v.Seconds, why = 0, fmt.Errorf("its resource has not been watched for longer than its interval, which is %v", rule.Interval)
		} else {
			done, ok := d.estimating.begin(w, r)
			if !ok {
				return
			}
			defer done()
			then := came.estimate(demand.Window{Interval: rule.Interval, Buckets: rule.Buckets, Strict: rule.Strict}, int64(min(threshold, quota.MaxLimit)))
			v.Blocked = &demandSpan{Now: came.refused, Then: then.Likely, Low: then.Low, High: then.High, Others: came.sum, Wide: came.wide(then)}
		}
	}
	if why != nil {
		v.Untold = why.Error()
	}
	answer(w, http.StatusOK, v)
}
