package dashboard

import (
	"fmt"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

// busyGate returns a gate with n resources, each with a rule, that have been busy for a minute, and
// calls them all: between frames, all figures change.
func busyGate(b *testing.B, n int) (gate *leapgate.Gate, traffic func()) {
	b.Helper()
	now := int64(1_700_000_000_000_000_000)
	gate = leapgate.Must(leapgate.Config{Now: func() int64 { return now }})
	rules := make([]flow.Rule, n)
	for i := range rules {
		rules[i] = flow.Rule{Resource: fmt.Sprintf("GET /orders/items/%05d", i), Threshold: 100}
	}
	if err := gate.LoadFlowRules(rules); err != nil {
		b.Fatal(err)
	}
	traffic = func() {
		for i := range rules {
			for range 1 + i%5 {
				if e, err := gate.Entry(rules[i].Resource); err == nil {
					now += int64(time.Microsecond)
					e.Exit()
				}
			}
		}
		now += int64(time.Second)
	}
	for range 61 {
		traffic()
	}
	return gate, traffic
}

// BenchmarkFrame is what a second costs while anybody watches: reading the figures of all
// resources, each with a rule, all of which have changed, writing the frame, and handing it to
// so many viewers.
func BenchmarkFrame(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for _, viewers := range []int{1, 5, 32} {
			b.Run(fmt.Sprintf("%d/viewers=%d", n, viewers), func(b *testing.B) {
				gate, traffic := busyGate(b, n)
				d := Handler(gate, Config{})
				s := d.stream
				s.stop = make(chan struct{})
				all := make([]*viewer, viewers)
				for i := range all {
					all[i] = &viewer{frames: make(chan []byte, maxBehind), gone: make(chan struct{})}
					s.viewers[all[i]] = struct{}{}
				}
				size := 0
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					traffic()
					b.StartTimer()
					s.send(d.read())
					for _, v := range all {
						size = len(<-v.frames)
					}
				}
				b.ReportMetric(float64(size), "bytes/frame")
			})
		}
	}
}
