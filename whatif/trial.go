package whatif

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/system"
)

// trial is what is tried: limits and rules, complete, in one list.
type trial struct {
	arg       string
	all       []tried
	byID      map[name]int   // of rules
	limits    int            // the first so many of all are limits
	rules     leapgate.Rules // all; those that enforce are the enforced
	enforced  leapgate.Rules
	reads     map[string]bool // the resources of which rules read what they pass
	bound     *leapgate.Gate  // has all rules, and tells which of them bind a resource
	durations bool            // how long calls take matters
	waits     bool            // calls may wait
}

// name is a rule's.
type name struct{ kind, id string }

// tried is a rule or a limit.
type tried struct {
	name
	resource  string
	text      string
	mode      rule.Mode
	threshold float64
	interval  time.Duration
	note      string // what the log does not tell
	perKey    bool
	many      bool // it may bind many resources, and counts on each by itself
	rated     bool // it bounds how much there is in an interval
	exact     bool // it means to, wherever that begins, and refuses what is beyond
	takesArgs bool
	plans     map[string]int64 // thresholds of single keys
	maxKeys   int              // 0: all that there are
	limit     limit.Config     // of a limit
	shadow    *leapgate.Rules  // the rule alone, enforced; nil but in mode shadow
}

const limitKind = "limit"

// maxKeys is how many keys there are at most that are told apart.
const maxKeys = 10_000_000

func newTrial(cfg *Config) (*trial, error) {
	t := &trial{arg: cfg.Arg, byID: make(map[name]int), reads: make(map[string]bool)}
	if t.arg == "" {
		t.arg = "client"
	}
	faults := []error{cfg.Rules.Validate()}
	for _, id := range slices.Sorted(maps.Keys(cfg.Limits)) {
		faults = append(faults, t.addLimit(id, cfg.Limits[id]))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	t.limits = len(t.all)
	given := kinds.Rules(cfg.Rules)
	rules := kinds.Completed(&given)
	t.rules = leapgate.Rules(*rules)
	for i := range t.rules.Param { // no key is to be forgotten
		if r := &t.rules.Param[i]; r.Match == rule.Exact {
			r.MaxKeys = maxKeys
		}
	}
	for _, k := range kinds.All {
		for i := range k.Len(rules) {
			h := k.Head(rules, i)
			r := tried{name: name{k.Name(), *h.ID}, resource: *h.Resource, mode: *h.Mode, text: k.Describe(rules, i)}
			r.many = *h.Match != rule.Exact
			if r.resource == "" {
				r.resource = field.Everything
			}
			switch k.Name() {
			case flow.Kind.Name:
				t.describeFlow(&r, &rules.Flow[i])
			case param.Kind.Name:
				t.describeParam(&r, &rules.Param[i])
			case system.Kind.Name:
				u := &rules.System[i]
				if u.MaxCPU+u.MaxThrottled+u.MaxPressure > 0 || u.MaxSchedLatency > 0 {
					r.note = "The log does not tell how busy the machine was: of the rule's bounds, only those on calls and their times hold."
				}
			}
			if r.mode == rule.Shadow {
				var alone kinds.Rules
				k.Set(&alone, k.Add(&alone), rules, i)
				*k.Head(&alone, 0).Mode = rule.Enforce
				for i := range alone.Isolation { // nobody queues for a rule in mode shadow
					alone.Isolation[i].MaxWait = 0
				}
				shadow := leapgate.Rules(alone)
				r.shadow = &shadow
			}
			t.byID[r.name] = len(t.all)
			t.all = append(t.all, r)
		}
	}
	t.durations = len(rules.Isolation)+len(rules.System) > 0
	for _, r := range rules.Breaker {
		t.durations = t.durations || r.SlowRatio > 0
	}
	for _, r := range rules.Isolation {
		t.waits = t.waits || r.MaxWait > 0 && r.Mode == rule.Enforce
	}
	var enforced kinds.Rules
	for _, k := range kinds.All {
		k.Append(&enforced, (*kinds.Rules)(&t.rules))
		k.Delete(&enforced, func(h field.Head) bool { return *h.Mode != rule.Enforce })
	}
	t.enforced = leapgate.Rules(enforced)
	var err error
	t.bound, err = openGate(leapgate.Config{Now: func() int64 { return 0 }, MaxResources: maxResources + 1}, t.rules)
	return t, err
}

func (t *trial) describeFlow(r *tried, of *flow.Rule) {
	r.threshold, r.interval = of.Threshold, of.Interval
	t.reads[of.Associated] = true
	switch {
	case of.Origin != "" && of.Origin != flow.OtherOrigins:
		r.note = "The log does not tell the origins of calls: the rule concerns none."
	case of.Strategy == flow.MemoryAdaptive:
		r.note = "The log does not tell how much memory was in use: the threshold stands."
	}
	r.rated = of.Associated == "" && (of.Origin == "" || of.Origin == flow.OtherOrigins)
	r.exact = r.rated && of.Strategy == flow.Direct && of.Behavior == flow.Reject
	t.waits = t.waits || of.Behavior == flow.Pace && of.MaxWait > 0 && of.Mode == rule.Enforce
}

func (t *trial) describeParam(r *tried, of *param.Rule) {
	r.threshold, r.interval = of.Threshold, of.Interval
	r.takesArgs = true
	if of.Arg != t.arg {
		r.note = "The log does not have the argument by which the rule counts: it was asked about calls without."
	}
	r.perKey, r.maxKeys = of.Arg == t.arg, of.MaxKeys
	if of.Match == rule.Exact {
		r.maxKeys = 0
	}
	r.rated = r.perKey && of.MaxInFlight == 0 && (of.Threshold > 0 || of.Top == 0)
	r.exact = r.rated && of.Behavior == param.Reject && of.Items == ""
	t.waits = t.waits || of.Behavior == param.Pace && of.MaxWait > 0 && of.Mode == rule.Enforce
	if of.MaxInFlight > 0 {
		t.durations = true
		r.threshold, r.interval = float64(of.MaxInFlight), 0
	}
}

func (t *trial) addLimit(id string, of rulefile.Limit) error {
	if of.Limit == nil || of.Window == 0 {
		return fmt.Errorf("whatif: limit %s has no limit, or no window; want both, since the log does not have the program's", escape.Quoted(id))
	}
	cfg := of.Config(limit.Config{Name: id, MaxKeys: maxKeys, Mode: rule.Enforce})
	made, err := newLimiter(cfg, of.Plans)
	if err != nil {
		return err
	}
	_ = made.Close()
	t.all = append(t.all, tried{
		name: name{limitKind, id}, text: of.String(), mode: cfg.Mode, limit: cfg, plans: of.Plans,
		threshold: float64(cfg.Limit), interval: cfg.Window, perKey: true, rated: true, exact: cfg.Burst == 0,
	})
	return nil
}

func newLimiter(cfg limit.Config, plans map[string]int64) (l *limit.RateLimiter, err error) {
	if cfg.Burst > 0 {
		l, err = limit.NewBurst(cfg)
	} else {
		l, err = limit.NewCounter(cfg)
	}
	if err == nil {
		err = l.SetPlans(plans)
	}
	return l, err
}

// binding returns which rules bind a resource, in the order in which they are asked.
func (t *trial) binding(resource string) (all []int) {
	for _, r := range t.bound.Resource(resource).Snapshot().Rules {
		all = append(all, t.byID[name{r.Kind, r.ID}])
	}
	return all
}

// named returns the resources that rules name.
func (t *trial) named() (all []string) {
	rules := kinds.Rules(t.rules)
	for _, k := range kinds.All {
		for i := range k.Len(&rules) {
			if h := k.Head(&rules, i); *h.Match == rule.Exact {
				all = append(all, *h.Resource)
			}
		}
	}
	return all
}
