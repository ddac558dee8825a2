package load_test

import (
	"fmt"
	"log/slog"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/load"
)

// A program that gives its gate a sampler.
func ExampleStart() {
	sampler, err := load.Start(load.Config{})
	if err != nil {
		panic(err)
	}
	defer sampler.Close()
	gate := leapgate.Must(leapgate.Config{Load: sampler})
	defer gate.Close()

	if cpu := gate.Signals().CPU; cpu.Known { // from the second sample on
		slog.Info("the load is watched", "cpu", cpu.Value, "processors", gate.Signals().Processors, "source", sampler.Source())
	}
	fmt.Println(gate.Signals().Pressure.Value <= 1)
	// Output: true
}

// A test that says what the load is.
func ExampleGiven() {
	var given load.Given
	gate := leapgate.Must(leapgate.Config{Load: &given})
	defer gate.Close()
	fmt.Println(gate.Signals().CPU)

	given.Set(load.Signals{CPU: load.Known(0.94)})
	fmt.Println(gate.Signals().CPU, gate.Signals().Pressure.Known)
	// Output:
	// {0 0 false}
	// {0.94 0.94 true} false
}
