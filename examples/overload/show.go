package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/system"
)

// systemRule binds all resources of the gate together.
var systemRule = system.Rule{
	ID: "process", Match: rule.All,
	// While more than 90 % of what the process may use is used, the rule finds out how many calls
	// may be in flight.
	MaxCPU: 0.9, Strategy: system.Limit,
	// The CPU tells of a flood only after two or three seconds; until then this holds.
	MaxInFlight: 64,
}

const (
	floods  = 3.0 // times what the process can do
	quiet   = 0.5
	measure = 2 * time.Second
)

// phases are what is shown, one after the other.
var phases = []struct {
	title  string
	rules  []system.Rule
	times  float64 // what the process can do
	length time.Duration
}{
	{"Three times as many calls as it can do, without rules", nil, floods, 4 * time.Second},
	{"Half as many as it can do, with the rule", []system.Rule{systemRule}, quiet, 2 * time.Second},
	{"Three times as many, with the rule: the first three seconds", []system.Rule{systemRule}, floods, 3 * time.Second},
	{"… and the next five", []system.Rule{systemRule}, floods, 5 * time.Second},
}

func show(ctx context.Context, gate *leapgate.Gate, work func(context.Context) error, out io.Writer) error {
	s := &shop{gate: gate, work: work}
	can := s.can(ctx)
	fmt.Fprintf(out, "It can do %.0f calls a second. Callers give up after %v.\n", can, patience)
	var last []tally
	for _, p := range phases {
		if err := gate.LoadRules(leapgate.Rules{System: p.rules}); err != nil {
			return err
		}
		t := s.crowd(ctx, can*p.times, p.length)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		fmt.Fprintf(out, "\n%s\n", p.title)
		if err := t.print(out); err != nil {
			return err
		}
		last = append(last, t)
	}
	without, with := last[0].all(), last[len(last)-1].all()
	fmt.Fprintf(out, "\nServed in a second without the rule: %.0f, 99 %% of those let in were done within %v.\nWith it: %.0f, and %v.\n",
		float64(without.served)/phases[0].length.Seconds(), without.percentile(0.99),
		float64(with.served)/phases[len(phases)-1].length.Seconds(), with.percentile(0.99))
	return changes(gate, out)
}

// changes prints what became of the rule.
func changes(gate *leapgate.Gate, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	f := gate.Resource(name).Snapshot().Rules[0]
	fmt.Fprintf(table, "\nThe rule refused %d calls: %d critical, %d default, %d sheddable, %d background. Now it lets %.0f be in flight.\n",
		f.Shed.Sum(), f.Shed.Critical, f.Shed.Default, f.Shed.Sheddable, f.Shed.Background, f.Effective)
	for _, c := range f.LastChanges {
		fmt.Fprintf(table, "%s → %s\t%s\n", c.From, c.To, c.Reason)
	}
	return table.Flush()
}
