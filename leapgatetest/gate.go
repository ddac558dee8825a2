package leapgatetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
)

// Gate is a gate for one test. It is a [leapgate.Gate] with all that it does: nothing is
// simulated. Pass its Gate to code that wants a *leapgate.Gate. Make one with [New].
type Gate struct {
	*leapgate.Gate
	t     testing.TB
	clock *Clock // nil: the real one
}

// pause lets time pass on the gate's clock.
func (g *Gate) pause(d time.Duration) {
	if g.clock == nil {
		time.Sleep(d) //nolint:forbidigo // a bubble of testing/synctest makes it no time
	} else {
		g.clock.Advance(d)
	}
}

// New returns a gate that is closed when the test ends. The test fails if there is an entry then
// that was never exited, and the failure names the file and the line of the call that made it.
// So every entry costs some microseconds more than in a program.
//
// The gate runs on the clock: cfg.Now and cfg.Sleep are set. With a nil clock it runs on the real
// one, which is that of the bubble in a test of testing/synctest; make the gate inside it.
//
// New fails the test if cfg is wrong.
func New(t testing.TB, cfg leapgate.Config, clock *Clock) *Gate {
	t.Helper()
	if clock != nil {
		if cfg.Now != nil || cfg.Sleep != nil {
			t.Fatal("leapgatetest: a clock is given, and so is Now or Sleep of the configuration; want one of them")
		}
		cfg.Now, cfg.Sleep = clock.Now, func(ctx context.Context, d time.Duration) error {
			if ctx.Value(impatient{}) != nil {
				return context.DeadlineExceeded
			}
			return clock.Sleep(ctx, d)
		}
	}
	entries := &tracer{open: map[*trace]struct{}{}}
	cfg.Guards = append(slices.Clone(cfg.Guards), entries)
	gate, err := leapgate.New(cfg)
	if err != nil {
		t.Fatalf("leapgatetest: %v", err)
	}
	t.Cleanup(func() {
		t.Helper()
		entries.report(t)
		if err := gate.Close(); err != nil {
			t.Errorf("leapgatetest: %v", err)
		}
	})
	return &Gate{gate, t, clock}
}

// most is how many calls Fill makes until it gives up.
const most = 10_000_000

// Fill uses up the flow rules of a resource: it makes calls until one is refused, so that the next
// is refused as well, until time goes on. They end at once. A call that would have to wait counts
// as refused. It fails the test if 10,000,000 calls pass.
func (g *Gate) Fill(name string, opts ...leapgate.EntryOption) {
	g.t.Helper()
	for range most {
		e, err := g.EntryContext(hurry, name, opts...)
		if err != nil {
			if !errors.Is(err, leapgate.ErrBlocked) {
				g.t.Fatalf("leapgatetest: Fill(%q): %v", name, err)
			}
			return
		}
		e.Exit()
	}
	g.t.Fatalf("leapgatetest: Fill(%q): %d calls passed; want a rule that refuses some", name, most)
}

// hurry is a context for which every wait is too long: its deadline is the present, on whatever
// clock the gate runs.
var hurry context.Context = impatient{context.Background()}

type impatient struct{ context.Context } //nolint:containedctx // it is one itself

func (impatient) Deadline() (deadline time.Time, ok bool) { return time.Now(), true }

func (i impatient) Value(key any) any {
	if key == (impatient{}) {
		return i
	}
	return nil
}

// Open opens a breaker, as Force of its rule does, until HalfOpen or Close. It fails the test if
// there is no rule of that ID.
func (g *Gate) Open(id string) {
	g.t.Helper()
	g.force(id, breaker.Open)
}

// HalfOpen makes a breaker half-open: the next call is a probe. It fails the test if there is no
// rule of that ID.
func (g *Gate) HalfOpen(id string) {
	g.t.Helper()
	g.force(id, breaker.Open)
	g.force(id, breaker.None)
	for _, s := range g.Snapshot() {
		for _, r := range s.Rules {
			if r.Kind == breaker.Kind.Name && r.ID == id {
				g.probe(s.Resource)
			}
		}
	}
}

// probe makes a call that says nothing about the resource: with it, a breaker that is open and
// whose time is over is half-open.
func (g *Gate) probe(name string) {
	g.t.Helper()
	e, err := g.EntryContext(hurry, name)
	if err != nil {
		g.t.Fatalf("leapgatetest: no probe of %q could be made: %v", name, err)
	}
	e.SetOutcome(leapgate.Ignored)
	e.Exit()
}

// Close closes a breaker: calls pass, and are judged from now on. It fails the test if there is no
// rule of that ID. (The gate itself is closed when the test ends.)
func (g *Gate) Close(id string) {
	g.t.Helper()
	g.force(id, breaker.Closed)
	g.force(id, breaker.None)
}

// force sets the switch of a breaker.
func (g *Gate) force(id string, to breaker.Force) {
	g.t.Helper()
	err := g.EditRules(func(all *leapgate.Rules) error {
		i := slices.IndexFunc(all.Breaker, func(r breaker.Rule) bool { return r.ID == id })
		if i < 0 {
			return fmt.Errorf("no breaker has the ID %q", id)
		}
		all.Breaker[i].Force = to
		return nil
	})
	if err != nil {
		g.t.Fatalf("leapgatetest: %v", err)
	}
}
