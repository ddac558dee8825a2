// Command ratios prints what each operation costs as a ratio to its floor.
//
// On a machine with neighbours, the speed of the processor changes by half within
// seconds. So a case and its floor are run by turns, in slices of a few
// milliseconds; each turn gives one ratio, and their median is printed.
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

	fmt.Printf("| operation | workers | ns/op | floor ns/op | ratio | allocs/op |\n|---|---:|---:|---:|---:|---:|\n")
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
	floor, ok := bench.Find(c.Floor)
	if !ok {
		times := make([]float64, turns)
		for i := range times {
			times[i] = run(slice)
		}
		fmt.Printf("| %s | %d | %.1f | | | |\n", c.Name, workers, median(times))
		return
	}
	runFloor := makeRun(floor, workers)
	warmUp(runFloor, slice)
	times, floors, ratios := make([]float64, turns), make([]float64, turns), make([]float64, turns)
	var before, after runtime.MemStats
	var allocs uint64
	for i := range turns {
		floors[i] = runFloor(slice)
		runtime.ReadMemStats(&before)
		times[i] = run(slice)
		runtime.ReadMemStats(&after)
		allocs += after.Mallocs - before.Mallocs
		ratios[i] = times[i] / floors[i]
	}
	fmt.Printf("| %s | %d | %.1f | %.1f | **%.2f** | %.2f |\n", c.Name, workers,
		median(times), median(floors), median(ratios), float64(allocs)/float64(turns*slice*workers))
}

// makeRun gives a function that has every worker run n operations at the same
// time, and tells the nanoseconds per operation: elapsed time over all operations.
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
		n = max(1, n*2/workers) // so that a slice takes as long with more workers
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
