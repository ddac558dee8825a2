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

// trial is the list of limits and rules to try.
type trial struct {
	arg       string
	all       []tried // limits first
	byID      map[name]int
	limits    int
	rules     leapgate.Rules  // with the modes that they are tried in
	reads     map[string]bool // the resources whose counts rules read
	durations bool            // durations of calls matter
	waits     bool            // calls may wait
}

// name identifies a rule.
type name struct{ kind, id string }

// tried is a rule or a limit.
type tried struct {
	name
	resource  string
	text      string
	mode      rule.Mode // as configured
	threshold float64
	interval  time.Duration
	note      string // about information that the log lacks
	perKey    bool
	rated     bool // it limits a rate
	takesArgs bool
	maxKeys   int
	plans     map[string]int64 // of a limit: thresholds of single keys
	limit     limit.Config
}

const limitKind = "limit"

// newTrial checks the limits and rules of cfg. Those in mode shadow get the mode shadow.
func newTrial(cfg *Config, shadow rule.Mode) (*trial, error) {
	t := &trial{arg: cfg.Arg, byID: make(map[name]int), reads: make(map[string]bool)}
	if t.arg == "" {
		t.arg = "client"
	}
	tryAs := func(mode rule.Mode) rule.Mode {
		if mode == rule.Shadow {
			return shadow
		}
		return mode
	}
	errs := []error{cfg.Rules.Validate()}
	for _, id := range slices.Sorted(maps.Keys(cfg.Limits)) {
		errs = append(errs, t.addLimit(id, cfg.Limits[id], tryAs))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	t.limits = len(t.all)
	given := kinds.Rules(cfg.Rules)
	rules := kinds.Completed(&given)
	for _, k := range kinds.All {
		for i := range k.Len(rules) {
			h := k.Head(rules, i)
			r := tried{name: name{k.Name(), *h.ID}, resource: *h.Resource, mode: *h.Mode, text: k.Describe(rules, i)}
			if *h.Mode = tryAs(*h.Mode); r.resource == "" {
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
					r.note = "The log does not contain the load of the machine: only the rule's limits on calls and their durations are tried."
				}
			}
			t.byID[r.name] = len(t.all)
			t.all = append(t.all, r)
		}
	}
	t.rules = leapgate.Rules(*rules)
	t.durations = t.durations || len(rules.Isolation)+len(rules.System) > 0
	for _, r := range rules.Breaker {
		t.durations = t.durations || r.SlowRatio > 0
	}
	for _, r := range rules.Isolation {
		t.waits = t.waits || r.MaxWait > 0
	}
	return t, nil
}

func (t *trial) describeFlow(r *tried, of *flow.Rule) {
	r.threshold, r.interval = of.Threshold, of.Interval
	t.reads[of.Associated] = true
	switch {
	case of.Origin != "" && of.Origin != flow.OtherOrigins:
		r.note = "The log does not contain the origins of calls: the rule applies to none."
	case of.Strategy == flow.MemoryAdaptive:
		r.note = "The log does not contain the use of memory: the threshold does not change."
	}
	r.rated = of.Associated == "" && (of.Origin == "" || of.Origin == flow.OtherOrigins)
	t.waits = t.waits || of.Behavior == flow.Pace && of.MaxWait > 0
}

func (t *trial) describeParam(r *tried, of *param.Rule) {
	r.threshold, r.interval = of.Threshold, of.Interval
	r.takesArgs = true
	r.perKey, r.maxKeys = of.Arg == t.arg, of.MaxKeys
	if !r.perKey {
		r.note = "The log does not contain the argument of the rule: its calls were tried without the argument."
	}
	r.rated = r.perKey && of.MaxInFlight == 0 && (of.Threshold > 0 || of.Top == 0)
	t.waits = t.waits || of.Behavior == param.Pace && of.MaxWait > 0
	if of.MaxInFlight > 0 {
		t.durations = true
		r.threshold, r.interval = float64(of.MaxInFlight), 0
	}
	of.MaxKeys = maxKeys // which keys are evicted is random
}

func (t *trial) addLimit(id string, of rulefile.Limit, tryAs func(rule.Mode) rule.Mode) error {
	if of.Limit == nil || of.Window == 0 {
		return fmt.Errorf("whatif: limit %s has no limit, or no window; want both, since the log does not contain those of the program", escape.Quoted(id))
	}
	cfg := of.Config(limit.Config{Name: id, MaxKeys: maxKeys, Mode: rule.Enforce})
	r := tried{
		name: name{limitKind, id}, text: of.String(), mode: cfg.Mode, plans: of.Plans,
		threshold: float64(cfg.Limit), interval: cfg.Window, perKey: true, rated: true,
	}
	cfg.Mode = tryAs(cfg.Mode)
	r.limit = cfg
	t.all = append(t.all, r)
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
