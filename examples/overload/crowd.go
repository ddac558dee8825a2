package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
)

const (
	name     = "GET /shop"
	patience = time.Second // of a caller
)

// mix is how much the calls matter, one after the other: 2 of 10 are critical, 3 are default, and
// so on. At three times what can be done, all critical ones fit, and some of the default ones.
var mix = [...]leapgate.Criticality{
	leapgate.Critical, resource.DefaultCriticality, leapgate.Sheddable, leapgate.Background, resource.DefaultCriticality,
	leapgate.Critical, leapgate.Sheddable, resource.DefaultCriticality, leapgate.Background, leapgate.Sheddable,
}

var criticalities = []leapgate.Criticality{leapgate.Critical, resource.DefaultCriticality, leapgate.Sheddable, leapgate.Background}

// shop serves callers.
type shop struct {
	gate *leapgate.Gate
	work func(context.Context) error
}

// can returns how many calls a second it can do. It is measured with a hundred callers, which
// call without a pause.
func (s *shop) can(ctx context.Context) float64 {
	var done atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for time.Since(began) < measure && ctx.Err() == nil {
				if s.work(ctx) == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// crowd lets callers come evenly, whether or not those before are served, and returns what they
// got.
func (s *shop) crowd(ctx context.Context, rate float64, length time.Duration) tally {
	results := make(chan result)
	t := make(tally, len(criticalities))
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for r := range results {
			t.count(r)
		}
	}()
	began := time.Now()
	var all sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		after := time.Duration(float64(n) / rate * float64(time.Second))
		if after >= length {
			break
		}
		due := began.Add(after)
		time.Sleep(time.Until(due))
		all.Go(func() { results <- s.call(ctx, due, mix[n%len(mix)]) })
	}
	all.Wait()
	close(results)
	<-counted
	return t
}

// result is what a caller got.
type result struct {
	matters leapgate.Criticality
	err     error
	took    time.Duration
}

// call makes a call. Its time begins when it was due, however busy the process was with others.
func (s *shop) call(ctx context.Context, due time.Time, matters leapgate.Criticality) result {
	ctx, cancel := context.WithDeadline(ctx, due.Add(patience))
	defer cancel()
	err := s.gate.Do(ctx, name, s.work, leapgate.WithCriticality(matters))
	return result{matters, err, time.Since(due)}
}

// got is what callers got.
type got struct {
	asked, served, refused int
	took                   []time.Duration // of those that were not refused
}

// percentile returns the time within which a share of the calls that were let in were done, or
// given up.
func (g *got) percentile(share float64) time.Duration {
	if len(g.took) == 0 {
		return 0
	}
	slices.Sort(g.took)
	return g.took[int(share*float64(len(g.took)-1))].Round(time.Millisecond)
}

// tally is what callers got, by how much their calls matter.
type tally map[leapgate.Criticality]*got

func (t tally) count(r result) {
	g := t[r.matters]
	if g == nil {
		g = new(got)
		t[r.matters] = g
	}
	g.asked++
	var blocked *leapgate.BlockError
	switch {
	case errors.As(r.err, &blocked):
		g.refused++
		return
	case r.err == nil:
		g.served++
	}
	g.took = append(g.took, r.took)
}

// all is what all of them got.
func (t tally) all() *got {
	sum := new(got)
	for _, g := range t {
		sum.asked, sum.served, sum.refused = sum.asked+g.asked, sum.served+g.served, sum.refused+g.refused
		sum.took = append(sum.took, g.took...)
	}
	return sum
}

func (t tally) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tasked\tserved\tgave up\trefused\tp50\tp99\t")
	row := func(name string, g *got) {
		p50, p99 := "-", "-"
		if len(g.took) > 0 {
			p50, p99 = g.percentile(0.5).String(), g.percentile(0.99).String()
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t\n", name, g.asked, g.served, g.asked-g.served-g.refused, g.refused, p50, p99)
	}
	for _, c := range criticalities {
		if g := t[c]; g != nil {
			row(c.String(), g)
		}
	}
	row("all", t.all())
	return table.Flush()
}
