package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func Example() {
	if err := show(os.Stdout, 30*time.Second); err != nil {
		fmt.Println(err)
	}
	// Output:
	// time    customers  sum of seconds     served   largest
	// 30s           200             873   6676.7kB   250.0kB
	// 60s           200            1743  13580.8kB   250.0kB
	// 90s           513            1802  13789.9kB    10.6kB
	// 120s          668            1396  10133.9kB    10.6kB
	// 150s          312             465   3248.1kB    10.6kB
}

func TestTraffic_LeavesTheWindow(t *testing.T) {
	shop := newTraffic()
	at := func(seconds float64) int64 { return int64(seconds * float64(time.Second)) }
	shop.record(at(0.5), "ann", 100)
	shop.record(at(30), "ann", 20)
	shop.record(at(59.9), "bob", 3)
	for _, test := range []struct {
		second         float64
		customers, sum int
		bytes, largest int64
	}{
		{59.9, 2, 3, 123, 100},
		{60, 2, 2, 23, 20}, // the first bucket is one interval old, so it is out
		{89.9, 2, 2, 23, 20},
		{90, 1, 1, 3, 3},
		{119, 0, 0, 0, 0},
	} {
		m := shop.lastMinute(at(test.second))
		if math.Round(m.customers) != float64(test.customers) || math.Round(m.sumOfSeconds) != float64(test.sum) ||
			m.bytes != test.bytes || m.largest != test.largest {
			t.Errorf("at %vs: %+v; want %+v", test.second, m, test)
		}
	}
}

// TestTraffic_AgainstExactSets compares every second of the show with sets that
// keep all names.
func TestTraffic_AgainstExactSets(t *testing.T) {
	shop := newTraffic()
	var seconds []map[string]bool
	for second := range int(length.Seconds()) {
		now := int64(second) * int64(time.Second)
		names := make(map[string]bool)
		open(second, func(customer string, bytes int64) {
			names[customer] = true
			shop.record(now, customer, bytes)
		})
		seconds = append(seconds, names)

		united := make(map[string]bool)
		for _, names := range seconds[max(0, second-59):] {
			for name := range names {
				united[name] = true
			}
		}
		got, want := shop.lastMinute(now).customers, float64(len(united))
		if math.Abs(got-want) > 1+want*0.04 { // about 4 standard errors
			t.Errorf("second %d: %.1f customers; want about %.0f", second, got, want)
		}
	}
}

// TestTraffic_ManyGoroutines records the same customers from many goroutines
// while others read. What must be exact is exact.
func TestTraffic_ManyGoroutines(t *testing.T) {
	const goroutines, calls = 8, 2000
	shop, alone := newTraffic(), newTraffic()
	var running sync.WaitGroup
	for g := range goroutines {
		running.Go(func() {
			for i := range calls {
				now := int64(i) * int64(20*time.Millisecond) // 40 seconds
				shop.record(now, fmt.Sprint("customer-", i%500), int64(g*calls+i))
				if i%100 == 0 {
					shop.lastMinute(now)
				}
			}
		})
	}
	running.Wait()
	for i := range calls {
		alone.record(0, fmt.Sprint("customer-", i%500), 0)
	}

	const n = goroutines * calls
	m := shop.lastMinute(int64(40 * time.Second))
	if m.bytes != n*(n-1)/2 || m.largest != n-1 {
		t.Errorf("%d bytes, the largest %d; want %d and %d", m.bytes, m.largest, n*(n-1)/2, n-1)
	}
	if want := alone.lastMinute(0).customers; m.customers != want {
		t.Errorf("%v customers; want %v, as one goroutine counts them", m.customers, want)
	}
}

func TestSeen_Full(t *testing.T) {
	var s seen
	for i := range 100_000 {
		s.add(fmt.Sprint(i))
	}
	if got := s.count(); math.IsInf(got, 0) || got < 30_000 {
		t.Errorf("counts %v of far too many names; want a large number", got)
	}
}

func TestRun_Flags(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-every", "1h"}, 2, "-every is 1h0m0s"},
		{[]string{"-every", "1500ms"}, 2, "-every is 1.5s"},
		{[]string{"-every", "0"}, 2, "-every is 0s"},
		{[]string{"-each", "1s"}, 2, "-each"},
		{[]string{"now"}, 2, `"now"`},
		{[]string{"-h"}, 0, "-every"},
	} {
		var out, errs strings.Builder
		if code := run(test.args, &out, &errs); code != test.code || out.Len() > 0 || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%q: exit code %d, output %q, errors %q; want %d, none, %s",
				test.args, code, out.String(), errs.String(), test.code, test.want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRun_CannotWrite(t *testing.T) {
	var errs strings.Builder
	if code := run(nil, full{}, &errs); code != 1 || errs.String() != "custommetric: disk full\n" {
		t.Errorf("exit code %d, errors %q; want 1 and the error", code, errs.String())
	}
}
