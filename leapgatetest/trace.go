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

// some reports whether there is an entry that was not exited yet.
func (t *tracer) some() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open) > 0
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

// where returns the file and line of the program's call: the first that is not of the packages by
// which entries are made; if there is none, as in the handler of a server, where they are made.
func (t *trace) where() string {
	frames := runtime.CallersFrames(t.stack[:t.depth])
	made := ""
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		at := fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		if !internal(&frame) {
			return at
		}
		if name, ours := strings.CutPrefix(frame.Function, module); made == "" && ours &&
			!strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "/resource.") && !strings.HasPrefix(name, "/leapgatetest.") {
			made = at
		}
	}
	return made
}

const module = "github.com/leapgate-go/leapgate"

// internal reports whether a function is of a package by which entries are made, or was generated.
func internal(frame *runtime.Frame) bool {
	if strings.HasSuffix(frame.File, "_test.go") {
		return false
	}
	for _, prefix := range []string{module, "google.golang.org/grpc", "net/http", "database/sql", "runtime", "testing"} {
		if rest, is := strings.CutPrefix(frame.Function, prefix); is && (rest[0] == '.' || rest[0] == '/') {
			return true
		}
	}
	return strings.HasSuffix(frame.File, ".pb.go")
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
