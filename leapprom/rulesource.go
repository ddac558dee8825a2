package leapprom

import (
	"reflect"

	dto "github.com/prometheus/client_model/go"
)

type ruleSource struct {
	RuleSource
	labels []*dto.LabelPair
}

func (r *ruleSource) read(d *descs, s *samples) {
	at, err := r.LastLoad()
	successful, seconds := 0.0, 0.0
	if err == nil {
		successful = 1
	}
	if !at.IsZero() {
		seconds = float64(at.UnixNano()) / 1e9
	}
	s.gauge(d.lastLoadSuccessful, r.labels, successful)
	s.gauge(d.lastLoadTimestamp, r.labels, seconds)
}

// isNil reports whether a source is nil, or a nil pointer, which would panic when it is asked.
func isNil(r RuleSource) bool {
	v := reflect.ValueOf(r)
	return r == nil || v.Kind() == reflect.Pointer && v.IsNil()
}
