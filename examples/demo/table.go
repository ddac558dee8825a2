package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/leapgate-go/leapgate/stat"
)

// A table shows the figures of the resources. On a terminal the rows stay where
// they are and change; elsewhere every second has its own lines.
type table struct {
	out      io.Writer
	terminal bool
	printed  int   // rows that are on the terminal already
	err      error // the first of writing; nothing is written after it
}

func newTable(out io.Writer) *table { return &table{out: out, terminal: isTerminal(out)} }

// isTerminal reports whether out can move its cursor, as far as the standard library
// can tell.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// What a terminal understands.
const (
	bold      = "\x1b[1m"
	plain     = "\x1b[0m"
	lineUp    = "\x1b[A"
	clearLine = "\x1b[K"
)

// A row must fit into 80 columns: one that wraps would be two lines to a terminal,
// and the next one would go up too little.
const (
	headFormat = "%5s  %-11s%7s%7s%10s%5s%6s%8s%8s%10s"
	rowFormat  = "%5s  %-11s%7d%7d%10d%5.0f%6.0f%8s%8s%10d"
)

// title says what is going on, and heads the columns.
func (t *table) title(address string) {
	head := fmt.Sprintf(headFormat, "time", "resource", "pass", "block", "exception", "QPS", "limit", "avg", "p99", "in flight")
	if t.terminal {
		head = bold + head + plain
	}
	t.print(fmt.Sprintf("Leapgate guards %s, whose clients want twice the limits.\nCtrl-C ends it.\n\n%s\n", address, head))
}

// rows shows the figures at a time after the start.
func (t *table) rows(elapsed time.Duration, snapshots []stat.Snapshot) {
	var b strings.Builder
	b.WriteString(strings.Repeat(lineUp, t.printed))
	for _, s := range snapshots {
		if t.terminal {
			b.WriteString(clearLine)
		}
		b.WriteString(row(elapsed, s) + "\n")
	}
	if t.terminal {
		t.printed = len(snapshots)
	}
	t.print(b.String())
}

// row is the line of one resource. Pass, block and exception are totals; QPS and
// avg are of the last second, p99 of the last ten.
func row(elapsed time.Duration, s stat.Snapshot) string {
	var limit float64
	for _, r := range s.Rules {
		limit = r.Threshold
	}
	return fmt.Sprintf(rowFormat, elapsed.Round(100*time.Millisecond), s.Resource,
		s.Pass, s.Block, s.Exception, s.PassQPS, limit, millis(s.AvgRT), millis(s.P99), s.Concurrency)
}

// millis writes a response time so that the points of a column stand in line.
func millis(d time.Duration) string {
	if d == 0 {
		return "-" // no calls
	}
	return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
}

// summary shows what came of it all, and one refusal as a client got it.
func (t *table) summary(elapsed time.Duration, snapshots []stat.Snapshot, refusal string) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nIn %v\n", elapsed.Round(100*time.Millisecond))
	for _, s := range snapshots {
		fmt.Fprintf(&b, "  %-11s  passed %d of %d calls, %d with an exception\n",
			s.Resource, s.Pass, s.Pass+s.Block, s.Exception)
	}
	for _, s := range snapshots {
		for _, r := range s.Rules {
			fmt.Fprintf(&b, "  rule %q refused %d, for it admits %.0f per second\n", r.ID, r.Blocked, r.Threshold)
		}
	}
	if refusal != "" {
		fmt.Fprintf(&b, "\nThe first refusal, as its client got it:\n  %s\n", strings.ReplaceAll(refusal, "\n", "\n  "))
	}
	t.print(b.String())
}

func (t *table) print(text string) {
	if t.err == nil {
		_, t.err = io.WriteString(t.out, text)
	}
}
