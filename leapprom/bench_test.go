package leapprom_test

import (
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapprom"
)

// A scrape of 10,000 resources, a tenth of them with a rule.
func BenchmarkScrape(b *testing.B) {
	const resources = 10_000
	for _, native := range []bool{false, true} {
		var rules []flow.Rule
		for i := range resources / 10 {
			rules = append(rules, flow.Rule{Resource: "GET /orders/" + strconv.Itoa(i), Threshold: 1e9})
		}
		c := gatetest.NewClock()
		g := gates.Small(b, c, resources, rules...)
		for i := range resources {
			for k := range 30 { // so many cells
				e, _ := g.Entry("GET /orders/" + strconv.Itoa(i))
				c.Advance(time.Duration(k) * time.Millisecond)
				e.Exit()
			}
		}
		collector := leapprom.Must(g, leapprom.Config{MaxResources: resources, NativeOnly: native})
		registry := prometheus.NewRegistry()
		registry.MustRegister(collector)
		name := fmt.Sprintf("resources=%d/native=%v", resources, native)
		b.Run("collect/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ch := make(chan prometheus.Metric, 1000)
				go func() { collector.Collect(ch); close(ch) }()
				for m := range ch {
					_ = m
				}
			}
		})
		b.Run("gather/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := registry.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, format := range []expfmt.FormatType{expfmt.TypeTextPlain, expfmt.TypeProtoDelim} {
			b.Run(fmt.Sprintf("format=%d/%s", format, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					families, err := registry.Gather()
					if err != nil {
						b.Fatal(err)
					}
					encoder := expfmt.NewEncoder(io.Discard, expfmt.NewFormat(format))
					for _, f := range families {
						if err := encoder.Encode(f); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
