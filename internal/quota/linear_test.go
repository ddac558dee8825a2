package quota

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// The histories run on a short axis: buckets are 10 long and are named here by
// their number.
const (
	linearLength  = 10
	linearBuckets = 3
	linearLimit   = 4
	linearSpan    = 12 // buckets on the axis
)

// call is a Take, or, if refund is set, a Refund of n to the bucket of ticket.
type call struct {
	refund bool
	now, n int64
	ticket int64
}

// linearState is the quota as one caller after the other would see it: the newest
// bucket, and what each has admitted. Bucket −1 is none.
type linearState struct {
	newest   int64
	admitted [linearSpan]int64
}

func (s linearState) window(newest int64) (sum int64) {
	for b := max(0, newest-linearBuckets+1); b <= newest; b++ {
		sum += s.admitted[b]
	}
	return sum
}

// linearModel says what a Take or a Refund may answer. It is weaker than the quota
// in two points, which only the interleaving could tell: a call may find a bucket
// newer than its now and than what the calls before it left, since another call
// that is still under way has opened it, or has sealed the one before; and a refund
// to the newest bucket may be dropped for the same reason. Both need somebody in
// the history whose now is that late: last is the bucket of the latest.
func linearModel(last int64) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{linearState{newest: -1}} },
		Step: func(state, input, output any) (next []any) {
			s, in := state.(linearState), input.(call)
			if in.refund {
				b := in.ticket / linearLength
				if b < s.newest || b < last {
					next = append(next, s) // dropped
				}
				if b == s.newest {
					s.admitted[b] -= in.n
					next = append(next, s)
				}
				return next
			}
			out := output.(Outcome)
			if b := max(s.newest, in.now/linearLength); b <= last {
				for ; b <= last; b++ {
					held := s.window(b)
					after := s
					after.newest = b
					switch {
					case out.OK && out.Ticket == b*linearLength && held+in.n <= linearLimit:
						after.admitted[b] += in.n
						next = append(next, after)
					case !out.OK && out.Held == held && held+in.n > linearLimit:
						next = append(next, after)
					}
				}
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
	return model.ToModel()
}

// Short histories of goroutines that take and give back around roll-overs, each
// checked against every order that the calls could have had.
func TestQuota_HistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	const goroutines, calls, rounds = 4, 6, 700
	for round := range uint64(rounds) {
		q := newQuota(t, linearLength*linearBuckets, linearBuckets, false)
		if round%3 != 0 {
			slowOpeners(t, q)
		}
		var order, clock, latest atomic.Int64
		histories := make([][]porcupine.Operation, goroutines)
		start := make(chan struct{})
		var done sync.WaitGroup
		for id := range goroutines {
			done.Go(func() {
				random := rand.New(rand.NewPCG(round, uint64(id)))
				record := func(in call, f func() Outcome) Outcome {
					op := porcupine.Operation{ClientId: id, Input: in, Call: order.Add(1)}
					out := f()
					op.Return, op.Output = order.Add(1), out
					histories[id] = append(histories[id], op)
					return out
				}
				<-start
				for range calls {
					in := call{now: min(clock.Add(random.Int64N(8)), linearSpan*linearLength-1), n: 1 + random.Int64N(2)}
					if random.IntN(4) == 0 {
						in.now = max(0, in.now-random.Int64N(25))
					}
					if random.IntN(3) == 0 {
						runtime.Gosched()
					}
					for old := latest.Load(); in.now > old && !latest.CompareAndSwap(old, in.now); old = latest.Load() {
					}
					out := record(in, func() Outcome { return q.Take(in.now, in.n, linearLimit) })
					if out.OK && random.IntN(3) == 0 {
						record(call{refund: true, n: in.n, ticket: out.Ticket}, func() Outcome {
							q.Refund(out.Ticket, in.n)
							return Outcome{}
						})
					}
				}
			})
		}
		close(start)
		done.Wait()
		var history []porcupine.Operation
		for _, h := range histories {
			history = append(history, h...)
		}
		model := linearModel(latest.Load() / linearLength)
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
	op := func(at int64, in call, out Outcome) porcupine.Operation {
		return porcupine.Operation{Input: in, Output: out, Call: at, Return: at + 1}
	}
	full := op(0, call{now: 5, n: 4}, admitted(0))
	for name, c := range map[string]struct {
		then porcupine.Operation
		ok   bool
	}{
		"a refusal at the limit":            {op(10, call{now: 5, n: 1}, Outcome{Held: 4}), true},
		"one too many":                      {op(10, call{now: 5, n: 1}, admitted(0)), false},
		"a refusal for the wrong reason":    {op(10, call{now: 5, n: 1}, Outcome{Held: 3}), false},
		"a refusal that nothing justifies":  {op(10, call{now: 30, n: 1}, Outcome{Held: 4}), false},
		"room when the bucket has left":     {op(10, call{now: 30, n: 4}, admitted(30)), true},
		"a bucket that nobody could open":   {op(10, call{now: 30, n: 4}, admitted(90)), false},
		"a bucket of the past":              {op(10, call{now: 30, n: 1}, admitted(0)), false},
		"one too many beside it, at a time": {op(1, call{now: 5, n: 1}, admitted(0)), false},
	} {
		require.Equal(t, c.ok, porcupine.CheckOperations(linearModel(5), []porcupine.Operation{full, c.then}), name)
	}
}
