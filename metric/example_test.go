package metric_test

import (
	"fmt"
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
