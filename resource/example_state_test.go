package resource_test

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// fuses is a guard that gives every resource a fuse: after three failures in a row it is
// open, and refuses all calls for a second.
type fuses struct{}

func (fuses) Kind() string { return "fuse" }

func (fuses) Bind(name string, old []resource.Check) (checks []resource.Check, named bool) {
	if len(old) > 0 {
		return old, false // nothing of it ever changes, so the old one goes on
	}
	state := resource.NewState("closed", "open") // it begins closed
	return []resource.Check{&fuse{state: state, cause: resource.Cause{
		Resource: name, Kind: "fuse", RuleID: "fuse", Threshold: 3, Detail: " failures in a row", State: state,
	}}}, false
}

// fuse is that of one resource.
type fuse struct {
	cause resource.Cause
	state *resource.State

	mu       sync.Mutex // guards what is below, and the changes of the state
	failures int        // in a row
	since    int64      // when it was closed last
	until    int64      // when it is to be closed again
}

// Look refuses calls while the fuse is open, before they wait for other rules.
func (f *fuse) Look(now, _ int64, _ resource.Caller) *resource.BlockError {
	if f.state.Current() == "closed" { // nearly always, so this takes no lock
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.state.Current() == "closed": // since another call has found that the time is over
	case now >= f.until:
		f.failures, f.since = 0, now
		f.state.Set(now, "closed", "a second is over")
	default:
		return &resource.BlockError{Cause: &f.cause, Observed: float64(f.failures), RetryAfter: time.Duration(f.until - now)}
	}
	return nil
}

// Reserve is asked when a call begins: the fuse may have opened while it waited.
func (f *fuse) Reserve(now, n int64, by resource.Caller) resource.Verdict {
	return resource.Verdict{Refused: f.Look(now, n, by)}
}

// Finish is told how the call ended. The fuse opens here.
func (f *fuse) Finish(now, _ int64, rt time.Duration, outcome resource.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	began := now - int64(rt)
	switch {
	case f.state.Current() == "open", began < f.since: // the call says nothing about the present
	case outcome == resource.Success:
		f.failures = 0
	case outcome == resource.Failure:
		if f.failures++; f.failures == 3 {
			f.until = now + int64(time.Second)
			f.state.Set(now, "open", fmt.Sprintf("%d failures in a row", f.failures))
		}
	}
}

// Wait tells how long after now the fuse is open: for the RetryAfter of other refusals, too.
func (f *fuse) Wait(now, _ int64, _ resource.Caller) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Current() == "closed" {
		return 0
	}
	return time.Duration(max(0, f.until-now))
}

func (f *fuse) Refund(resource.Ticket, int64) {} // it takes nothing

func (f *fuse) Cause() *resource.Cause  { return &f.cause }
func (f *fuse) Mode() rule.Mode         { return rule.Enforce }
func (f *fuse) Stage() resource.Stage   { return resource.Beginning }
func (f *fuse) Interval() time.Duration { return time.Second } // for so long it remembers what has opened it

// Snapshot leaves the state to the gate.
func (f *fuse) Snapshot(int64) stat.RuleSnapshot {
	return stat.RuleSnapshot{Threshold: f.cause.Threshold, Effective: f.cause.Threshold}
}

// A guard of one's own that has a state: the gate tells of its changes, and shows them.
func ExampleState() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	gate := leapgate.Must(leapgate.Config{
		Now:    func() int64 { return now.UnixNano() },
		Guards: []resource.Guard{fuses{}},
		OnChange: func(c leapgate.Change) {
			fmt.Printf("%s %s of %q: %s → %s: %s\n", c.At.UTC().Format("15:04:05.0"), c.Kind, c.Resource, c.From, c.To, c.Reason)
		},
	})
	call := func(err error) {
		e, refused := gate.Entry("db")
		if refused != nil {
			fmt.Println(refused)
			return
		}
		defer e.Exit()
		e.SetError(err)
	}

	for range 3 {
		call(errors.New("connection lost"))
	}
	now = now.Add(800 * time.Millisecond)
	call(nil)
	now = now.Add(200 * time.Millisecond)
	call(nil)

	rule := gate.Resource("db").Snapshot().Rules[0]
	fmt.Printf("%s since %s, after %d changes\n", rule.State, rule.Since.UTC().Format("15:04:05.0"), rule.Changes)
	// Output:
	// 12:00:00.0 fuse of "db": closed → open: 3 failures in a row
	// fuse rule "fuse" on "db": 3 of 3 failures in a row; retry in 200ms
	// 12:00:01.0 fuse of "db": open → closed: a second is over
	// closed since 12:00:01.0, after 2 changes
}
