package leapprom

import (
	dto "github.com/prometheus/client_model/go"

	"github.com/leapgate-go/leapgate/limit"
)

type limiter struct {
	Limiter
	described limit.Description

	labels, allowed, refused []*dto.LabelPair
}

func newLimiter(l Limiter, described limit.Description, name, gate string) *limiter {
	return &limiter{
		Limiter: l, described: described,
		labels:  pairs("gate", gate, "limiter", name),
		allowed: pairs("answer", "allowed", "gate", gate, "limiter", name),
		refused: pairs("answer", "refused", "gate", gate, "limiter", name),
	}
}

// limit is the limit now: it may change.
func (l *limiter) limit() int64 {
	if now := l.Describe(); len(now) == 1 {
		return now[0].Limit
	}
	return l.described.Limit
}

func (l *limiter) read(d *descs, s *samples) {
	stats := l.Stats()
	s.count(d.decisions, l.allowed, nil, stats.Allowed)
	s.count(d.decisions, l.refused, nil, stats.Refused)
	s.count(d.wouldRefuse, l.labels, nil, stats.WouldRefuse)
	s.count(d.degraded, l.labels, nil, stats.Degraded)
	s.count(d.expiredKeys, l.labels, nil, stats.Expired)
	s.count(d.evictedKeys, l.labels, nil, stats.Evicted)
	s.count(d.crowded, l.labels, nil, stats.Crowded)
	s.count(d.coarse, l.labels, nil, stats.Coarse)
	away := 0.0
	if stats.Away {
		away = 1
	}
	s.gauge(d.away, l.labels, away)
	s.gauge(d.keys, l.labels, float64(stats.Keys))
	s.gauge(d.maxKeys, l.labels, float64(stats.MaxKeys))
	s.gauge(d.placesTaken, l.labels, float64(stats.InFlight))
	s.gauge(d.bytes, l.labels, float64(stats.Bytes))
	s.gauge(d.limit, l.labels, float64(l.limit()))
	s.gauge(d.window, l.labels, l.described.Window.Seconds())
}
