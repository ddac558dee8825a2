package flow_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/stat"
)

// queue records how long calls are told to wait. The clock of the test stands
// meanwhile.
type queue struct {
	mu    sync.Mutex // guards waits
	waits []time.Duration
}

func (q *queue) sleep(_ context.Context, d time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits = append(q.waits, d)
	return nil
}

// taken returns the waits since it was asked last.
func (q *queue) taken() []time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.waits = nil }()
	return q.waits
}

// newGateWith is newGate with what else cfg says.
func newGateWith(t testing.TB, cfg leapgate.Config, rules ...flow.Rule) *gate {
	t.Helper()
	g := &gate{}
	g.clock.Store(minute)
	cfg.Now = g.clock.Load
	g.Gate = gates.With(t, cfg, rules...)
	return g
}

// newQueue is newGate with a queue in which the clock stands.
func newQueue(t testing.TB, rules ...flow.Rule) (*gate, *queue) {
	t.Helper()
	q := &queue{}
	return newGateWith(t, leapgate.Config{Sleep: q.sleep}, rules...), q
}

// snapshot returns the figures of the first rule of a resource.
func (g *gate) snapshot(t testing.TB, name string) stat.RuleSnapshot {
	t.Helper()
	rules := g.Resource(name).Snapshot().Rules
	require.NotEmpty(t, rules)
	return rules[0]
}

// heap is a memory of which the test tells how much is in use.
type heap struct {
	used    atomic.Int64
	unknown atomic.Bool
}

func (h *heap) Used() (bytes int64, known bool) { return h.used.Load(), !h.unknown.Load() }

// list makes durations of milliseconds.
func list(millis ...int64) (all []time.Duration) {
	for _, m := range millis {
		all = append(all, time.Duration(m)*ms)
	}
	return all
}

// sleeper is a Config.Sleep that nothing ends.
func sleeper(sleep func(d time.Duration)) func(context.Context, time.Duration) error {
	return func(_ context.Context, d time.Duration) error {
		sleep(d)
		return nil
	}
}
