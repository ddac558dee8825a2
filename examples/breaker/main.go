// Breaker is a shop that asks a warehouse for what it has in stock. The warehouse fails for
// a while, and later it hangs; both times it recovers by itself. A circuit breaker stops asking
// it meanwhile, and customers get the number that was known last instead of an error.
//
//	go run ./examples/breaker
//
// It takes about nine seconds, and prints each change of the breaker's state with the numbers that
// caused it, what customers got in every half second, and what the warehouse was spared.
package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/examples/internal/program"
)

func main() { program.Main("breaker", show) }

const (
	length  = 8500 * time.Millisecond
	between = 20 * time.Millisecond // one customer and the next
	row     = 500 * time.Millisecond
	timeout = 2 * time.Second // of a call to the warehouse
)

var rule = breaker.Rule{
	ID: "warehouse-breaker", Resource: "warehouse",
	// It opens when at least 20 calls have come in the last second, and half of them have
	// failed, or have taken longer than 300 ms. Calls that are still in flight count, too.
	Interval: time.Second, MinCalls: 20, ErrorRatio: 0.5, SlowRatio: 0.5, SlowAfter: 300 * time.Millisecond,
	// It stays open for half a second, and longer each time if the warehouse is still away.
	OpenFor: 500 * time.Millisecond, MaxOpenFor: 2 * time.Second,
	// Then 3 calls try whether it is back. If so, the others come back step by step.
	Probes: 3, ProbeTimeout: 250 * time.Millisecond, Ramp: 500 * time.Millisecond,
}

const heading = `A shop asks its warehouse for the stock of an item, 50 times a second. The warehouse fails from 1.5 s to
3 s, and hangs from 5 s to 6.5 s: it says nothing, until the shop gives up after 2 s. While the breaker
lets nobody through, customers get the number that was known last.

While the breaker is closed, all calls reach the warehouse; while it is open, none does. Half-open means
that a few may try whether it is back, and ramping that more and more may. Each row is half a second, and
each change stands where it came about, with its reason.

          warehouse  breaker    fresh  last known  errors  waiting
`

// shop serves customers, and prints what they get.
type shop struct {
	out       io.Writer
	began     time.Time
	gate      *leapgate.Gate
	warehouse *warehouse

	mu         sync.Mutex // guards what follows, and out
	row, total got
	waiting    int   // customers, for the warehouse
	last       int   // stock that was known last
	refusal    error // the first
}

// got is how many customers got what.
type got struct{ fresh, lastKnown, errors int }

func (g *got) add(other got) {
	g.fresh, g.lastKnown, g.errors = g.fresh+other.fresh, g.lastKnown+other.lastKnown, g.errors+other.errors
}

func show(out io.Writer) error {
	began := time.Now()
	s := &shop{out: out, began: began, warehouse: &warehouse{began}}
	gate, err := leapgate.New(leapgate.Config{OnChange: s.changed})
	if err != nil {
		return err
	}
	defer gate.Close()
	if err := gate.LoadRules(leapgate.Rules{Breaker: []breaker.Rule{rule}}); err != nil {
		return err
	}
	s.gate = gate
	fmt.Fprint(out, heading)
	s.open()
	s.sum()
	return nil
}

// open serves customers until it is time to close.
func (s *shop) open() {
	customers := time.NewTicker(between)
	defer customers.Stop()
	rows := time.NewTicker(row)
	defer rows.Stop()
	closing := time.After(length + between/2)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-customers.C:
			all.Go(s.serve)
		case <-rows.C:
			s.print()
		case <-closing:
			return
		}
	}
}

// serve serves a customer.
func (s *shop) serve() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.mu.Lock()
	s.waiting++
	s.mu.Unlock()

	var result got
	stock, err := leapgate.CallOr(ctx, s.gate, "warehouse", s.warehouse.stock,
		func(_ context.Context, refusal *leapgate.BlockError) (int, error) {
			result.lastKnown++
			return s.lastKnown(refusal), nil
		})
	switch {
	case err != nil:
		result.errors++
	case result.lastKnown == 0:
		result.fresh++
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	s.row.add(result)
	if err == nil {
		s.last = stock
	}
}

// lastKnown is the fallback.
func (s *shop) lastKnown(refusal *leapgate.BlockError) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal == nil {
		s.refusal = refusal
	}
	return s.last
}

// changed is told of each change of the breaker's state.
func (s *shop) changed(c leapgate.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%5.2f s   ** %s → %s: %s\n", c.At.Sub(s.began).Seconds(), c.From, c.To, c.Reason)
}

// print prints a row.
func (s *shop) print() {
	state := s.gate.Resource("warehouse").Snapshot().Rules[0].State
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%5.2f s   %-9s  %-9s  %5d  %10d  %6d  %7d\n", time.Since(s.began).Seconds(),
		s.warehouse.how(), state, s.row.fresh, s.row.lastKnown, s.row.errors, s.waiting)
	s.total.add(s.row)
	s.row = got{}
}

// sum prints what came of it all.
func (s *shop) sum() {
	rule := s.gate.Resource("warehouse").Snapshot().Rules[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total.add(s.row)
	t := s.total
	fmt.Fprintf(s.out, `
Of %d customers, %d got a fresh number, %d the last known one, at once, and %d an error.
The warehouse was asked %d times, and was spared %d calls. The breaker's state changed %d times.
What the first call that was spared would have got without a fallback:
  %v
`, t.fresh+t.lastKnown+t.errors, t.fresh, t.lastKnown, t.errors, rule.Admitted, rule.Blocked, rule.Changes, s.refusal)
}
