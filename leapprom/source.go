package leapprom

import (
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
)

// source has the labels of the series of one resource. Their values are its totals.
type source struct {
	labels, pass, block []*dto.LabelPair

	serial  int64 // of the registration that the series count
	created *timestamppb.Timestamp
	named   bool  // by a rule
	reading int64 // the last one that the resource was in
	rules   map[ruleID]*ruleSeries
}

// source returns the source of a resource: a new one if it may have series, or nil.
func (c *Collector) source(t *resource.Totals) *source {
	src := c.sources[t.Resource]
	if src == nil {
		value := label(t.Resource)
		if c.values[value] || !t.Named && c.unnamed >= c.cfg.MaxResources {
			return nil
		}
		if !t.Named {
			c.unnamed++
		}
		gate := c.cfg.Gate
		src = &source{
			labels: pairs("gate", gate, "resource", value),
			pass:   pairs("gate", gate, "resource", value, "result", "pass"),
			block:  pairs("gate", gate, "resource", value, "result", "block"),
			rules:  make(map[ruleID]*ruleSeries),
		}
		c.values[value] = true
		c.sources[t.Resource] = src
	}
	if src.serial != t.Serial {
		src.serial, src.created = t.Serial, timestamppb.New(t.Since)
	}
	src.named, src.reading = t.Named, c.readings
	return src
}

// endSeries ends the series of the resources that were not in the last reading.
func (c *Collector) endSeries() {
	c.unnamed = 0
	for name, src := range c.sources {
		switch {
		case src.reading != c.readings:
			delete(c.sources, name)
			delete(c.values, src.labels[1].GetValue())
		case !src.named:
			c.unnamed++
		}
	}
}

func (c *Collector) collect(s *samples, src *source, t *resource.Totals) {
	d, counts := c.descs, &t.Counts
	s.count(d.entries, src.block, src.created, counts[metric.Block])
	s.count(d.entries, src.pass, src.created, counts[metric.Pass])
	s.count(d.exceptions, src.labels, src.created, counts[metric.Exception])
	s.count(d.ignored, src.labels, src.created, counts[metric.Ignored])
	s.count(d.occupied, src.labels, src.created, counts[metric.OccupiedPass])
	s.histogram(d.responseTime, src.labels, src.created, t.Latencies, counts[metric.RT], c.classic)
	s.gauge(d.inFlight, src.labels, float64(counts.Concurrency()))
	waited := len(t.Waits.Counts) > 0
	if waited {
		s.histogram(d.waitTime, src.labels, src.created, t.Waits, counts[metric.Wait], c.classic)
	}
	if waited || t.Waiting != 0 {
		s.gauge(d.waiting, src.labels, float64(t.Waiting))
	}
	c.collectRules(s, src, t.Rules)
}
