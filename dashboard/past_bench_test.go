package dashboard

import "testing"

// BenchmarkHistory is what a second costs while history is kept: reading the figures of all
// resources, each with a rule, all of which have changed, and noting them.
func BenchmarkHistory(b *testing.B) {
	gate, traffic := busyGate(b, 1000)
	d := Handler(gate, Config{})
	p := newPast(defaultHistoryBytes)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		traffic()
		b.StartTimer()
		all := d.snapshot()
		p.feed(d.timeOf(all), all)
	}
	b.ReportMetric(float64(p.used)/1000, "bytes/resource")
}
