package leapprom

import (
	"cmp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// ruleID is a rule as the gate reports it.
type ruleID struct {
	kind, id string
	nth      int // of those with the same ID on the resource, which only guards of the program have
}

// ruleSeries are those of one rule on a source.
type ruleSeries struct {
	guard  string               // the value of that label
	labels []*dto.LabelPair     // nil if another rule has them: then other shows what it counts
	info   []*dto.LabelPair     // with the mode, as it was last
	shed   *[4][]*dto.LabelPair // as shedLabels made them; nil until something is shed
	states []stateSeries        // one for each state that it can be in, as they were last

	serial             int64               // of the rule's counts that last is from
	now                *stat.RuleSnapshot  // of the reading at hand; nil if it is not there
	left               int64               // the reading in which it was missed first; 0 if it was there last
	last, offset, base resource.RuleTotals // as those of a source
	blocks, would      bool                // whether it has, or had once, what such a series counts
	candidate, changes bool
	shared             bool // the changes are those of all resources that the rule binds
}

// stateSeries is the series of one state of a rule.
type stateSeries struct {
	state  string
	labels []*dto.LabelPair
}

func (r *ruleSeries) shown() resource.RuleTotals { return r.base.Plus(r.last).Minus(r.offset) }

// maxLeft is how many rules that do not bind a resource any more keep their series there.
const maxLeft = 5

// readRules takes the rules of a reading. The series of those that do not bind the
// resource any more stay as they are, and go on if the rule comes again: if other showed
// at once what they have counted in all their time, its rate would be false. Only when
// there are too many do the oldest end, and other takes what they showed.
func (s *source) readRules(c *Collector, t *resource.Totals) {
	for i := range t.Rules {
		now, serial := &t.Rules[i], t.RuleSerials[i]
		totals := resource.TotalsOf(now)
		id := ruleID{kind: now.Kind, id: now.ID}
		r := s.rules[id]
		for ; r != nil && r.now != nil; r = s.rules[id] {
			id.nth++
		}
		if r == nil {
			r = s.newRule(c, id)
			s.rules[id] = r
		}
		if r.serial != serial {
			r.base, r.offset = r.shown(), resource.RuleTotals{}
			if serial <= c.lastRule { // other has shown these
				r.offset = resource.OwnTotalsOf(now)
			}
		}
		r.serial, r.last, r.now, r.left = serial, totals, now, 0
		r.blocks = r.blocks || now.Mode == rule.Enforce
		r.would = r.would || now.Mode == rule.Shadow
		r.candidate = r.candidate || now.Candidate > 0
		r.changes, r.shared = r.changes || now.State != "", now.SharedState
	}
	var left []ruleID
	for id, r := range s.rules {
		switch {
		case r.now != nil:
			continue
		case r.labels == nil || r.shown() == resource.RuleTotals{}:
			delete(s.rules, id)
			continue
		case r.left == 0:
			r.left = c.readings
		}
		left = append(left, id)
	}
	if len(left) > maxLeft {
		slices.SortFunc(left, func(a, b ruleID) int {
			return cmp.Or(cmp.Compare(s.rules[a].left, s.rules[b].left), strings.Compare(a.id, b.id))
		})
		for _, id := range left[:len(left)-maxLeft] {
			delete(s.rules, id)
		}
	}
}

func (s *source) newRule(c *Collector, id ruleID) *ruleSeries {
	guard, value := c.guard(id.kind), label(id.id)
	taken := s == c.other && value == resource.Other
	for _, r := range s.rules {
		taken = taken || r.guard == guard && r.labels != nil && r.labels[3].GetValue() == value
	}
	if taken {
		return &ruleSeries{guard: guard}
	}
	return &ruleSeries{guard: guard, labels: c.ruleLabels(guard, s.value(), value)}
}

// guard returns the value of the label "guard".
func (c *Collector) guard(kind string) string {
	value, known := c.guards[kind]
	if !known {
		value = label(kind)
		c.guards[kind] = value
	}
	return value
}

func (c *Collector) ruleLabels(guard, resource, rule string) []*dto.LabelPair {
	return pairs("gate", c.cfg.Gate, "guard", guard, "resource", resource, "rule", rule)
}

func (r *ruleSeries) collect(c *Collector, s *samples) {
	if r.labels == nil {
		return
	}
	shown := r.shown()
	if r.blocks || shown.Blocked > 0 { // the rule may have been changed, and removed, since the last reading
		s.count(c.descs.blocks, r.labels, nil, shown.Blocked)
	}
	if r.would || shown.WouldBlock > 0 {
		s.count(c.descs.wouldBlocks, r.labels, nil, shown.WouldBlock)
	}
	if r.candidate || shown.CandidateWouldBlock > 0 {
		s.count(c.descs.candidateWouldBlocks, r.labels, nil, shown.CandidateWouldBlock)
	}
	if r.changes || shown.Changes > 0 {
		s.count(c.descs.changes, r.labels, nil, shown.Changes)
	}
	if shown.Missing > 0 {
		s.count(c.descs.missing, r.labels, nil, shown.Missing)
	}
	if shown.Shed != (stat.ByCriticality{}) {
		if r.shed == nil {
			r.shed = c.shedLabels(r.guard, r.labels[2].GetValue(), r.labels[3].GetValue())
		}
		c.collectShed(s, r.shed, shown.Shed)
	}
	if r.now == nil {
		return
	}
	r.collectStates(c, s)
	mode := r.now.Mode.String()
	if r.info == nil || r.info[2].GetValue() != mode {
		r.info = pairs("gate", c.cfg.Gate, "guard", r.guard, "mode", mode,
			"resource", r.labels[2].GetValue(), "rule", r.labels[3].GetValue())
	}
	s.gauge(c.descs.mode, r.info, 1)
	s.gauge(c.descs.threshold, r.labels, r.now.Threshold)
	s.gauge(c.descs.effective, r.labels, r.now.Effective)
	s.gauge(c.descs.interval, r.labels, r.now.Interval.Seconds())
	if r.now.Candidate > 0 {
		s.gauge(c.descs.candidate, r.labels, r.now.Candidate)
	}
}

// shedLabels are those of the series of what a rule has shed: by criticality, as collectShed goes
// through them.
func (c *Collector) shedLabels(guard, resource, rule string) *[4][]*dto.LabelPair {
	all := new([4][]*dto.LabelPair)
	for i, criticality := range [...]string{"critical", "default", "sheddable", "background"} {
		all[i] = pairs("criticality", criticality, "gate", c.cfg.Gate, "guard", guard, "resource", resource, "rule", rule)
	}
	return all
}

// collectShed adds a series for each criticality of which anything was refused.
func (c *Collector) collectShed(s *samples, labels *[4][]*dto.LabelPair, n stat.ByCriticality) {
	for i, n := range [...]int64{n.Critical, n.Default, n.Sheddable, n.Background} {
		if n != 0 {
			s.count(c.descs.shed, labels[i], nil, n)
		}
	}
}

// collectStates adds a series for each state that the rule can be in. Package resource
// bounds how many there are, and which letters they have.
func (r *ruleSeries) collectStates(c *Collector, s *samples) {
	same := func(series stateSeries, state string) bool { return series.state == state }
	if !slices.EqualFunc(r.states, r.now.States, same) {
		r.states = nil
		for _, state := range r.now.States {
			r.states = append(r.states, stateSeries{state, pairs("gate", c.cfg.Gate, "guard", r.guard,
				"resource", r.labels[2].GetValue(), "rule", r.labels[3].GetValue(), "state", state)})
		}
	}
	for _, series := range r.states {
		in := 0.0
		if series.state == r.now.State {
			in = 1
		}
		s.gauge(c.descs.state, series.labels, in)
	}
}
