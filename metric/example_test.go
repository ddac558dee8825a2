package metric_test

import (
	"fmt"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/metric"
)

func ExampleNew() {
	m, err := metric.New(10, time.Second)
	if err != nil {
		panic(err)
	}
	at := func(d time.Duration) int64 { return int64(d) }

	for i := range 30 {
		m.Add(at(time.Duration(i)*50*time.Millisecond), metric.Pass, 1)
	}
	m.AddRT(at(1400*time.Millisecond), 12*time.Millisecond)
	m.AddRT(at(1450*time.Millisecond), 18*time.Millisecond)

	now := at(1499 * time.Millisecond)
	fmt.Println("pass per second:", m.QPS(now, metric.Pass))
	fmt.Println("average:", m.AvgRT(now), "minimum:", m.MinRT(now))
	fmt.Println("passes in all:", m.Total(metric.Pass))
	// Output:
	// pass per second: 20
	// average: 15ms minimum: 12ms
	// passes in all: 30
}

func ExampleLatencies_Quantile() {
	m, err := metric.New(10, time.Second)
	if err != nil {
		panic(err)
	}
	for i := range 100 {
		m.AddRT(0, time.Duration(i+1)*time.Millisecond)
	}
	l := m.Latencies()
	fmt.Println(l.Count(), "calls")
	fmt.Println("median within 4.4 % of 50ms:", l.Quantile(0.5).Round(time.Millisecond))
	// Output:
	// 100 calls
	// median within 4.4 % of 50ms: 50ms
}

func ExampleCounter() {
	var refused metric.Counter
	refused.Add(1)
	refused.Add(2)
	fmt.Println(refused.Load())
	// Output: 3
}

func ExampleLatencies_Cells() {
	m, err := metric.New(10, time.Second)
	if err != nil {
		panic(err)
	}
	for range 3 {
		m.AddRT(0, 20*time.Millisecond)
	}
	m.AddRT(0, time.Second)
	for i, n := range m.Latencies().Cells() {
		edge := math.Exp2(float64(i) / 8)
		fmt.Printf("%d up to %.4f s, index %d\n", n, edge, i)
	}
	// Output:
	// 3 up to 0.0203 s, index -45
	// 1 up to 1.0000 s, index 0
}

func ExampleLatencies_Plus() {
	m, err := metric.New(10, time.Second)
	if err != nil {
		panic(err)
	}
	m.AddRT(0, time.Second)
	twice := m.Latencies().Plus(m.Latencies())
	fmt.Println(twice.Count(), "calls, median", twice.Quantile(0.5).Round(100*time.Millisecond))
	// Output: 2 calls, median 1s
}

func ExampleMetric_TotalsAndLatencies() {
	m, err := metric.New(10, time.Second)
	if err != nil {
		panic(err)
	}
	stripe := m.Pass(0, 1)
	m.Complete(1e6, stripe, 1, 1e6, false)
	totals, latencies := m.TotalsAndLatencies()
	fmt.Println(totals[metric.Success], latencies.Count())
	// Output: 1 1
}
