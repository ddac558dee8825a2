package stat_test

import (
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

func ExampleStat_History() {
	s := stat.New()
	m := s.Metric()
	at := func(d time.Duration) int64 { return int64(d) }

	for i := range 20 {
		now := at(time.Duration(i) * 100 * time.Millisecond)
		stripe := m.Pass(now, 1)
		m.Complete(now, stripe, 1, int64(15*time.Millisecond), i%10 == 9)
	}
	m.Add(at(3*time.Second), metric.Block, 5)

	history := s.History(at(3500 * time.Millisecond))
	fmt.Println(len(history), "seconds, the last four:")
	for _, second := range history[len(history)-4:] {
		fmt.Println(time.Duration(second.Start), "pass", second.Pass, "exception", second.Exception,
			"block", second.Block, "average", second.AvgRT)
	}
	// Output:
	// 61 seconds, the last four:
	// 0s pass 10 exception 1 block 0 average 15ms
	// 1s pass 10 exception 1 block 0 average 15ms
	// 2s pass 0 exception 0 block 0 average 0s
	// 3s pass 0 exception 0 block 5 average 0s
}

func ExampleStat_Snapshot() {
	s := stat.New()
	m := s.Metric()
	for i := range 12 {
		now := int64(time.Duration(i) * 50 * time.Millisecond)
		m.Complete(now, m.Pass(now, 1), 1, int64(8*time.Millisecond), false)
	}
	now := int64(600 * time.Millisecond)
	m.Pass(now, 1)

	snapshot := s.Snapshot(now)
	snapshot.SetTotals(m.Totals())
	fmt.Println("pass per second:", snapshot.PassQPS, "average:", snapshot.AvgRT, "in flight:", snapshot.Concurrency)
	// Output: pass per second: 13 average: 8ms in flight: 1
}
