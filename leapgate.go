// Package leapgate keeps services alive under load. A program wraps a call in
// Entry and Exit; Leapgate counts passes, blocks, errors and response times in
// sliding windows, and admits or blocks each call by rules over those counts.
//
//	gate := leapgate.Must(leapgate.Config{})
//	err := gate.LoadFlowRules([]flow.Rule{{Resource: "GET /orders", Threshold: 100}})
//	…
//	e, err := gate.Entry("GET /orders")
//	if err != nil {
//		return err // errors.Is(err, leapgate.ErrBlocked)
//	}
//	defer e.Exit()
//
// A [Gate] is one instance: its clock, its resources, its rules. Most programs
// need one, and may use the functions of this package, which work on [Default].
// Tests make their own. [Gate.Do] and [Call] wrap a function, and see to its
// errors and panics, and [CallOr] has a fallback for refusals; a call that is made very often saves the look-up with
// [Gate.Resource].
//
// Admission is exact: never, whatever the number of goroutines, has the live
// window of a rule admitted more than its threshold. See [flow.Rule] for what
// Strict adds. A call that passes takes no lock and allocates nothing, except that
// the first call in a bucket, of the statistics or of a rule, opens it; that a new
// name is registered under a lock, which names beyond MaxResources try to take too; and that a
// call may have to wait, if rules say so.
//
// Everything may be called by any number of goroutines at once.
package leapgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/callerror"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/metric"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/stat"
)

// Config says how a gate works. The zero Config is a good one.
type Config struct {
	// Now is the clock: nanoseconds, for instance of Unix time. Nil is the real
	// one, which starts at the Unix time and then follows the monotonic clock, so
	// that setting the system's time moves no window. It must be safe for concurrent
	// use and should not go back. If it jumps ahead, the windows stay there until
	// it is reached again.
	Now func() int64

	// MaxResources limits the number of resources that no rule names, from 1 to 10,000,000. The default
	// is 10,000. When the limit is reached, a new name takes the place of an idle resource: one without
	// calls for a minute and for the longest interval of its rules, but at most an hour. Its counts end
	// then. If a small sample contains no idle resource, the resource "other" serves the name: all names
	// without a place share what the rules admit there. [Gate.Evictions] counts the evicted resources.
	//
	// The gate allocates a table of 8 to 16 bytes per resource, and a larger one if rules name many more.
	// A resource takes 0.5 KB when registered, 3.5 KB once called, 20 KB after a busy minute, and up to
	// 2 KB more for each processor that it keeps busy. Snapshot releases outdated statistics.
	MaxResources int

	// Logger gets what goes wrong in the background, at most once per cause. Nil
	// is slog.Default().
	Logger *slog.Logger

	// Outcome classifies a call that returned an error: as a Failure, which counts as
	// an exception, Ignored, or after all a Success. Nil: context.Canceled is the caller's
	// own doing and Ignored, and everything else a Failure; Do and Call know whether it was
	// the caller, and take it for a Failure if not. It must be safe for concurrent use.
	Outcome func(error) Outcome

	// Memory is where flow rules with Strategy MemoryAdaptive read how much memory is in use;
	// package memory has a sampler. Nil: it is not known, and their thresholds stand.
	Memory Memory

	// Load is where rules that have to do with the load of the machine read it; package load
	// has a sampler. Nil: nothing of it is known, and such rules let calls pass.
	Load Load

	// Sleep is how a call waits for its turn, or for a free place: d, or until ctx ends,
	// whose ctx.Err() it returns then. ctx is the call's, or made from it: it also ends when the call's
	// turn comes sooner, because others have given up or left. Nil is a timer. It goes with a Now
	// that is not the real time. It must not panic, or end the goroutine: then nobody gives back what the call has taken.
	Sleep func(ctx context.Context, d time.Duration) error

	// Guards are asked after the gate's own, in this order. See [resource.Guard]. Their kinds
	// differ from each other and from those of the gate's own rules.
	Guards []resource.Guard

	// OnChange is told when a rule has gone over from one state to another, as a breaker
	// that opens. It is called for each change once, and for those of one rule on one
	// resource one after the other, in their order. It is called with no lock held, so it may
	// call the gate, load rules too, but before the call or the load returns in which the
	// change came about: that takes so much longer, so OnChange should be quick. Other calls
	// never wait for it; if it hangs, changes gather, and are joined beyond 64: see Skipped
	// of [Change]. If it panics, that is counted (see [Gate.GuardFaults]) and logged. It must
	// not end the goroutine. Changes that calls in flight make after Close are told, too.
	// See [resource.State].
	OnChange func(Change)
}

// Change is a rule on a resource going over from one state to another.
type Change = stat.Change

// Memory reports how much memory is in use, in bytes, if that is known. It is asked for
// every call that a rule with Strategy MemoryAdaptive binds, by any number of goroutines at
// once, and must not panic. Package memory has one.
type Memory interface {
	Used() (bytes int64, known bool)
}

// Load returns what is known of the load of the machine. It is asked with no lock held, every 100 ms by
// each rule with a bound on it that calls come to, and whenever an adaptive rule looks at its limit, by any
// number of goroutines at once. It must be quick, and must not change what it has returned. Nil says that
// nothing is known. If it panics, nothing is known either; that is counted (see [Gate.GuardFaults]) and
// logged. Package load has one.
type Load interface {
	Signals() *stat.Signals
}

const maxMaxResources = 10_000_000

// EntryOption changes one entry.
type EntryOption = resource.EntryOption

// Outcome is how a call ended. See [resource.Outcome].
type Outcome = resource.Outcome

// The outcomes of calls.
const (
	Success = resource.Success // the resource did what it should
	Failure = resource.Failure // it did not; counts as an exception
	Ignored = resource.Ignored // the call says nothing about the resource
)

// BlockError says which rule refused a call and why:
//
//	var b *leapgate.BlockError
//	if errors.As(err, &b) { … b.RetryAfter … }
type BlockError = resource.BlockError

var (
	// ErrBlocked is what every refusal is, and nothing else.
	ErrBlocked = callerror.ErrBlocked
	// ErrName is the error of a resource name that is empty or longer than 1,024 bytes.
	ErrName = callerror.ErrName
	// ErrCount is the error of a count that is not 1 to 1,048,576.
	ErrCount = callerror.ErrCount
	// ErrOrigin is the error of an origin that is longer than 1,024 bytes.
	ErrOrigin = callerror.ErrOrigin
	// ErrArg is the error of a call with more than four arguments, with one whose name is
	// empty or longer than 1,024 bytes, or with a value longer than that.
	ErrArg = callerror.ErrArg
	// ErrConfig is what every error of [New] is.
	ErrConfig = errors.New("leapgate: bad configuration")
	// ErrClosed is the error of loading rules into a closed gate.
	ErrClosed = errors.New("leapgate: gate is closed")
)

// WithCount makes an entry count n times, 1 to 1,048,576. It passes if n more
// fit into every rule.
func WithCount(n int64) EntryOption { return resource.WithCount(n) }

// WithOrigin names the caller, for rules that are for some callers only; at most 1,024
// bytes.
func WithOrigin(origin string) EntryOption { return resource.WithOrigin(origin) }

// WithPriority lets an entry take what the next buckets of a flow rule will have room
// for, and wait for them, when the window is full: see MaxWait of [flow.Rule]. It has no effect on rules that pace.
func WithPriority() EntryOption { return resource.WithPriority() }

// WithArg adds an argument to the call, for rules that decide by it. The name has 1 to 1,024
// bytes, the value at most 1,024. An entry has at most four arguments; of one name the last
// holds.
func WithArg(name, value string) EntryOption { return resource.WithArg(name, value) }

// WithoutRates exempts an entry from all rules on calls per time, such as a stream that watches the
// health of the service. It counts among the calls in flight, and all other rules bind it. See
// [resource.WithoutRates].
func WithoutRates() EntryOption { return resource.WithoutRates() }

// WithCriticality says how much the call matters when not all can be served. Without it a
// call is between [Critical] and [Sheddable].
func WithCriticality(c Criticality) EntryOption { return resource.WithCriticality(c) }

// Criticality is how much a call matters when not all can be served.
type Criticality = resource.Criticality

// The criticalities besides the default. Background calls are refused first, then those
// that are Sheddable, and Critical ones last.
const (
	Critical   = resource.Critical
	Sheddable  = resource.Sheddable
	Background = resource.Background
)

// Gate is one instance of Leapgate. Make one with [New] or [Must].
type Gate struct {
	registry  registry
	resources *names.Table[resource.Resource] // those that are there
	sets      []kinds.Set                     // the rules, by kind
	loading   sync.Mutex                      // one load of rules at a time
}

// registry keeps the resources of a gate by name. [resource.NewRegistry] makes one; what
// its methods do stands there.
type registry interface {
	Names() *names.Table[resource.Resource]
	Now() int64
	Find(name string) (*resource.Resource, error)
	Resource(name string) *resource.Resource
	Changed(changes names.Set) (rebind func())
	Sum(name string, now int64, e metric.Event) int64
	Snapshot() []stat.Snapshot
	Totals() []resource.Totals
	Evictions() resource.Evictions
	GuardFaults() int64
	Signals() *stat.Signals
	Closed() bool
	Close()
}

// New makes a gate. It starts no goroutine. The error, if any, is [ErrConfig] and
// lists everything that is wrong with cfg.
func New(cfg Config) (*Gate, error) {
	var faults []error
	if cfg.MaxResources < 0 || cfg.MaxResources > maxMaxResources {
		faults = append(faults, fmt.Errorf("%w: MaxResources is %d; want 1 to %d, or 0 for 10000",
			ErrConfig, cfg.MaxResources, maxMaxResources))
	}
	owners := make(map[string]string) // of each kind
	for _, k := range kinds.All {
		owners[k.Name()] = "one of the gate's own"
	}
	for i, guard := range cfg.Guards {
		if fault := faultOf(guard, owners, i); fault != "" {
			faults = append(faults, fmt.Errorf("%w: Guards[%d] %s", ErrConfig, i, fault))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	g := new(Gate)
	var guards []resource.Guard
	env := ruleset.Env{Now: g.now, Passes: g.passes, Memory: cfg.Memory, Load: g.Signals}
	for _, k := range kinds.All {
		set := k.NewSet(env)
		g.sets, guards = append(g.sets, set), append(guards, set)
	}
	g.registry = resource.NewRegistry(resource.Config{
		Now:          cfg.Now,
		MaxResources: cfg.MaxResources,
		Outcome:      cfg.Outcome,
		Logger:       cfg.Logger,
		Sleep:        cfg.Sleep,
		Guards:       guards,
		Plugged:      cfg.Guards,
		OnChange:     cfg.OnChange,
		Load:         cfg.Load,
	})
	g.resources = g.registry.Names()
	return g, nil
}

func (g *Gate) now() int64 { return g.registry.Now() }

func (g *Gate) passes(name string, now int64) int64 { return g.registry.Sum(name, now, metric.Pass) }

// maxKind is the length of the longest kind of a guard of the program, in bytes.
const maxKind = 64

// faultOf says what is wrong with the guard of the program at index i, if anything, and notes its
// kind. That its Kind panics is counted later, when it is asked for its checks.
func faultOf(guard resource.Guard, owners map[string]string, i int) (fault string) {
	if guard == nil {
		return "is nil; want a guard"
	}
	defer func() { _ = recover() }()
	kind := guard.Kind()
	if kind == "" || len(kind) > maxKind || escape.Text(kind) != kind {
		return fmt.Sprintf("has the kind %s; want 1 to %d bytes of printable text", escape.Quoted(kind), maxKind)
	}
	if owner, taken := owners[kind]; taken {
		return fmt.Sprintf("has the kind %q, which is %s; want another", kind, owner)
	}
	owners[kind] = fmt.Sprintf("that of Guards[%d]", i)
	return ""
}

// Must is [New] for a configuration that is known to be good. It panics otherwise.
func Must(cfg Config) *Gate {
	g, err := New(cfg)
	if err != nil {
		panic(err)
	}
	return g
}

// Default is the gate of the package's functions. It is made when it is first
// asked for, and is never closed by Leapgate. Tests that run in bubbles of testing/synctest
// must not share it: its windows stand still inside, which it logs. Make a gate inside the bubble.
func Default() *Gate { return defaultGate() }

var defaultGate = sync.OnceValue(func() *Gate { return Must(Config{}) })

// Entry begins a call into the resource of that name. If a rule refuses it, the
// error is a [*BlockError], and the entry is zero: its Exit does nothing. A name
// that is empty or longer than 1,024 bytes is [ErrName]; nothing is counted.
func (g *Gate) Entry(name string) (resource.Entry, error) {
	if r := g.resources.Get(name); r != nil {
		return r.Entry()
	}
	r, err := g.registry.Find(name)
	if err != nil {
		return resource.Entry{}, err
	}
	return r.Entry()
}

// EntryContext is [Gate.Entry] with options. If ctx has ended, it returns ctx.Err()
// and counts nothing.
func (g *Gate) EntryContext(ctx context.Context, name string, opts ...EntryOption) (resource.Entry, error) {
	r, err := g.find(ctx, name)
	if err != nil {
		return resource.Entry{}, err
	}
	return r.EntryContext(ctx, opts...)
}

// find returns the resource of a call, unless the call has been given up already.
func (g *Gate) find(ctx context.Context, name string) (*resource.Resource, error) {
	if ctx != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return g.registry.Find(name)
}

// Do runs fn as one call into a resource. See [Call].
func (g *Gate) Do(ctx context.Context, name string, fn func(context.Context) error, opts ...EntryOption) error {
	_, err := Call(ctx, g, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts...)
	return err
}

// Call runs fn as one call into a resource of g, and returns what fn returns. If a rule
// blocks the call, fn does not run and the error is a [*BlockError]. Config.Outcome
// classifies the error of fn. A panic of fn always counts as a failure and is not recovered.
func Call[T any](ctx context.Context, g *Gate, name string, fn func(context.Context) (T, error), opts ...EntryOption) (T, error) {
	return CallOr(ctx, g, name, fn, nil, opts...)
}

// CallOr is [Call] with a fallback: if a rule refuses the call, of whatever kind, it returns what
// fallback returns, such as a cached value. fallback gets the refusal, to look at its cause and
// RetryAfter, or to return it after all. It is not called for anything else: not for an error or a
// panic of fn, even if fn returns a refusal of another call, and not for a bad name or option, or a
// ctx that had ended before. If ctx ends while the call waits for its turn, that is a refusal; ctx
// has ended then for fallback too. A nil fallback is none.
//
// fallback is no part of the call: nothing is held while it runs, and neither its time nor its
// error or panic counts. The refusal has counted as one.
func CallOr[T any](
	ctx context.Context, g *Gate, name string, fn func(context.Context) (T, error),
	fallback func(context.Context, *BlockError) (T, error), opts ...EntryOption,
) (T, error) {
	r, err := g.find(ctx, name)
	if err != nil {
		var none T
		return none, err
	}
	return resource.CallOr(ctx, r, fn, fallback, opts...)
}

// Resource returns a handle to the resource of that name, which saves each entry the
// look-up. The handle is good for ever. The entries of one for a bad name are [ErrName].
func (g *Gate) Resource(name string) *resource.Resource { return g.registry.Resource(name) }

// Lookup returns the resource of that name if it is there, and nil otherwise. It registers
// nothing, so it is for names that come from outside.
func (g *Gate) Lookup(name string) *resource.Resource { return g.resources.Get(name) }

// Snapshot returns the figures of every resource, sorted by name, read at one now but
// one after the other.
func (g *Gate) Snapshot() []stat.Snapshot { return g.registry.Snapshot() }

// Signals returns what Config.Load knows of the load of the machine now; nothing is known
// without one, nor if it panics. It is never nil, and must not be changed.
func (g *Gate) Signals() *stat.Signals { return g.registry.Signals() }

// Totals returns everything that was counted of every resource, sorted by name, for
// exporters. Calls do no work for that. See [resource.Totals].
func (g *Gate) Totals() []resource.Totals { return g.registry.Totals() }

// Rebind asks all guards again for their checks of the resources of these names, and
// registers those that are named by a rule. A guard of Config.Guards whose rules have
// changed needs it. Bad names are [ErrName], and nothing is done then; so it is with
// [ErrClosed].
func (g *Gate) Rebind(resources ...string) error {
	var faults []error
	for _, name := range resources {
		faults = append(faults, names.Check(name))
	}
	if g.registry.Closed() {
		faults = append(faults, ErrClosed)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	g.registry.Changed(names.Set{Names: resources})()
	return nil
}

// GuardFaults returns how often guards of Config.Guards, Config.OnChange and Config.Load have panicked.
func (g *Gate) GuardFaults() int64 { return g.registry.GuardFaults() }

// Evictions returns how many resources were evicted to make room for new names. See
// [Config.MaxResources].
func (g *Gate) Evictions() resource.Evictions { return g.registry.Evictions() }

// Close ends the gate: from now on entries pass, unguarded and uncounted. Calls in
// flight still count when they end, calls that wait go on waiting, and figures can be read. Closing again does
// nothing. The error is always nil.
func (g *Gate) Close() error {
	g.registry.Close()
	return nil
}

// Entry is [Gate.Entry] of [Default].
func Entry(name string) (resource.Entry, error) { return Default().Entry(name) }

// EntryContext is [Gate.EntryContext] of [Default].
func EntryContext(ctx context.Context, name string, opts ...EntryOption) (resource.Entry, error) {
	return Default().EntryContext(ctx, name, opts...)
}

// Do is [Gate.Do] of [Default].
func Do(ctx context.Context, name string, fn func(context.Context) error, opts ...EntryOption) error {
	return Default().Do(ctx, name, fn, opts...)
}

// Resource is [Gate.Resource] of [Default].
func Resource(name string) *resource.Resource { return Default().Resource(name) }

// LoadRules is [Gate.LoadRules] of [Default].
func LoadRules(rules Rules) error { return Default().LoadRules(rules) }

// LoadFlowRules is [Gate.LoadFlowRules] of [Default].
func LoadFlowRules(rules []flow.Rule) error { return Default().LoadFlowRules(rules) }

// Snapshot is [Gate.Snapshot] of [Default].
func Snapshot() []stat.Snapshot { return Default().Snapshot() }
