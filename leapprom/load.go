package leapprom

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/leapgate-go/leapgate/stat"
)

// collectLoad adds what is known of the load of the machine.
func collectLoad(d *descs, s *samples, labels []*dto.LabelPair, load *stat.Signals) {
	for _, one := range [...]struct {
		desc   *prometheus.Desc
		signal stat.Signal
	}{
		{d.cpu, load.CPU},
		{d.throttled, load.Throttled},
		{d.pressure, load.Pressure},
		{d.schedLatency, load.SchedLatency},
		{d.processors, stat.Signal{Value: load.Processors, Known: load.Processors > 0}},
	} {
		if one.signal.Known {
			s.gauge(one.desc, labels, one.signal.Value)
		}
	}
}
