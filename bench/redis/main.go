// Command redis prints how many decisions a second limiters make that many processes
// share through a Redis server, and how long one takes: Leapgate's and its peers', on
// one server, in one run. The floor is what the server does when it has nothing to do
// but Leapgate's script, as redis-benchmark measures it.
//
//	go run ./redis
//
// It starts a redis-server of its own. The speed of a machine with neighbours changes by
// half within seconds, so the limiters run by turns, in slices of some hundred
// milliseconds; each turn yields one ratio of two of them, and the medians are printed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/internal/redistest"
)

type plan struct {
	turns      int
	slice      time.Duration
	goroutines []int
	keys       int
}

// minTurns is how many ratios a median needs that another run comes near to.
const minTurns = 7

func main() {
	var p plan
	flag.IntVar(&p.turns, "turns", 15, "how many ratios to take of each pair")
	flag.DurationVar(&p.slice, "slice", 300*time.Millisecond, "how long a limiter runs in a turn")
	flag.IntVar(&p.keys, "keys", 16, "how many keys are asked for, in turn")
	goroutines := flag.String("goroutines", "1,64,256", "numbers of goroutines")
	program := flag.String("root", os.Getenv(redistest.Env), "a Debian `directory` with another redis-server; see "+redistest.Env)
	short := flag.Bool("short", false, "one turn of everything, to see that it runs")
	flag.Parse()
	if *short {
		p.turns, p.slice = 1, 50*time.Millisecond
	}
	for text := range strings.SplitSeq(*goroutines, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "redis: goroutines %q; want numbers of at least 1, with commas\n", *goroutines)
			os.Exit(2)
		}
		p.goroutines = append(p.goroutines, n)
	}
	if p.turns < 1 || p.slice <= 0 || p.keys < 1 {
		fmt.Fprintln(os.Stderr, "redis: want at least 1 turn, a slice above 0, and at least 1 key")
		os.Exit(2)
	}
	if err := run(os.Stdout, p, *program); err != nil {
		fmt.Fprintln(os.Stderr, "redis:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, p plan, root string) (err error) {
	find := redistest.Installed
	if root != "" {
		find = func(name string) (redistest.Program, error) { return redistest.Unpacked(root, name) }
	}
	program, err := find("redis-server")
	if err != nil {
		return err
	}
	benchmark, err := find("redis-benchmark")
	if err != nil {
		return err
	}
	server, err := redistest.Start(program)
	if err != nil {
		return err
	}
	defer func() {
		if failed := server.Close(); err == nil {
			err = failed
		}
	}()
	info, err := server.Info("server", "INFO", "server")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "redis-server %s, %d keys, %d turns of %v\n\n", info["redis_version"], p.keys, p.turns, p.slice)
	if p.turns < minTurns {
		fmt.Fprintf(out, "With fewer than %d turns, the ratios say nothing: slices of one turn differ by several times.\n\n", minTurns)
	}

	subjects, err := makeSubjects(server.Addr())
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range subjects {
			s.close()
		}
	}()
	fmt.Fprintf(out, "| limiter | goroutines | decisions/s | p50 | p99 | to redis_rate | to per call |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range p.goroutines {
		if err := compare(out, p, subjects, n); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\n| floor: redis-benchmark on the script of | connections | commands at once | decisions/s | to per call, 64 goroutines |\n|---|---:|---:|---:|---:|\n")
	return floors(out, p, server, benchmark, subjects)
}

func compare(out io.Writer, p plan, subjects []*subject, goroutines int) error {
	rates := make([][]float64, len(subjects))
	times := make([]histogram, len(subjects))
	for turn := range p.turns + 1 {
		for i, s := range subjects {
			rate, h, err := s.measure(p, goroutines)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if turn == 0 { // it warms up
				continue
			}
			rates[i] = append(rates[i], rate)
			times[i].merge(h)
		}
	}
	for i, s := range subjects {
		fmt.Fprintf(out, "| %s | %d | %.0f | %v | %v | %s | %s |\n", s.name, goroutines, median(rates[i]),
			times[i].quantile(0.5), times[i].quantile(0.99), ratio(rates[i], rates[redisRate]), ratio(rates[i], rates[perCall]))
	}
	return nil
}

// measure runs s for a slice, and returns its decisions a second.
func (s *subject) measure(p plan, goroutines int) (rate float64, all *histogram, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	keys := make([]string, p.keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("client-%04d", i)
	}
	var mu sync.Mutex // guards all and err
	all = new(histogram)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	var end time.Time // written before start is closed
	for id := range goroutines {
		ready.Add(1)
		done.Go(func() {
			decide := s.worker()
			h := new(histogram)
			ready.Done()
			<-start
			failed := error(nil)
			at := time.Now()
			for i := id; failed == nil && at.Before(end); i++ {
				failed = decide(ctx, keys[i%len(keys)])
				was := at
				at = time.Now()
				h.add(at.Sub(was))
			}
			mu.Lock()
			defer mu.Unlock()
			all.merge(h)
			if err == nil {
				err = failed
			}
		})
	}
	ready.Wait()
	began := time.Now()
	end = began.Add(p.slice)
	close(start)
	done.Wait()
	return float64(all.count) / time.Since(began).Seconds(), all, err
}

func ratio(a, b []float64) string {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return fmt.Sprintf("**%.2f**", median(all))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
