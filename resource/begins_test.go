package resource_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
)

// begins notes when calls begin.
type begins struct {
	all sync.WaitGroup
	mu  sync.Mutex // guards at
	at  []time.Time
}

// call makes one call through all of the resources. The first five that begin take 8 s.
func (b *begins) call(g *leapgate.Gate, opts []leapgate.EntryOption, resources ...string) {
	b.all.Go(func() {
		for _, name := range resources {
			e, err := g.Resource(name).EntryContext(nil, opts...) //nolint:staticcheck // none is needed
			defer e.Exit()
			if err != nil {
				return
			}
		}
		b.mu.Lock()
		b.at = append(b.at, time.Now())
		long := len(b.at) <= 5
		b.mu.Unlock()
		if long {
			time.Sleep(8 * time.Second)
		}
	})
}

// most is how many calls began in the fullest span of that length, wherever it begins.
func (b *begins) most(span time.Duration) (most int) {
	b.all.Wait()
	slices.SortFunc(b.at, time.Time.Compare)
	for i, from := range b.at {
		n, _ := slices.BinarySearchFunc(b.at[i:], from.Add(span), time.Time.Compare)
		most = max(most, n)
	}
	return most
}

// A strict rule and a paced one bound what they admit, which is when a call comes, or when its turn
// does. Where another rule lets calls wait after that, they begin later, and all at once. The
// guarantees in docs/guarantees.md name these numbers.
func TestBegins_BunchWhereAnotherRuleLetsCallsWait(t *testing.T) {
	t.Parallel()
	places := []isolation.Rule{{Resource: "a", MaxInFlight: 5, MaxWait: 10 * time.Second}}
	for name, c := range map[string]struct {
		rules    []flow.Rule
		places   []isolation.Rule
		every    time.Duration
		span     time.Duration
		opts     []leapgate.EntryOption
		resource []string
		want     int
	}{
		"strict, and a queue for places": {
			rules:  []flow.Rule{{Resource: "a", Threshold: 10, Strict: true}},
			places: places, every: 10 * time.Millisecond, span: time.Second, resource: []string{"a"}, want: 85,
		},
		"paced, and a queue for places": {
			rules:  []flow.Rule{{Resource: "a", Threshold: 10, Behavior: flow.Pace}},
			places: places, every: 10 * time.Millisecond, span: time.Second, resource: []string{"a"}, want: 85,
		},
		"strict, and priority with another rule": {
			rules: []flow.Rule{
				{Resource: "a", Threshold: 10, Interval: 100 * time.Millisecond, Strict: true},
				{Resource: "a", Threshold: 100, Interval: 10 * time.Second, MaxWait: 10 * time.Second},
			},
			every: 5 * time.Millisecond, span: 100 * time.Millisecond, opts: []leapgate.EntryOption{leapgate.WithPriority()}, resource: []string{"a"}, want: 92,
		},
		"strict on a resource of its own, inside": {
			rules:  []flow.Rule{{Resource: "inside", Threshold: 10, Strict: true}},
			places: places, every: 10 * time.Millisecond, span: time.Second, resource: []string{"a", "inside"}, want: 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := leapgate.Must(leapgate.Config{})
				require.NoError(t, g.LoadFlowRules(c.rules))
				require.NoError(t, gates.LoadIsolation(g, c.places))
				b := &begins{}
				end := time.Now().Add(9 * time.Second)
				for ; time.Now().Before(end); time.Sleep(c.every) {
					b.call(g, c.opts, c.resource...)
				}
				require.Equal(t, c.want, b.most(c.span))
			})
		})
	}
}
