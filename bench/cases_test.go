package bench

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// A case that nobody runs rots.
func TestCases_Run(t *testing.T) {
	keyDivisor = 1000
	defer func() { keyDivisor = 1 }()
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) {
			worker := c.Make()
			workers := 2
			if c.Races && gatetest.Race {
				workers = 1
			}
			var done sync.WaitGroup
			for range workers {
				run := worker()
				done.Go(func() {
					run(10)
					run(0)
				})
			}
			done.Wait()
		})
	}
}

func TestCases_NamesThatExist(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases {
		if seen[c.Name] {
			t.Errorf("there are two cases %q", c.Name)
		}
		seen[c.Name] = true
	}
	for _, c := range Cases {
		if c.Floor == "" != strings.HasPrefix(c.Name, "floor/") {
			t.Errorf("%q has the floor %q", c.Name, c.Floor)
		}
		if c.Floor != "" && !seen[c.Floor] {
			t.Errorf("%q has the floor %q, which does not exist", c.Name, c.Floor)
		}
		if c.Near != "" && !strings.HasPrefix(c.Near, "leapgate/") || c.Near != "" && !seen[c.Near] {
			t.Errorf("%q is near %q, which is no case of Leapgate", c.Name, c.Near)
		}
	}
	for _, c := range slices.Concat(peers, breakerPeers) {
		if c.Near == "" {
			t.Errorf("%q is near to nothing", c.Name)
		}
	}
}

// allocationsPerRun is how often a case of Leapgate may allocate. What is not here
// does not at all.
var allocationsPerRun = map[string]float64{
	"leapgate/blocked": 1, // the BlockError
	nearOpen:           1,
	nearFull:           1,
	nearReject:         1,
	// The clock stands, so every call has to wait a nanosecond more than the one before.
	"leapgate/handle, paced by a rule": 10,

	"leapgate/gRPC server, exact rule and a limiter": 2, // the charges, and a context that the caller cannot end
	"leapgate/gRPC client, exact rule and pushback":  2, // the trailer, and the option that asks for it

	"leapgate/Snapshot": 2, // latencies: all, and those of the last ten seconds
}

func TestLeapgateCases_Allocations(t *testing.T) {
	// A bucket that opens allocates, ten times a second. Here, none does.
	now = func() int64 { return givenStart }
	keyDivisor = 1000
	defer func() { now, keyDivisor = nil, 1 }()
	for _, c := range Cases {
		if !strings.HasPrefix(c.Name, "leapgate/") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			run := c.Make()()
			run(10_000) // every resource has been called, and keeps what it allocated
			got := testing.AllocsPerRun(1000, func() { run(1) })
			if want := allocationsPerRun[c.Name]; got > want {
				t.Errorf("%v allocations, want at most %v", got, want)
			}
		})
	}
}
