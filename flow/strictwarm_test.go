package flow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// Under full use a strict rule gets warm as others do, however few its buckets are: its windows
// are longer by one of them.
func TestWarmUp_StrictFullUseWarms(t *testing.T) {
	t.Parallel()
	combination := 0
	for buckets := 1; buckets <= 10; buckets++ {
		for _, cold := range []float64{2, 3, 10, 100, 1000} {
			for _, interval := range []time.Duration{time.Second, 2520 * ms, 252 * ms} {
				if combination++; gatetest.Race && combination%7 > 0 || interval%time.Duration(buckets) != 0 {
					continue
				}
				rule := flow.Rule{
					Resource: "a", Threshold: 100, Interval: interval, Buckets: buckets, Strict: true,
					Strategy: flow.WarmUp, WarmUpPeriod: 10 * time.Second, ColdFactor: cold,
				}
				g := newGate(t, rule)
				passed := time.Duration(0)
				for ; g.snapshot(t, "a").Effective < rule.Threshold && passed < time.Minute; passed += 21 * ms {
					for g.try(t, "a", 1) == 1 {
					}
					g.clock.Add(int64(21 * ms))
				}
				assert.Less(t, passed, 35*time.Second, fmt.Sprint(buckets, " buckets, cold factor ", cold, ", ", interval))
			}
		}
	}
}
