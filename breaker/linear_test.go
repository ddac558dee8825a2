package breaker

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/ruleset"
	"github.com/leapgate-go/leapgate/resource"
)

// The histories run on a short axis: one failure opens the breaker for 10, and two probes close
// it.
const (
	linearOpenFor = 10
	linearProbes  = 2
)

// ask is a Reserve at now, or, if it ends, a Finish of the call that began at start.
type ask struct {
	ends       bool
	now, start int64
	outcome    resource.Outcome
}

// linearState is the breaker as one caller after the other would see it.
type linearState struct {
	state  state
	since  int64
	probes [linearProbes]int64 // when those began that are undecided
	n      int                 // of probes
	good   int
}

func (s linearState) reserve(now int64) (next linearState, a answer) {
	switch {
	case s.state == closed:
		return s, answer{}
	case s.state == open && now < s.since+linearOpenFor:
		return s, answer{refused: &resource.Cause{}, retryAfter: time.Duration(s.since + linearOpenFor - now)}
	case s.state == open:
		s = linearState{state: halfOpen, since: now}
	case now < s.since || s.n+s.good == linearProbes:
		return s, answer{refused: &resource.Cause{}, retryAfter: unknown}
	}
	s.probes[s.n] = now
	s.n++
	slices.Sort(s.probes[:s.n])
	return s, answer{}
}

func (s linearState) finish(in ask) linearState {
	if in.start < s.since {
		return s
	}
	i := slices.Index(s.probes[:s.n], in.start)
	switch {
	case s.state == open, s.state == halfOpen && i < 0:
		return s
	case in.outcome == resource.Failure:
		return linearState{state: open, since: in.now}
	case s.state == closed:
		return s
	}
	copy(s.probes[i:], s.probes[i+1:])
	s.n--
	s.probes[s.n] = 0
	if in.outcome == resource.Success {
		if s.good++; s.good == linearProbes {
			return linearState{since: in.now}
		}
	}
	return s
}

// linearModel says what a call may be told. It is weaker than the breaker in one point: a failure
// that is counted opens a closed breaker when the next end of a call is judged, which may be that
// of another caller, at the time of that. ends are the times of all.
func linearModel(ends ...int64) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{linearState{since: beginning}} },
		Step: func(state, input, output any) (next []any) {
			s, in, out := state.(linearState), input.(ask), output.(answer)
			if !in.ends {
				after, want := s.reserve(in.now)
				if (want.refused == nil) == (out.refused == nil) && want.retryAfter == out.retryAfter {
					next = append(next, after)
				}
				return next
			}
			after := s.finish(in)
			next = append(next, after)
			if s.state == closed && after.state == open {
				for _, since := range ends {
					next = append(next, linearState{state: open, since: since})
				}
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
	return model.ToModel()
}

// Short histories of goroutines that begin and end calls, each checked against every order that
// these could have had: never more than two probes are admitted, no call of earlier times decides
// anything, and every refusal says how long the opening still lasts.
func TestBreaker_HistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	const goroutines, calls, rounds = 4, 8, 500
	rule := Rule{ID: "b", Interval: 1000, Buckets: 1, MinCalls: 1, ErrorCount: 1, OpenFor: linearOpenFor, Probes: linearProbes, ProbeTimeout: time.Hour}
	for round := range uint64(rounds) {
		b := compile(&ruleset.Env{}, &rule, "a", nil).(*check).breaker
		var order, clock atomic.Int64
		histories := make([][]porcupine.Operation, goroutines)
		start := make(chan struct{})
		var done sync.WaitGroup
		for id := range goroutines {
			done.Go(func() {
				random := rand.New(rand.NewPCG(round, uint64(id)))
				var held []int64
				<-start
				for range calls {
					in := ask{now: clock.Add(random.Int64N(4))}
					if random.IntN(3) == 0 {
						runtime.Gosched()
					}
					if len(held) > 0 && random.IntN(2) == 0 {
						in.ends, in.start, held = true, held[0], held[1:]
						in.outcome = []resource.Outcome{resource.Success, resource.Success, resource.Failure, resource.Ignored}[random.IntN(4)]
					}
					op := porcupine.Operation{ClientId: id, Input: in, Call: order.Add(1)}
					var out answer
					if in.ends {
						b.finish(in.now, in.start, in.outcome)
					} else if _, out = b.reserve(in.now); out.refused == nil {
						held = append(held, in.now)
					}
					op.Return, op.Output = order.Add(1), out
					histories[id] = append(histories[id], op)
				}
			})
		}
		close(start)
		done.Wait()
		history := slices.Concat(histories...)
		var ends []int64
		for _, op := range history {
			if in := op.Input.(ask); in.ends {
				ends = append(ends, in.now)
			}
		}
		model := linearModel(ends...)
		if !porcupine.CheckOperations(model, history) {
			for _, op := range history {
				t.Logf("goroutine %d, %d to %d: %s", op.ClientId, op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
			}
			require.FailNow(t, "no order of these calls explains the answers")
		}
	}
}

// The check itself must be able to fail.
func TestLinearModel_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	refused := func(after time.Duration) answer { return answer{refused: &resource.Cause{}, retryAfter: after} }
	at := int64(0)
	op := func(in ask, out answer) porcupine.Operation {
		at += 2
		return porcupine.Operation{Input: in, Output: out, Call: at, Return: at + 1}
	}
	opened := []porcupine.Operation{
		op(ask{now: 0}, answer{}),
		op(ask{ends: true, outcome: resource.Failure}, answer{}),
		op(ask{now: 10}, answer{}),
		op(ask{now: 11}, answer{}),
	}
	for name, c := range map[string]struct {
		then []porcupine.Operation
		ok   bool
	}{
		"a third probe":               {[]porcupine.Operation{op(ask{now: 12}, answer{})}, false},
		"none":                        {[]porcupine.Operation{op(ask{now: 12}, refused(unknown))}, true},
		"one when another is ignored": {[]porcupine.Operation{op(ask{ends: true, now: 12, start: 11, outcome: resource.Ignored}, answer{}), op(ask{now: 12}, answer{})}, true},
		"one when another is good":    {[]porcupine.Operation{op(ask{ends: true, now: 12, start: 11}, answer{}), op(ask{now: 12}, answer{})}, false},
		"a failure that does not open": {[]porcupine.Operation{
			op(ask{ends: true, now: 12, start: 11, outcome: resource.Failure}, answer{}), op(ask{now: 13}, refused(unknown)),
		}, false},
		"a failure that does": {[]porcupine.Operation{
			op(ask{ends: true, now: 12, start: 11, outcome: resource.Failure}, answer{}), op(ask{now: 13}, refused(9)),
		}, true},
		"the end of an earlier call": {[]porcupine.Operation{
			op(ask{ends: true, now: 12, start: 9}, answer{}), op(ask{ends: true, now: 12, start: 8}, answer{}), op(ask{now: 13}, answer{}),
		}, false},
	} {
		require.Equal(t, c.ok, porcupine.CheckOperations(linearModel(), slices.Concat(opened, c.then)), name)
	}
}
