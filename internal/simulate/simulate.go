// Package simulate is a service under load, on a given clock: calls come, a limiter lets them
// in or not, and those that are in wait for one of the servers. It drives a real gate, or
// whatever else limits calls, through hours in seconds.
package simulate

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// Phase is a time in which nothing about the service or its load changes.
type Phase struct {
	For     time.Duration
	Rate    float64 // calls that come in a second, on average; they know nothing of each other
	Servers int     // how many calls can be worked on at once; the others that are in queue for it
	Times   Times   // how long a call keeps a server busy
	Delay   Times   // how long a call waits for others before that, which keeps nobody busy
}

// Capacity is how many calls the servers can do in a second.
func (p *Phase) Capacity() float64 { return float64(p.Servers) / p.Times.Mean.Seconds() }

// Result is what came of the calls in one phase.
type Result struct {
	Phase
	Offered  int // calls that came
	Admitted int // those of them that were let in
	Ended    int // calls that ended in the phase, whenever they came
	Good     int // those of them that ended within the patience of their callers

	took []time.Duration // of those that ended, sorted
}

// Passed is the share of the calls that was let in.
func (r *Result) Passed() float64 { return float64(r.Admitted) / float64(r.Offered) }

// Goodput is how many calls ended in time, as a share of what the servers can do.
func (r *Result) Goodput() float64 { return float64(r.Good) / r.For.Seconds() / r.Capacity() }

// Quantile returns how long a call took that longer ones are 1 − q of: from when it was let
// in to its end. It is 0 if none ended.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	return r.took[min(int(q*float64(len(r.took))), len(r.took)-1)]
}

// Simulation says what is driven, and how.
type Simulation struct {
	// Start is the time at which it begins, in nanoseconds, and Set moves the clock of what is
	// driven. It is called before anything happens, and never goes back.
	Start int64
	Set   func(now int64)
	// Enter asks whether the n-th call is let in. If so, exit is called when it ends.
	Enter func(n int) (exit func(), ok bool)

	// Patience is how long callers wait; what takes longer is done in vain. 0 is for ever.
	Patience time.Duration

	// Tick, if it is not nil, is called every so often, with the share of the servers that was
	// busy since the last one.
	Every time.Duration
	Tick  func(now int64, busy float64)

	Seed uint64

	run *run // nil before the first Run
}

// Run goes through the phases one after the other, and returns what came of the calls in each.
// The next Run goes on from there, with the calls that are in flight.
func (s *Simulation) Run(phases ...Phase) []Result {
	r := s.run
	if r == nil {
		r = &run{Simulation: s, rng: rand.New(rand.NewPCG(s.Seed, 0)), now: s.Start, counted: s.Start}
		s.run = r
		if s.Tick != nil {
			r.at(s.Every, event{kind: tick})
		}
	}
	results := make([]Result, len(phases))
	for i, p := range phases {
		r.result = &results[i]
		r.result.Phase = p
		r.phase()
		slices.Sort(r.result.took)
	}
	return results
}

// run is a simulation that goes on.
type run struct {
	*Simulation
	rng     *rand.Rand
	now     int64
	events  events
	serial  int
	result  *Result
	arrived int

	queue   []*call // for a server, in order of arrival
	working int     // servers that are busy

	counted int64   // up to when worked counts
	worked  float64 // servers busy × nanoseconds, since the last tick
}

// call is a call that was let in.
type call struct {
	came int64
	exit func()
}

func (r *run) phase() {
	p := &r.result.Phase
	end := r.now + int64(p.For)
	next := r.now + r.gap()
	r.serve() // there may be more servers than before
	for {
		at := min(next, end)
		if len(r.events) > 0 && r.events[0].at <= at {
			r.happen(heap.Pop(&r.events).(*event))
			continue
		}
		r.move(at)
		if at == end {
			return
		}
		r.arrive()
		next += r.gap()
	}
}

func (r *run) gap() int64 {
	if r.result.Rate <= 0 {
		return int64(r.result.For)
	}
	return max(1, int64(r.rng.ExpFloat64()/r.result.Rate*float64(time.Second)))
}

func (r *run) move(now int64) {
	r.now = now
	r.Set(now)
}

func (r *run) arrive() {
	r.result.Offered++
	exit, ok := r.Enter(r.arrived)
	r.arrived++
	if !ok {
		return
	}
	r.result.Admitted++
	c := &call{came: r.now, exit: exit}
	if delay := r.result.Delay.draw(r.rng); delay > 0 {
		r.at(delay, event{kind: ready, call: c})
		return
	}
	r.queue = append(r.queue, c)
	r.serve()
}

// serve gives the free servers work.
func (r *run) serve() {
	for len(r.queue) > 0 && r.working < r.result.Servers {
		r.work(1)
		r.at(r.result.Times.draw(r.rng), event{kind: done, call: r.queue[0]})
		r.queue = r.queue[1:]
	}
}

// work notes that more servers are busy from now on, or fewer.
func (r *run) work(more int) {
	r.worked += float64(r.working) * float64(r.now-r.counted)
	r.counted = r.now
	r.working += more
}

func (r *run) happen(e *event) {
	r.move(e.at)
	switch e.kind {
	case ready:
		r.queue = append(r.queue, e.call)
		r.serve()
	case done:
		r.work(-1)
		took := time.Duration(r.now - e.call.came)
		r.result.Ended++
		if r.Patience == 0 || took <= r.Patience {
			r.result.Good++
		}
		r.result.took = append(r.result.took, took)
		e.call.exit()
		r.serve()
	case tick:
		r.work(0)
		r.Tick(r.now, r.worked/float64(r.Every)/float64(r.result.Servers))
		r.worked = 0
		r.at(r.Every, event{kind: tick})
	}
}

func (r *run) at(after time.Duration, e event) {
	e.at, e.serial = r.now+int64(after), r.serial
	r.serial++
	heap.Push(&r.events, &e)
}
