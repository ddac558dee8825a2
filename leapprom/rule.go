package leapprom

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// ruleID identifies a rule on a resource.
type ruleID struct{ kind, id string }

// ruleSeries has the labels of the series of one rule on a resource.
type ruleSeries struct {
	guard  string // the value of that label
	labels []*dto.LabelPair
	info   []*dto.LabelPair   // with the mode, as it was last
	shed   [][]*dto.LabelPair // by criticality; nil until something is shed
	states []stateSeries      // one for each state that it can be in, as they were last

	reading int64 // the last one that the rule was in
	used    bool  // the rule counts what of its threshold is used
}

// stateSeries is the series of one state of a rule.
type stateSeries struct {
	state  string
	labels []*dto.LabelPair
}

// collectRules adds the series of the rules on a resource. Of several with the same labels, only the
// first has series.
func (c *Collector) collectRules(s *samples, src *source, rules []stat.RuleSnapshot) {
	for i := range rules {
		now := &rules[i]
		id := ruleID{now.Kind, now.ID}
		r := src.rules[id]
		if r == nil {
			if r = src.newRule(c, id); r == nil {
				continue
			}
			src.rules[id] = r
		}
		if r.reading != c.readings {
			r.reading = c.readings
			r.collect(c, s, now)
		}
	}
	maps.DeleteFunc(src.rules, func(_ ruleID, r *ruleSeries) bool { return r.reading != c.readings })
}

// newRule returns new series, or nil if another rule has the same labels.
func (s *source) newRule(c *Collector, id ruleID) *ruleSeries {
	guard, value := label(id.kind), label(id.id)
	for _, r := range s.rules {
		if r.guard == guard && r.labels[3].GetValue() == value {
			return nil
		}
	}
	labels := pairs("gate", c.cfg.Gate, "guard", guard, "resource", s.labels[1].GetValue(), "rule", value)
	return &ruleSeries{guard: guard, labels: labels}
}

func (r *ruleSeries) collect(c *Collector, s *samples, now *stat.RuleSnapshot) {
	d := c.descs
	for _, one := range [...]struct {
		desc  *prometheus.Desc
		value int64
		shown bool // even if it is 0
	}{
		{d.blocks, now.Blocked, now.Mode == rule.Enforce},
		{d.wouldBlocks, now.WouldBlock, now.Mode == rule.Shadow},
		{d.candidateWouldBlocks, now.CandidateWouldBlock, now.Candidate > 0},
		{d.changes, now.Changes, now.State != ""},
		{d.missing, now.Missing, false},
	} {
		if one.shown || one.value > 0 {
			s.count(one.desc, r.labels, nil, one.value)
		}
	}
	r.collectShed(c, s, now.Shed)
	r.collectStates(c, s, now)
	mode := now.Mode.String()
	if r.info == nil || r.info[2].GetValue() != mode {
		r.info = pairs("gate", c.cfg.Gate, "guard", r.guard, "mode", mode,
			"resource", r.labels[2].GetValue(), "rule", r.labels[3].GetValue())
	}
	s.gauge(d.mode, r.info, 1)
	s.gauge(d.threshold, r.labels, now.Threshold)
	s.gauge(d.effective, r.labels, now.Effective)
	s.gauge(d.interval, r.labels, now.Interval.Seconds())
	if r.used = r.used || now.Used > 0; r.used && now.Used >= 0 {
		s.gauge(d.used, r.labels, float64(now.Used))
	}
	if now.Candidate > 0 {
		s.gauge(d.candidate, r.labels, now.Candidate)
	}
}

// collectShed adds a series for each criticality of which the rule has blocked calls.
func (r *ruleSeries) collectShed(c *Collector, s *samples, n stat.ByCriticality) {
	if n == (stat.ByCriticality{}) {
		return
	}
	if r.shed == nil {
		for _, criticality := range [...]string{"critical", "default", "sheddable", "background"} {
			r.shed = append(r.shed, pairs("criticality", criticality, "gate", c.cfg.Gate, "guard", r.guard,
				"resource", r.labels[2].GetValue(), "rule", r.labels[3].GetValue()))
		}
	}
	for i, n := range [...]int64{n.Critical, n.Default, n.Sheddable, n.Background} {
		if n != 0 {
			s.count(c.descs.shed, r.shed[i], nil, n)
		}
	}
}

// collectStates adds a series for each state that the rule can be in. Package resource
// bounds how many there are, and which letters they have.
func (r *ruleSeries) collectStates(c *Collector, s *samples, now *stat.RuleSnapshot) {
	same := func(series stateSeries, state string) bool { return series.state == state }
	if !slices.EqualFunc(r.states, now.States, same) {
		r.states = nil
		for _, state := range now.States {
			r.states = append(r.states, stateSeries{state, pairs("gate", c.cfg.Gate, "guard", r.guard,
				"resource", r.labels[2].GetValue(), "rule", r.labels[3].GetValue(), "state", state)})
		}
	}
	for _, series := range r.states {
		in := 0.0
		if series.state == now.State {
			in = 1
		}
		s.gauge(c.descs.state, series.labels, in)
	}
}
