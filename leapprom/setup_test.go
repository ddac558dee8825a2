package leapprom_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapprom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is one call that takes no time, and reports whether it passed.
func call(g *leapgate.Gate, name string) bool {
	e, err := g.Entry(name)
	e.Exit()
	return err == nil
}

// reading is all series of one scrape: name{label="value",…} → value. A histogram has
// _count and _sum, _bucket{…,le="…"} for each classic bucket, and _native{…,i="…"} for
// each native one, of which i="zero" is that.
type reading map[string]float64

func scrape(t require.TestingT, g prometheus.Gatherer) reading {
	families, err := g.Gather()
	require.NoError(t, err)
	r := make(reading)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			r.add(t, f, m)
		}
	}
	return r
}

func (r reading) add(t require.TestingT, f *dto.MetricFamily, m *dto.Metric) {
	set := func(suffix string, value float64, more ...string) {
		var labels []string
		for _, l := range m.GetLabel() {
			if l.GetName() != "gate" {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
		}
		name := f.GetName() + suffix + "{" + strings.Join(append(labels, more...), ",") + "}"
		_, there := r[name]
		require.False(t, there, name)
		r[name] = value
	}
	switch {
	case m.GetCounter() != nil:
		set("", m.GetCounter().GetValue())
	case m.GetGauge() != nil:
		set("", m.GetGauge().GetValue())
	default:
		h := m.GetHistogram()
		set("_count", float64(h.GetSampleCount()))
		set("_sum", h.GetSampleSum())
		for _, b := range h.GetBucket() {
			set("_bucket", float64(b.GetCumulativeCount()), fmt.Sprintf("le=%g", b.GetUpperBound()))
		}
		set("_native", float64(h.GetZeroCount()), "i=zero")
		index, n, deltas := int32(0), int64(0), h.GetPositiveDelta()
		for _, span := range h.GetPositiveSpan() {
			index += span.GetOffset()
			for range span.GetLength() {
				n += deltas[0]
				deltas = deltas[1:]
				if n != 0 {
					set("_native", float64(n), fmt.Sprintf("i=%d", index))
				}
				index++
			}
		}
		require.Empty(t, deltas)
	}
}

// only returns those series whose names begin so.
func (r reading) only(prefixes ...string) reading {
	some := make(reading)
	for name, value := range r {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, "leapgate_"+p) }) {
			some[strings.TrimPrefix(name, "leapgate_")] = value
		}
	}
	return some
}

// sum adds up those series.
func (r reading) sum(prefix string, containing ...string) (sum float64) {
	for name, value := range r.only(prefix) {
		if !slices.ContainsFunc(containing, func(part string) bool { return !strings.Contains(name, part) }) {
			sum += value
		}
	}
	return sum
}

func registryOf(t require.TestingT, g *leapgate.Gate, cfg leapprom.Config) *prometheus.Registry {
	collector, err := leapprom.New(g, cfg)
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	return registry
}
