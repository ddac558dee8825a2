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
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// Gate is a gate for one test: a subtest makes its own, since what Fill, Open, HalfOpen and Close find
// wrong fails the test that made it. It is a [leapgate.Gate] with all that it does: nothing is
// simulated. Pass its Gate to code that wants a *leapgate.Gate. Make one with [New].
type Gate struct {
	*leapgate.Gate
	t testing.TB
}

// New returns a gate that is closed when the test ends. The test fails if there is an entry then
// that is not exited within a second either, as calls are that are just ending. The failure names the file
// and the line of the call that made it: the innermost outside this module, of net/http, database/sql
// and gRPC. So every entry costs some microseconds more than in a program.
//
// The gate runs on the given clock: cfg.Now and cfg.Sleep are set. With a nil one it runs on the real
// one, which is that of the bubble in a test of testing/synctest; make the gate inside it.
//
// New fails the test if cfg is wrong.
func New(t testing.TB, cfg leapgate.Config, given *Clock) *Gate {
	t.Helper()
	if given != nil {
		if cfg.Now != nil || cfg.Sleep != nil {
			t.Fatal("leapgatetest: a clock is given, and so is Now or Sleep of the configuration; want one of them")
		}
		cfg.Now, cfg.Sleep = given.Now, given.Sleep
	}
	entries := &tracer{open: map[*trace]struct{}{}}
	cfg.Guards = append(slices.Clone(cfg.Guards), entries)
	gate, err := leapgate.New(cfg)
	if err != nil {
		t.Fatalf("leapgatetest: %v", err)
	}
	t.Cleanup(func() {
		t.Helper()
		for wait := time.Millisecond; wait < time.Second && entries.some(); wait *= 2 {
			time.Sleep(wait) //nolint:forbidigo // what ends with the test, ends in real time
		}
		entries.report(t)
		if err := gate.Close(); err != nil {
			t.Errorf("leapgatetest: %v", err)
		}
	})
	return &Gate{gate, t}
}

// most is how many calls Fill makes until it gives up.
const most = 100_000

// hurry is for calls that would have to wait: they are refused.
var hurry = clock.Impatient(context.Background())

// Fill uses up the rules of a resource on rates, those of kind flow and param: it makes calls until
// one is refused, so that the next is refused as well, until time goes on. They end at once. A call that
// would have to wait counts as refused. It fails the test if another kind of rule refuses, or if
// 100,000 calls pass.
func (g *Gate) Fill(name string, opts ...leapgate.EntryOption) {
	g.t.Helper()
	for range most {
		e, err := g.EntryContext(hurry, name, opts...)
		if err == nil {
			e.Exit()
			continue
		}
		b, ok := errors.AsType[*leapgate.BlockError](err)
		if !ok || b.Cause == nil || b.Kind != flow.Kind.Name && b.Kind != param.Kind.Name {
			g.t.Fatalf("leapgatetest: Fill(%q): %v; want a refusal by a rule of kind flow or param", name, err)
		}
		return
	}
	g.t.Fatalf("leapgatetest: Fill(%q): %d calls passed; want a rule that refuses some", name, most)
}

// Open opens a breaker, as Force of its rule does, until HalfOpen or Close. It fails the test if
// there is no rule of that ID.
func (g *Gate) Open(id string) {
	g.t.Helper()
	g.force(id, breaker.Open)
}

// HalfOpen makes a breaker half-open: the next call is a probe. It makes a probe itself, which says
// nothing, on each resource that the breaker has; those of a pattern that are called for the first time
// later begin closed. It fails the test if there is no rule of that ID, no such
// resource, or if another rule, but for those on rates, refuses the probe.
func (g *Gate) HalfOpen(id string) {
	g.t.Helper()
	g.force(id, breaker.Open)
	g.force(id, breaker.None)
	probed := false
	for _, s := range g.Snapshot() {
		if slices.ContainsFunc(s.Rules, func(r stat.RuleSnapshot) bool { return r.Kind == breaker.Kind.Name && r.ID == id }) {
			e, err := g.EntryContext(hurry, s.Resource, leapgate.WithoutRates())
			if err != nil {
				g.t.Fatalf("leapgatetest: HalfOpen(%q): no probe of %q can be made: %v", id, s.Resource, err)
			}
			e.SetOutcome(leapgate.Ignored)
			e.Exit()
			probed = probed || s.Resource != resource.Other // which has all patterns
		}
	}
	if !probed {
		g.t.Fatalf("leapgatetest: HalfOpen(%q): the breaker has no resource yet; want a call before", id)
	}
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
