package leapprom

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// samples are the series of one reading. There may be very many, so each kind is made in
// one piece, together with the messages that are written, which point into it.
type samples struct {
	counters   []counter
	gauges     []gauge
	histograms []histogram
}

func (s *samples) send(ch chan<- prometheus.Metric) {
	for i := range s.counters {
		ch <- &s.counters[i]
	}
	for i := range s.gauges {
		ch <- &s.gauges[i]
	}
	for i := range s.histograms {
		ch <- &s.histograms[i]
	}
}

type counter struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair
	created *timestamppb.Timestamp // nil if it is not known
	value   float64
	message dto.Counter
}

func (s *samples) count(desc *prometheus.Desc, labels []*dto.LabelPair, created *timestamppb.Timestamp, value int64) {
	s.counters = append(s.counters, counter{desc: desc, labels: labels, created: created, value: float64(value)})
}

func (c *counter) Desc() *prometheus.Desc { return c.desc }

func (c *counter) Write(m *dto.Metric) error {
	c.message.Value, c.message.CreatedTimestamp = &c.value, c.created
	m.Label, m.Counter = c.labels, &c.message
	return nil
}

type gauge struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair
	value   float64
	message dto.Gauge
}

func (s *samples) gauge(desc *prometheus.Desc, labels []*dto.LabelPair, value float64) {
	s.gauges = append(s.gauges, gauge{desc: desc, labels: labels, value: value})
}

func (g *gauge) Desc() *prometheus.Desc { return g.desc }

func (g *gauge) Write(m *dto.Metric) error {
	g.message.Value = &g.value
	m.Label, m.Gauge = g.labels, &g.message
	return nil
}
