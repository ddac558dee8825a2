package resource

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/internal/clock"
	"github.com/leapgate-go/leapgate/internal/meter"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/stat"
)

// Other is the name of the resource that serves the names beyond Config.MaxResources.
const Other = names.Other

// Config is what [NewRegistry] is told.
type Config struct {
	Now          func() int64                               // the clock; nil is the real one
	MaxResources int                                        // places for resources that no rule names; below 1: 10,000
	Sleep        func(context.Context, time.Duration) error // how calls wait; nil is a timer
	Outcome      func(error) Outcome                        // how a call ended that returned an error; nil: context.Canceled is Ignored, others Failure
	Logger       *slog.Logger                               // for faults of Plugged; nil is slog.Default()
	Guards       []Guard                                    // asked in this order, trusted
	Plugged      []Guard                                    // asked after them, called under recover
	OnChange     func(stat.Change)                          // told of every change of a [State], under recover; nil: nobody is
	Load         Load                                       // what the machine is doing, asked under recover; nil: nothing is known
}

// Load is what Load of the gate's configuration is.
type Load interface{ Signals() *stat.Signals }

// registry holds the resources of a gate by name. Looking one up takes no lock;
// a new name takes one, for a short time however many there are, but when the table
// grows, because rules name more than MaxResources resources.
type registry struct {
	lastRule atomic.Int64 // the last serial of a check; first, to be aligned on 32-bit machines

	clock      clock.Clock
	sleep      func(context.Context, time.Duration) error
	bubble     func()                 // logs inBubble, once
	table      *names.Table[Resource] // changed under mu
	outcome    func(error) Outcome
	ignoresOwn bool // outcome is the default: only the caller's own cancellation is ignored
	guards     []Guard
	faults     []*faultLog // of the guards that the program brought, and the two below
	onChange   func(stat.Change)
	panics     *faultLog // of onChange
	load       Load
	loadPanics *faultLog
	max        int
	nowhere    *guardSet     // the set of resources without a place
	generation atomic.Uint32 // of the rules, so that a binding to older ones is noticed
	full       atomic.Bool   // all places are taken; written under mu
	crowded    atomic.Bool   // the last search for a place found none
	closed     atomic.Bool   // written under mu
	other      *Resource     // serves the names without a place

	mu        sync.Mutex  // guards what is below; no callback runs under it
	places    []*Resource // those that may be evicted, max at most
	kept      []*Resource // those that rules name, and other
	hand      int         // goes round the places in search of idle ones
	serial    int64       // of the last resource that got a place
	evictions Evictions

	rebinding sync.Mutex   // guards unbound
	unbound   []*names.Set // those that are not carried out yet, oldest first
}

// NewRegistry makes the registry of a gate, without resources. It is for package leapgate,
// and may change with it: programs call leapgate.New.
func NewRegistry(cfg Config) *registry { //nolint:revive // what users have no use for is not in the documentation
	if cfg.MaxResources < 1 {
		cfg.MaxResources = 10_000
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	g := &registry{
		clock:   clock.New(cfg.Now),
		sleep:   cfg.Sleep,
		table:   names.New[Resource](cfg.MaxResources),
		outcome: cfg.Outcome,
		guards:  slices.Clone(cfg.Guards),
		max:     cfg.MaxResources,
	}
	if g.outcome == nil {
		g.outcome, g.ignoresOwn = outcomeOf, true
	}
	for _, guard := range cfg.Plugged {
		p := plugged{guard, &faultLog{logger: cfg.Logger}}
		p.faults.kind = valueOf(p.faults, "Kind", "", guard.Kind)
		g.guards = append(g.guards, p)
		g.faults = append(g.faults, p.faults)
	}
	g.bubble = sync.OnceFunc(func() { cfg.Logger.Error(inBubble) })
	g.onChange, g.panics = cfg.OnChange, &faultLog{kind: "OnChange", logger: cfg.Logger}
	g.load, g.loadPanics = cfg.Load, &faultLog{kind: "Load", logger: cfg.Logger}
	g.faults = append(g.faults, g.panics, g.loadPanics)
	g.nowhere = &guardSet{registry: g}
	g.other = g.register(Other, nil, g.clock.Now())
	return g
}

const inBubble = "leapgate: the clock is before its own beginning: the gate was made outside a bubble of testing/synctest " +
	"and is used inside, so its windows stand still; make the gate inside the bubble, or set Now of its configuration"

// checkClock logs, once, if the real clock has gone back behind its own beginning. Only a bubble of
// testing/synctest makes it. It is asked where calls are refused and resources appear: the others
// shall not pay for it.
func (g *registry) checkClock(now int64) {
	if g.clock.BeforeBeginning(now) {
		g.bubble()
	}
}

// Find returns the resource that serves a name: its own, which is registered if
// need be, or that named [Other] if there is no place for it.
func (g *registry) Find(name string) (*Resource, error) {
	if r := g.table.Get(name); r != nil {
		return r, nil
	}
	if err := names.Check(name); err != nil {
		return nil, err
	}
	return g.register(name, nil, g.clock.Now()), nil
}

// Resource returns a handle for a name. It registers the name, if there is a place.
// The entries of a handle for a name that cannot be are all leapgate.ErrName.
func (g *registry) Resource(name string) *Resource {
	r, err := g.Find(name)
	if err != nil || r.name != name {
		return g.newResource(name)
	}
	return r
}

// Now reads the clock.
func (g *registry) Now() int64 { return g.clock.Now() }

// Names returns the table of the resources that are there. The registry alone changes it.
func (g *registry) Names() *names.Table[Resource] { return g.table }

// newResource makes a handle that has no place yet. It keeps a copy of the name,
// which may be part of a large buffer.
func (g *registry) newResource(name string) *Resource {
	r := &Resource{registry: g, name: strings.Clone(name)}
	r.set.Store(g.nowhere)
	return r
}

// attach finds where to count a call through r, which has no place itself: in r,
// registered anew, or in another resource of that name, or in other; but not in
// void, which is retired. It returns no set if the gate is closed.
func (g *registry) attach(r *Resource, void *meter.Meter, now int64) (*guardSet, error) {
	if err := names.Check(r.name); err != nil {
		return nil, err
	}
	for {
		where := g.table.Get(r.name)
		if where == nil {
			where = g.register(r.name, r, now)
		}
		if set := where.set.Load(); set.metric != nil && set.metric != void {
			return set, nil
		}
		if g.closed.Load() {
			return nil, nil
		}
		g.mu.Lock()   // an eviction that is under way is over when the lock is free
		g.mu.Unlock() //nolint:staticcheck // nothing to do under it
	}
}

// register returns the resource of a name, for which it finds a place, with handle as its
// resource, or a new one if handle is nil. If there is no place for it, or the gate is
// closed, it returns other.
func (g *registry) register(name string, handle *Resource, now int64) *Resource {
	g.checkClock(now)
	for !g.closed.Load() {
		if !g.mayHaveRoom(now) {
			if r := g.table.Get(name); r != nil {
				return r
			}
			break
		}
		if r := g.place(name, handle, now); r != nil {
			return r
		}
	}
	return g.other
}

// mayHaveRoom reports whether a new name is likely to get a place. If all are taken, it looks for idle
// resources first, since finding the rules of a name may take long. Calls do not wait for the lock to
// learn that there are none.
func (g *registry) mayHaveRoom(now int64) bool {
	if !g.full.Load() {
		return true
	}
	if !g.mu.TryLock() {
		if g.crowded.Load() {
			return false
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	return g.makeRoom(now, 1)
}

// place binds a name and registers it. It returns nil if the rules were changed meanwhile.
func (g *registry) place(name string, handle *Resource, now int64) *Resource {
	generation := g.generation.Load()
	checks, named := g.bind(name, nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.table.Get(name); r != nil {
		return r
	}
	if g.generation.Load() != generation {
		return nil
	}
	if g.closed.Load() || !named && !g.makeRoom(now, 1) {
		return g.other
	}
	if handle == nil {
		handle = g.newResource(name)
	}
	handle.named = named
	g.settle(handle, now, checks)
	return handle
}

// bind asks every guard for its checks of a resource, and whether any names it. old
// are the checks that it has, if it is there.
func (g *registry) bind(name string, old *checks) (all *checks, named bool) {
	named = name == Other
	for i, guard := range g.guards {
		some, names := guard.Bind(name, old.of(i))
		if all == nil && len(some) > 0 {
			all = newChecks()
		}
		all.add(i, some, old, &g.lastRule)
		named = named || names
	}
	if all != nil {
		all.arrange()
	}
	return all, named
}

// settle gives r a place. The caller holds mu.
func (g *registry) settle(r *Resource, now int64, checks *checks) {
	g.serial++
	r.born, r.serial = now, g.serial
	r.home = newGuardSet(g, checks)
	g.list(r)
	r.set.Store(r.home)
	g.table.Put(r.name, r)
}

// list puts r on the list it belongs to, and unlist takes it off. The caller
// holds mu.
func (g *registry) list(r *Resource) {
	list := g.listOf(r)
	r.index = len(*list)
	*list = append(*list, r)
	g.full.Store(len(g.places) >= g.max)
}

func (g *registry) unlist(r *Resource) {
	list := g.listOf(r)
	last := len(*list) - 1
	(*list)[r.index] = (*list)[last]
	(*list)[r.index].index = r.index
	(*list)[last] = nil
	*list = (*list)[:last]
	g.full.Store(len(g.places) >= g.max)
}

func (g *registry) listOf(r *Resource) *[]*Resource {
	if r.named {
		return &g.kept
	}
	return &g.places
}

// Snapshot returns the figures of every resource, by name. They are read at one
// now, but one after the other: calls come and go meanwhile. The resource
// [Other] is left out as long as nothing has been counted in it.
func (g *registry) Snapshot() []stat.Snapshot {
	all := g.all()
	now := g.clock.Now()
	at := g.clock.Wall(now)
	snapshots := make([]stat.Snapshot, 0, len(all))
	for _, p := range all {
		s := p.home.snapshot(p.name, now, at)
		s.Serial = p.serial
		if p.home.metric.Retired() || p.name == Other && s.Pass+s.Block == 0 && s.Rules == nil {
			continue // it was evicted meanwhile, or nobody has needed it
		}
		snapshots = append(snapshots, s)
	}
	return snapshots
}

// homeOf returns where r is counted, or was when the gate was closed, and the serial of that; nil if r
// has no place. Counting itself does without the lock.
func (g *registry) homeOf(r *Resource) (home *guardSet, serial int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.home == nil {
		if namesake := g.table.Get(r.name); namesake != nil {
			r = namesake
		}
	}
	return r.home, r.serial
}

// Sum is the number of events of a resource in the last second, 0 if it is not there.
func (g *registry) Sum(name string, now int64, e metric.Event) int64 {
	if r := g.table.Get(name); r != nil {
		if set := r.set.Load(); set.metric != nil {
			return set.metric.Sum(now, uint8(e))
		}
	}
	return 0
}

// Signals returns what Load knows. It is never nil: nothing is known without a Load, nor if it panics.
func (g *registry) Signals() *stat.Signals {
	if g.load != nil {
		if known := valueOf(g.loadPanics, "Signals", nil, g.load.Signals); known != nil {
			return known
		}
	}
	return &unknown
}

var unknown stat.Signals

// GuardFaults returns how often guards that the program brought, OnChange and Load have panicked.
func (g *registry) GuardFaults() (n int64) {
	for _, l := range g.faults {
		l.mu.Lock()
		n += l.count
		l.mu.Unlock()
	}
	return n
}

// Closed reports whether the registry is closed.
func (g *registry) Closed() bool { return g.closed.Load() }

// Close makes entries pass unguarded and uncounted from now on. Calls in flight
// are counted when they end, and figures can still be read.
func (g *registry) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed.Store(true)
	for _, list := range [...][]*Resource{g.places, g.kept} {
		for _, r := range list {
			r.set.Store(g.nowhere)
		}
	}
}
