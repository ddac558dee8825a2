package leapprom

import (
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
)

type figures struct {
	counts    metric.Counts
	latencies metric.Latencies
	waits     metric.Latencies
}

// series are figures as they are written.
type series struct {
	counts            metric.Counts
	latencies, waits  cells
	inFlight, waiting int64
}

// source is a resource with series of its own. They show what it has counted since it
// has them, whatever becomes of it: when it is evicted, its totals go to other and it may
// come again with totals that begin anew; but its series stay where they are, and other
// shows so much less.
type source struct {
	name                string
	guest               bool // a rule named it when it came
	labels, pass, block []*dto.LabelPair
	created             *timestamppb.Timestamp // nil if it is not known

	serial   int64   // of the stay in the gate that last is from
	last     figures // as they were read last
	offset   figures // what of last is not shown, for other showed it before
	base     figures // what was shown of earlier stays
	present  bool    // in the reading at hand
	promoted bool    // in the reading at hand: other showed it before
	inFlight int64
	waiting  int64
	rules    map[ruleID]*ruleSeries
}

func newSource(gate, name, value string) *source {
	return &source{
		name:   name,
		labels: pairs("gate", gate, "resource", value),
		pass:   pairs("gate", gate, "resource", value, "result", "pass"),
		block:  pairs("gate", gate, "resource", value, "result", "block"),
		rules:  make(map[ruleID]*ruleSeries),
	}
}

func (s *source) value() string { return s.labels[1].GetValue() }

func (s *source) forget() {
	s.present, s.promoted, s.inFlight, s.waiting = false, false, 0, 0
	for _, r := range s.rules {
		r.now = nil
	}
}

// read takes the figures of a reading, and those of its rules.
func (s *source) read(c *Collector, t *resource.Totals) {
	now := figures{t.Counts, t.Latencies, t.Waits}
	if s.serial != t.Serial {
		if s.serial != 0 {
			s.base, s.offset = s.shown(), figures{}
		}
		s.serial = t.Serial
	}
	if s.promoted {
		s.offset = now
	}
	s.last, s.present, s.inFlight, s.waiting = now, true, t.Counts.Concurrency(), t.Waiting
	s.readRules(c, t)
}

func (s *source) shown() figures {
	return figures{
		s.base.counts.Plus(s.last.counts).Minus(s.offset.counts),
		s.base.latencies.Plus(s.last.latencies.Since(s.offset.latencies)),
		s.base.waits.Plus(s.last.waits.Since(s.offset.waits)),
	}
}

// rest is what the series of other show: of everything, what those of all sources leave.
type rest struct {
	series
	rules map[string]resource.RuleTotals // by guard
}

// add adds what a resource without series of its own has counted.
func (r *rest) add(t *resource.Totals) {
	r.counts = r.counts.Plus(t.Counts)
	r.latencies.add(t.Latencies, 1)
	r.waits.add(t.Waits, 1)
	r.inFlight += t.Counts.Concurrency()
	r.waiting += t.Waiting
}

// leave adds what a source leaves to other, which may be less than nothing: what it shows
// of earlier stays, other has got already.
func (r *rest) leave(s *source) {
	if s.present {
		r.counts = r.counts.Plus(s.offset.counts).Minus(s.base.counts)
		r.latencies.add(s.offset.latencies, 1)
		r.latencies.add(s.base.latencies, -1)
		r.waits.add(s.offset.waits, 1)
		r.waits.add(s.base.waits, -1)
		return
	}
	shown := s.shown()
	r.counts = r.counts.Minus(shown.counts)
	r.latencies.add(shown.latencies, -1)
	r.waits.add(shown.waits, -1)
}

// leaveRules takes off what the rules of a source show. former has those of them that are
// not there, but may still go on.
func (r *rest) leaveRules(s *source, former map[int64]resource.RuleTotals) {
	for _, series := range s.rules {
		if series.labels == nil {
			continue
		}
		if totals, there := former[series.serial]; there {
			if series.shared {
				totals.Changes = series.last.Changes
			}
			series.last = totals
		}
		shown := series.shown()
		if series.shared {
			shown.Changes = 0
		}
		r.rules[series.guard] = r.rules[series.guard].Minus(shown)
	}
}
