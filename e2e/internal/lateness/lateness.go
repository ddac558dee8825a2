// Package lateness measures how late timers run out: that much the machine adds to any wait.
package lateness

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Meter has timers run out again and again.
type Meter struct {
	timers sync.WaitGroup
	worst  atomic.Int64
}

// Measure has so many timers at a time run out, each of the period, until the context ends.
func Measure(ctx context.Context, timers int, period time.Duration) *Meter {
	m := new(Meter)
	for range timers {
		m.timers.Go(func() {
			timer := time.NewTimer(period)
			defer timer.Stop()
			for ctx.Err() == nil {
				began := time.Now()
				timer.Reset(period)
				<-timer.C
				late := int64(time.Since(began) - period)
				for worst := m.worst.Load(); late > worst && !m.worst.CompareAndSwap(worst, late); worst = m.worst.Load() {
				}
			}
		})
	}
	return m
}

// Wait waits for the end of the context, and returns by how much the latest timer was late.
func (m *Meter) Wait() time.Duration {
	m.timers.Wait()
	return time.Duration(m.worst.Load())
}
