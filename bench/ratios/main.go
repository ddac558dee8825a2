// Command ratios prints what each operation costs as a ratio to its floor, and
// what a peer costs as a ratio to the case of Leapgate that comes nearest.
//
// On a machine with neighbours, the speed of the processor changes by half within
// seconds. So a case, its floor and the nearest case are run by turns, in slices of
// a few milliseconds; each turn yields one ratio, and their median is printed.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/bench"
)

func main() {
	turns := flag.Int("turns", 200, "how many ratios to take of each case")
	slice := flag.Int("slice", 20_000, "operations in one slice, per worker")
	filter := flag.String("case", "", "only cases whose name contains `text`")
	workers := flag.String("workers", "1,2,64", "numbers of workers, each up to GOMAXPROCS at a time")
	flag.Parse()

	fmt.Printf("| operation | workers | ns/op | floor ns/op | ratio to floor | allocs/op | ratio to Leapgate |\n|---|---:|---:|---:|---:|---:|---|\n")
	for _, c := range bench.Cases {
		if !strings.Contains(c.Name, *filter) {
			continue
		}
		for w := range strings.SplitSeq(*workers, ",") {
			var n int
			if _, err := fmt.Sscan(w, &n); err != nil || n < 1 {
				fmt.Fprintf(os.Stderr, "ratios: workers %q; want numbers of at least 1, with commas\n", *workers)
				os.Exit(2)
			}
			runtime.GOMAXPROCS(min(n, runtime.NumCPU()))
			measure(c, n, *turns, *slice)
		}
	}
}

func measure(c bench.Case, workers, turns, slice int) {
	run := makeRun(c, workers)
	warmUp(run, slice)
	runFloor := find(c.Floor, workers, slice)
	runNear := find(c.Near, workers, slice)
	var times, floors, toFloor, toNear []float64
	var before, after runtime.MemStats
	var allocs uint64
	for range turns {
		var floor float64
		if runFloor != nil {
			floor = runFloor(slice)
		}
		runtime.ReadMemStats(&before)
		took := run(slice)
		runtime.ReadMemStats(&after)
		allocs += after.Mallocs - before.Mallocs
		times = append(times, took)
		if runFloor != nil {
			floors = append(floors, floor)
			toFloor = append(toFloor, took/floor)
		}
		if runNear != nil {
			toNear = append(toNear, took/runNear(slice))
		}
	}
	fmt.Printf("| %s | %d | %.1f |", c.Name, workers, median(times))
	if runFloor != nil {
		fmt.Printf(" %.1f | **%.2f** | %.2f |", median(floors), median(toFloor), float64(allocs)/float64(operations(slice, workers)*turns))
	} else {
		fmt.Print(" | | |")
	}
	if runNear != nil {
		fmt.Printf(" **%.2f** × %s |\n", median(toNear), c.Near)
	} else {
		fmt.Print(" |\n")
	}
}

// find makes the case of that name, warm. It is nil if there is none.
func find(name string, workers, slice int) func(n int) float64 {
	c, ok := bench.Find(name)
	if !ok {
		return nil
	}
	run := makeRun(c, workers)
	warmUp(run, slice)
	return run
}

// share is how many operations of a slice each worker runs: fewer with more
// workers, so that a slice takes as long.
func share(slice, workers int) int {
	if workers == 1 {
		return slice
	}
	return max(1, slice*2/workers)
}

// operations is how many all workers run in a slice.
func operations(slice, workers int) int { return share(slice, workers) * workers }

// makeRun returns a function that has every worker run n operations at the same
// time, and returns the nanoseconds per operation: elapsed time over all operations.
func makeRun(c bench.Case, workers int) func(n int) float64 {
	worker := c.Make()
	runs := make([]func(int), workers)
	for i := range runs {
		runs[i] = worker()
	}
	return func(n int) float64 {
		if workers == 1 {
			begin := time.Now()
			runs[0](n)
			return float64(time.Since(begin).Nanoseconds()) / float64(n)
		}
		n = share(n, workers)
		var ready, done sync.WaitGroup
		start := make(chan struct{})
		for _, run := range runs {
			ready.Add(1)
			done.Go(func() {
				ready.Done()
				<-start
				run(n)
			})
		}
		ready.Wait()
		begin := time.Now()
		close(start)
		done.Wait()
		return float64(time.Since(begin).Nanoseconds()) / float64(n*workers)
	}
}

// warmUp runs until what grows under load has grown.
func warmUp(run func(int) float64, slice int) {
	for begin := time.Now(); time.Since(begin) < 400*time.Millisecond; {
		run(slice)
	}
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
