package metric_test

import (
	"fmt"
	"math"
	"time"

	"github.com/leapgate-go/leapgate/metric"
)

// A metric of one's own: the jobs of a worker in the last second, by its own clock.
func Example() {
	jobs, err := metric.New(10, time.Second) // ten buckets of 100 ms
	if err != nil {
		panic(err)
	}
	at := func(d time.Duration) int64 { return int64(d) }

	for i := range 30 { // a job begins every 50 ms
		jobs.Add(at(time.Duration(i)*50*time.Millisecond), metric.Pass, 1)
	}
	jobs.AddRT(at(1400*time.Millisecond), 12*time.Millisecond) // two of them end
	jobs.AddRT(at(1450*time.Millisecond), 18*time.Millisecond)

	now := at(1499 * time.Millisecond)
	fmt.Println("begun per second:", jobs.QPS(now, metric.Pass))
	fmt.Println("average:", jobs.AvgRT(now), "minimum:", jobs.MinRT(now))
	fmt.Println("in flight:", jobs.Concurrency(), "of", jobs.Totals()[metric.Pass])
	// Output:
	// begun per second: 20
	// average: 15ms minimum: 12ms
	// in flight: 28 of 30
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

func ExampleLatencies() {
	m, err := metric.New(10, time.Second)
	if err != nil {
		panic(err)
	}
	for range 3 {
		m.AddRT(0, 20*time.Millisecond)
	}
	m.AddRT(0, time.Second)
	l := m.Latencies()
	for i, n := range l.Counts {
		if n > 0 {
			edge := math.Exp2(float64(l.First+i) / 8)
			fmt.Printf("%d up to %.4f s, index %d\n", n, edge, l.First+i)
		}
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
