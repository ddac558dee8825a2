// Custommetric counts what no counter can: how many different customers came in
// the last minute. It puts buckets of its own type on Leapgate's ring.
//
//	go run ./examples/custommetric
//
// One sees a shop in two and a half minutes of made-up traffic: two hundred
// regulars, a sale after a minute that brings new customers every second, and at
// last nobody, when second by second the window empties. The customers of the
// minute are far fewer than those of its seconds added up, since most come again;
// so the seconds must be united, not added. See traffic.go for how.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/leapgate-go/leapgate/examples/internal/program"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("custommetric", flag.ContinueOnError)
	every := flags.Duration("every", 15*time.Second, "how much made-up `time` to leave between two lines, whole seconds")
	if code, ok := program.Parse(flags, args, stderr); !ok {
		return code
	}
	if *every < time.Second || *every > length || *every%time.Second != 0 {
		return program.Wrong(flags, "-every is %v; want whole seconds from 1s to %v", *every, length)
	}
	return program.Code(flags, show(stdout, *every))
}

const length = 150 * time.Second

// show plays the day of the shop, and prints a line every so often. The ring never
// reads a clock: the time is a number that show counts up.
func show(out io.Writer, every time.Duration) error {
	t := newTraffic()
	if _, err := fmt.Fprintf(out, "%-6s%11s%16s%11s%10s\n", "time", "customers", "sum of seconds", "served", "largest"); err != nil {
		return err
	}
	for second := range int(length.Seconds()) {
		now := time.Duration(second) * time.Second
		open(second, func(customer string, bytes int64) { t.record(int64(now), customer, bytes) })
		// Now is the last second, so the window is the minute that ends with it.
		if end := now + time.Second; end%every == 0 {
			m := t.lastMinute(int64(now))
			_, err := fmt.Fprintf(out, "%-6s%11.0f%16.0f%11s%10s\n",
				fmt.Sprintf("%.0fs", end.Seconds()), m.customers, m.sumOfSeconds, kilobytes(m.bytes), kilobytes(m.largest))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func open(second int, call func(customer string, bytes int64)) {
	for i := range 40 {
		customer := fmt.Sprintf("regular-%d", (second*7+i*i)%200)
		if sale := second >= 60; sale && i%2 == 0 {
			customer = fmt.Sprintf("newcomer-%d", second*20+i)
		}
		bytes := int64(1000 + (second*i)%97*100)
		if second == 20 && i == 0 {
			bytes = 250_000 // an export, for once
		}
		if closed := second >= 105; !closed {
			call(customer, bytes)
		}
	}
}

func kilobytes(n int64) string { return fmt.Sprintf("%.1fkB", float64(n)/1000) }
