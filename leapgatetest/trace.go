package leapgatetest

import (
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate/internal/tracing"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// tracer is a guard that notes where each entry was made, until it is exited.
type tracer struct {
	mu   sync.Mutex
	open map[*trace]struct{}
}

// trace is where an entry was made.
type trace struct {
	resource string
	stack    [64]uintptr
	depth    int
}

func (*tracer) Kind() string { return "leapgatetest" }

func (t *tracer) Bind(name string, old []resource.Check) (checks []resource.Check, named bool) {
	if len(old) > 0 {
		return old, false
	}
	return []resource.Check{&traceCheck{tracer: t, cause: resource.Cause{Resource: name, Kind: t.Kind(), RuleID: name}}}, false
}

// unexited returns an error for each entry that is still there, by where they were made.
func (t *tracer) unexited() (errs []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[string]int{}
	for one := range t.open {
		counts[fmt.Sprintf("entry of %s made at %s was never exited", one.resource, one.where())]++
	}
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[text]; n > 1 {
			text += fmt.Sprintf(" (%d times)", n)
		}
		errs = append(errs, text)
	}
	return errs
}

// where returns the file and line of the program's call: the first that is not of the packages in
// which entries are made.
func (t *trace) where() string {
	frames := runtime.CallersFrames(t.stack[:t.depth])
	for {
		frame, more := frames.Next()
		if !internal(frame.Function) || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
	}
}

// internal reports whether a function is of a package in which entries are made.
func internal(function string) bool {
	name, ours := strings.CutPrefix(function, "github.com/leapgate-go/leapgate")
	return ours && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/resource.") || strings.HasPrefix(name, "/leapgatetest."))
}

// traceCheck traces the entries of one resource. It is asked last, and refuses none.
type traceCheck struct {
	tracing.Mark
	tracer *tracer
	cause  resource.Cause
}

func (c *traceCheck) Cause() *resource.Cause { return &c.cause }
func (*traceCheck) Mode() rule.Mode          { return rule.Enforce }
func (*traceCheck) Stage() resource.Stage    { return resource.Beginning }
func (*traceCheck) Interval() time.Duration  { return 0 }

// Reserve, Refund and Wait are those for calls without arguments, which ask the others.
func (*traceCheck) Reserve(int64, int64, resource.Caller) (v resource.Verdict) { return v }
func (*traceCheck) Refund(resource.Ticket, int64)                              {}
func (*traceCheck) Wait(int64, int64, resource.Caller) time.Duration           { return 0 }

func (*traceCheck) Snapshot(int64) (s stat.RuleSnapshot) { return s }

func (*traceCheck) WaitArgs(_, _ int64, _ resource.Caller, _ resource.Args) time.Duration { return 0 }

func (c *traceCheck) ReserveArgs(_, _ int64, _ resource.Caller, _ resource.Args) (v resource.Verdict, held any) {
	t := &trace{resource: c.cause.Resource}
	t.depth = runtime.Callers(1, t.stack[:])
	c.tracer.mu.Lock()
	defer c.tracer.mu.Unlock()
	c.tracer.open[t] = struct{}{}
	return v, t
}

func (c *traceCheck) RefundArgs(_ resource.Ticket, _ int64, _ resource.Args, held any) { c.end(held) }

func (c *traceCheck) FinishArgs(_, _ int64, _ time.Duration, _ resource.Outcome, held any) {
	c.end(held)
}

func (c *traceCheck) end(held any) {
	c.tracer.mu.Lock()
	defer c.tracer.mu.Unlock()
	delete(c.tracer.open, held.(*trace))
}

// report fails the test for entries that were never exited.
func (t *tracer) report(tb testing.TB) {
	tb.Helper()
	for _, text := range t.unexited() {
		tb.Error("leapgatetest: " + text)
	}
}
