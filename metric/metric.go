// Package metric counts the calls of one thing over a sliding window, and has the types of
// the figures that a gate has: [Event], [Counts] and [Latencies].
//
// A [Metric] is for what a program wants to count by itself, with a window of its own.
// It has totals, which only grow, and a ring of buckets: what happened in the window is the
// totals now less those at the time when the oldest of its buckets opened. Nothing is ever
// reset, so no event is lost between two buckets, however many goroutines add.
//
// Every method that takes now takes it in nanoseconds, on whatever axis the caller keeps; the
// package reads no clock. An event is counted in the bucket that is open when it is
// added, so that under a given clock sequential use is exact. If now goes back, the newest
// bucket counts.
//
// For buckets with contents of one's own see package leaparray.
package metric

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/meter"
)

// Metric counts events. Make one with [New]. All methods may be called by any number of
// goroutines at once. None takes a lock. Those that add allocate only to open a bucket, or
// the first time.
type Metric struct{ meter *meter.Meter }

// New makes a metric whose window has the given number of buckets and covers interval, which
// must divide by their number. What is wrong with either is [leaparray.ErrConfig].
//
// [leaparray.ErrConfig]: https://pkg.go.dev/github.com/leapgate-go/leapgate/leaparray#ErrConfig
func New(buckets int, interval time.Duration) (*Metric, error) {
	m, err := meter.New(buckets, interval)
	if err != nil {
		return nil, err
	}
	return &Metric{m}, nil
}

// Add counts n of an event. It adds nothing if n is below 1 or the event is
// unknown: totals only grow.
func (m *Metric) Add(now int64, e Event, n int64) { m.meter.Add(now, uint8(e), n) }

// AddRT counts one completed call: one success, and its response time. A response time
// below 0 counts as 0.
func (m *Metric) AddRT(now int64, rt time.Duration) { m.meter.AddRT(now, rt) }

// QPS is the number of events in the window per second of its length. The
// bucket of now is not over yet, so it is low by what the rest of that bucket
// will bring.
func (m *Metric) QPS(now int64, e Event) float64 { return m.meter.QPS(now, uint8(e)) }

// AvgRT is the average response time of the calls completed in the window, 0
// with no calls.
func (m *Metric) AvgRT(now int64) time.Duration { return meter.AvgRT(m.meter.Window(now)) }

// MinRT is the shortest response time of the calls completed in the window, 0
// with no calls.
func (m *Metric) MinRT(now int64) time.Duration { return m.meter.MinRT(now) }

// Concurrency is the number of calls in flight: passes that did not complete. It is never
// below 0. While calls come and go it may be a little below the truth, and is never above it.
func (m *Metric) Concurrency() int64 { return m.meter.Concurrency() }

// Totals are all events since the metric was made. Success ≤ Pass holds in them
// at any time, if every completed call has passed. An exception may be seen a moment
// before its success.
func (m *Metric) Totals() Counts { return m.meter.Totals() }

// Latencies are those of all calls since the metric was made that [Metric.AddRT] counted.
func (m *Metric) Latencies() Latencies { return Latencies(m.meter.Latencies()) }
