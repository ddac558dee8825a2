package leapgate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// banned is a guard with one rule on every resource: it refuses calls of some tenants, but for
// critical ones.
type banned map[string]bool

func (b banned) Kind() string { return "banned" }

func (b banned) Bind(name string, _ []resource.Check) (checks []resource.Check, named bool) {
	cause := &resource.Cause{Resource: name, Kind: "banned", RuleID: "tenants", Detail: " calls of this tenant"}
	return []resource.Check{bannedCheck{b, cause}}, false
}

type bannedCheck struct {
	tenants banned
	cause   *resource.Cause
}

func (c bannedCheck) Cause() *resource.Cause  { return c.cause }
func (c bannedCheck) Mode() rule.Mode         { return rule.Enforce }
func (c bannedCheck) Stage() resource.Stage   { return resource.Counting }
func (c bannedCheck) Interval() time.Duration { return 0 } // it remembers nothing

func (c bannedCheck) ReserveArgs(_, n int64, by resource.Caller, args resource.Args) (v resource.Verdict, held any) {
	tenant, _ := args.Get("tenant")
	if c.tenants[tenant] && by.Criticality != resource.Critical {
		v.Refused = &resource.BlockError{Cause: c.cause, Observed: float64(n)}
	}
	return v, nil
}

func (c bannedCheck) RefundArgs(resource.Ticket, int64, resource.Args, any) {}

func (c bannedCheck) WaitArgs(_, _ int64, _ resource.Caller, _ resource.Args) time.Duration {
	return -1 // it will not be over by itself
}

func (c bannedCheck) Snapshot(int64) stat.RuleSnapshot { return stat.RuleSnapshot{} }

// What follows is of checks without arguments, and is not called.
func (c bannedCheck) Reserve(_, _ int64, _ resource.Caller) (v resource.Verdict)   { return v }
func (c bannedCheck) Refund(resource.Ticket, int64)                                {}
func (c bannedCheck) Wait(_, _ int64, _ resource.Caller) (notCalled time.Duration) { return 0 }

// Rules decide by the arguments and the criticality of calls. Here a guard of the program's
// own does.
func ExampleWithArg() {
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{banned{"acme": true}}})
	call := func(opts ...leapgate.EntryOption) {
		e, err := g.EntryContext(context.Background(), "GET /orders", opts...)
		fmt.Println("error:", err)
		e.Exit()
	}
	call(leapgate.WithArg("tenant", "initech"))
	call(leapgate.WithArg("tenant", "acme"))
	call(leapgate.WithArg("tenant", "acme"), leapgate.WithCriticality(leapgate.Critical))
	// Output:
	// error: <nil>
	// error: banned rule "tenants" on "GET /orders": 1 of 0 calls of this tenant
	// error: <nil>
}
