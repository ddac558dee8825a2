package breaker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// probing is what happens to the probes of one half-open phase: one begins, or is refused, or ends.
type probing struct {
	by      *phase
	ends    bool
	now     int64 // when the call began
	outcome resource.Outcome
	turn    int // of those that were refused since all places were taken
}

// probed is a half-open phase as one caller after the other would see it. One bad probe decides.
type probed struct {
	undecided [3]int64 // when they began
	n, good   int
	decided   bool
	refused   int
}

func (s probed) isFull() bool { return s.n+s.good == len(s.undecided) }

// after returns what is after something that can be. When a phase has decided, no end says anything.
func (s probed) after(in probing, admitted bool) probed {
	switch {
	case s.decided:
		return s
	case in.ends:
		return s.end(in)
	case admitted:
		s.undecided[s.n] = in.now
		s.n++
		slices.Sort(s.undecided[:s.n])
	default:
		s.refused++
	}
	return s
}

func (s probed) end(in probing) probed {
	i := slices.Index(s.undecided[:s.n], in.now)
	copy(s.undecided[i:], s.undecided[i+1:])
	s.n--
	s.undecided[s.n] = 0
	switch in.outcome {
	case resource.Success:
		s.good++
		s.decided = s.isFull() && s.n == 0
	case resource.Failure:
		s.decided = true
	case resource.Ignored:
	}
	return s
}

// probesModel checks each half-open phase by itself.
var probesModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		of := map[*phase]int{}
		for _, op := range history {
			by := op.Input.(probing).by
			i, ok := of[by]
			if !ok {
				i = len(parts)
				of[by], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		for i := range parts {
			parts[i] = inTurn(parts[i])
		}
		return parts
	},
	Init: func() any { return probed{} },
	Step: func(state, input, output any) (ok bool, next any) {
		s, in := state.(probed), input.(probing)
		switch {
		case in.ends:
			ok = s.decided || slices.Contains(s.undecided[:s.n], in.now) // or the probe has not begun
		case output.(bool):
			ok = !s.decided && !s.isFull() && in.now >= in.by.since
		default:
			ok = !s.decided && s.isFull() && s.refused == in.turn
		}
		if ok {
			s = s.after(in, output.(bool))
		}
		return ok, s
	},
	DescribeOperation: func(input, output any) string {
		in := input.(probing)
		return fmt.Sprintf("half-open since %d: ends %t, began at %d, outcome %v → %v", in.by.since, in.ends, in.now, in.outcome, output)
	},
}

// inTurn spares the search most orders that are alike: those of calls that were refused and say the same,
// that all places were taken at some moment between their begin and their end. If there is an order, there
// is one in which they come in the order of their ends, after those are left out that last as long as
// another and longer: they say less. Those whose clock was behind were refused for that.
func inTurn(history []porcupine.Operation) (sorted []porcupine.Operation) {
	var refused []porcupine.Operation
	for _, op := range history {
		switch in := op.Input.(probing); {
		case in.ends || op.Output.(bool):
			sorted = append(sorted, op)
		case in.now >= in.by.since:
			refused = append(refused, op)
		}
	}
	slices.SortFunc(refused, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	turn, lastCall := 0, int64(-1)
	for _, op := range refused {
		if op.Call < lastCall { // the one before lies in it
			continue
		}
		lastCall = op.Call
		in := op.Input.(probing)
		in.turn = turn
		op.Input = in
		turn++
		sorted = append(sorted, op)
	}
	return sorted
}

// caller makes calls, and notes when it was told what, in the order of all callers.
type caller struct {
	b       *breaker
	order   *atomic.Int64
	held    []probing // in flight
	history []porcupine.Operation
}

func (c *caller) begin(now int64) {
	op := porcupine.Operation{Call: c.order.Add(1)}
	by, a := c.b.reserve(now)
	op.Return = c.order.Add(1)
	in := probing{by: by, now: now}
	op.Input, op.Output = in, a.refused == nil
	c.history = append(c.history, op)
	if a.refused == nil {
		c.held = append(c.held, in)
	}
}

func (c *caller) end(now int64, outcome resource.Outcome) {
	in := c.held[0]
	c.held = c.held[1:]
	in.ends, in.outcome = true, outcome
	op := porcupine.Operation{Input: in, Call: c.order.Add(1)}
	c.b.finish(max(now, in.now), in.now, outcome)
	op.Return, op.Output = c.order.Add(1), false
	c.history = append(c.history, op)
}

// requireOrder requires that nobody was told of a phase after another had been told of a later one.
func requireOrder(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	byPhase := func(a, b porcupine.Operation) int {
		p, q := a.Input.(probing).by, b.Input.(probing).by
		return cmp.Or(cmp.Compare(p.since, q.since), cmp.Compare(q.state, p.state)) // half-open comes first
	}
	slices.SortFunc(history, byPhase)
	lastCall, earlier := int64(0), int64(0)
	for i, op := range history {
		if i > 0 && byPhase(history[i-1], op) != 0 {
			earlier = lastCall
		}
		if !op.Input.(probing).ends {
			if op.Return < earlier {
				require.FailNow(t, "an earlier state was told of after a later one")
			}
			lastCall = max(lastCall, op.Call)
		}
	}
}

// Cycles of 64 goroutines on a given clock. Each half-open phase is a history by itself: never are
// more probes admitted than may be until they have decided, and each refusal was due. In the end
// no probe is in flight.
func TestBreaker_CyclesOfManyGoroutinesAreLinearizable(t *testing.T) {
	t.Parallel()
	const goroutines = 64
	openings := gatetest.Rounds(openingsToCheck)
	rule := Rule{
		ID: "b", Interval: time.Hour, Buckets: 1, MinCalls: 1, Consecutive: 5,
		OpenFor: 5, Probes: 3, ProbeTimeout: time.Hour,
	}
	b := compile(&ruleset.Env{}, &rule, "a", nil).(*check).breaker
	var order, clock atomic.Int64
	callers := make([]caller, goroutines)
	for id := range callers {
		callers[id] = caller{b: b, order: &order}
	}
	closings := 0
	var probings []porcupine.Operation // of half-open phases that go on
	goesOn := b.phase.Load()
	for round, opened := uint64(0), 0; opened < openings; round++ {
		gatetest.AtOnce(goroutines, func(id int) {
			random, c := rand.New(rand.NewPCG(round, uint64(id))), &callers[id]
			for range 30 {
				now := clock.Add(1) // a call is known by when it began
				if random.IntN(3) == 0 {
					runtime.Gosched()
				}
				if len(c.held) > 3 || len(c.held) > 0 && random.IntN(3) > 0 {
					outcome := []resource.Outcome{resource.Success, resource.Failure, resource.Failure, resource.Ignored}[random.IntN(4)]
					if now&64 == 0 && outcome == resource.Failure { // so that it closes as well
						outcome = resource.Success
					}
					c.end(now, outcome)
				} else {
					c.begin(now)
				}
			}
		})
		var all []porcupine.Operation
		for id := range callers {
			all = append(all, callers[id].history...)
			callers[id].history = callers[id].history[:0]
		}
		requireOrder(t, all)
		phases := map[*phase]bool{goesOn: true}
		for _, op := range all {
			if in := op.Input.(probing); !in.ends && !phases[in.by] {
				phases[in.by] = true
				if in.by.state == closed {
					closings++
				}
				if in.by.state == open {
					opened++
				}
			}
		}
		goesOn = b.phase.Load()
		var over []porcupine.Operation
		all, probings = append(probings, all...), nil
		for _, op := range all {
			switch in := op.Input.(probing); {
			case in.by.state != halfOpen || !phases[in.by]: // what ends after its phase says nothing
			case in.by == goesOn:
				probings = append(probings, op)
			default:
				over = append(over, op)
			}
		}
		if !porcupine.CheckOperations(probesModel, over) {
			for _, op := range over {
				t.Logf("%d to %d: %s", op.Call, op.Return, probesModel.DescribeOperation(op.Input, op.Output))
			}
			require.FailNow(t, "no order of these calls explains the answers")
		}
	}
	require.Greater(t, closings, openings/100)

	for id := range callers {
		for len(callers[id].held) > 0 {
			callers[id].end(clock.Add(1), resource.Failure)
		}
	}
	if p := b.phase.Load(); p.state == halfOpen {
		require.Empty(t, p.probes.undecided)
	}
}
