package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate"
)

// A flowOfCalls is what asks for one resource: how many calls a second at a time, how long the
// work of one takes, and what part of them fails.
type flowOfCalls struct {
	resource string
	rate     func(at time.Duration) float64
	work     func(at time.Duration) time.Duration
	fails    func(at time.Duration) float64
	item     func(at time.Duration) string // which is asked for; nil: of none
	limited  bool                          // by address, and by user
}

// customers are all who come to the shop. Their numbers are chosen so that each rule is
// exceeded for a while and then is not: traffic rises, is blocked, and recovers.
var customers = []flowOfCalls{
	{
		resource: "GET /orders", rate: swell(40*time.Second, 15, 90),
		work: between(3*time.Millisecond, 14*time.Millisecond), fails: always(0.01),
	},
	{
		resource: "GET /search", rate: swell(56*time.Second, 8, 48),
		work: slower(56*time.Second, 15*time.Millisecond, 90*time.Millisecond), fails: always(0),
	},
	{ // the database is slow for a quarter of a minute, and its places fill up
		resource: "db.query", rate: always(90),
		work: inTurns(45*time.Second, 13*time.Second,
			between(120*time.Millisecond, 320*time.Millisecond), between(8*time.Millisecond, 45*time.Millisecond)),
		fails: always(0.002),
	},
	{ // mails come in bursts, and leave one by one
		resource: "mail.send", rate: inTurns(12*time.Second, 3*time.Second, always(8), always(0.5)),
		work: between(20*time.Millisecond, 60*time.Millisecond), fails: always(0),
	},
	{ // nobody, and then many at once: the rule warms up
		resource: "GET /recommendations", rate: inTurns(50*time.Second, 28*time.Second, always(52), always(0.2)),
		work: between(10*time.Millisecond, 40*time.Millisecond), fails: always(0),
	},
	{ // the bank has an outage now and then
		resource: "payments.charge", rate: swell(64*time.Second, 6, 18),
		work:  between(60*time.Millisecond, 220*time.Millisecond),
		fails: inTurns(60*time.Second, 12*time.Second, always(0.7), always(0.01)),
	},
	{resource: "POST /login", rate: always(24), work: between(30*time.Millisecond, 80*time.Millisecond), fails: always(0.04), limited: true},
	{resource: "cache.get", rate: swell(72*time.Second, 150, 420), work: between(50*time.Microsecond, 900*time.Microsecond), fails: always(0)},
	{resource: "tenant/acme", rate: swell(30*time.Second, 4, 32), work: between(4*time.Millisecond, 20*time.Millisecond), fails: always(0)},
	{resource: "tenant/globex", rate: always(7), work: between(4*time.Millisecond, 25*time.Millisecond), fails: always(0)},
	{ // all want the same item for a while
		resource: "GET /items", rate: always(40), work: between(3*time.Millisecond, 20*time.Millisecond), fails: always(0),
		item: inTurns(70*time.Second, 10*time.Second, mostly("item-7"), anyItem),
	},
	{resource: "report.daily", rate: always(0.4), work: between(400*time.Millisecond, 1500*time.Millisecond), fails: always(0)},
}

var errPretended = errors.New("a pretended failure")

const tick = 20 * time.Millisecond

// open lets the customers in until ctx ends, and waits until the last has gone.
func (s *shop) open(ctx context.Context) {
	var inside sync.WaitGroup
	began := time.Now()
	for _, c := range s.customers {
		inside.Go(func() {
			ticker := time.NewTicker(tick)
			defer ticker.Stop()
			for due := 0.0; ; {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				at := time.Since(began)
				for due += c.rate(at) * tick.Seconds(); due >= 1; due-- {
					inside.Go(func() { s.call(ctx, c, at) })
				}
			}
		})
	}
	inside.Wait()
}

// call is one call of one customer. What comes of it is on the page.
func (s *shop) call(ctx context.Context, c flowOfCalls, at time.Duration) {
	if c.limited && !s.admitted(ctx) {
		return
	}
	var options []leapgate.EntryOption
	if c.item != nil {
		options = append(options, leapgate.WithArg("item", c.item(at)))
	}
	_ = s.gate.Do(ctx, c.resource, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(c.work(at)):
		}
		if rand.Float64() < c.fails(at) {
			return errPretended
		}
		return nil
	}, options...)
}

// admitted asks the limiters for one who comes from some address and says to be some user. Two
// thirds come from many addresses; the others are a few who try passwords.
func (s *shop) admitted(ctx context.Context) bool {
	address, user := fmt.Sprintf("203.0.113.%d", rand.IntN(250)), fmt.Sprintf("user-%d", rand.IntN(400))
	if rand.IntN(3) == 0 {
		i := min(rand.IntN(5), rand.IntN(5)) // the first is the worst
		address, user = fmt.Sprintf("198.51.100.%d", 7+11*i), []string{"admin", "root", "test", "guest", "info"}[i]
	}
	if d, err := s.perAddress.Allow(ctx, address); err != nil || !d.Allowed {
		return false
	}
	d, err := s.logins.Allow(ctx, user)
	return err == nil && d.Allowed
}

// The shapes of what changes with time.

func always(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

// swell goes from low to high and back once in a period.
func swell(period time.Duration, low, high float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 { return low + (high-low)*wave(at, period) }
}

func wave(at, period time.Duration) float64 {
	return (1 - math.Cos(2*math.Pi*at.Seconds()/period.Seconds())) / 2
}

// inTurns is the one for the second part of each period, which is so long, and the other before.
func inTurns[T any](period, length time.Duration, one, other func(time.Duration) T) func(time.Duration) T {
	return func(at time.Duration) T {
		if at%period >= period-length {
			return one(at)
		}
		return other(at)
	}
}

// between is any time from shortest to longest, short ones more often.
func between(shortest, longest time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration {
		return shortest + time.Duration(float64(longest-shortest)*math.Pow(rand.Float64(), 3))
	}
}

// slower is a time that grows as the swell of the same period does.
func slower(period, shortest, longest time.Duration) func(time.Duration) time.Duration {
	return func(at time.Duration) time.Duration {
		return between(shortest, shortest+time.Duration(float64(longest-shortest)*(0.25+0.75*wave(at, period))))(at)
	}
}
