package param_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

func counts(of ...any) (all []stat.ValueCount) {
	for i := 0; i < len(of); i += 2 {
		all = append(all, stat.ValueCount{Value: of[i].(string), Count: int64(of[i+1].(int))})
	}
	return all
}

func TestTop_TellsTheBusiestAndTheMostRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []param.Rule{
		{Threshold: 2}, {Threshold: 2, Behavior: param.Bucket}, {Threshold: 2, Candidate: 1}, {Threshold: 2, Mode: rule.Shadow}, {MaxInFlight: 2},
	} {
		r.Top, r.Items = 2, "free=-1, ban=0"
		w := newWorld(t, r)
		w.hold(9, item("free"))
		w.hold(7, item("a"))
		w.hold(3, item("ban"))
		w.hold(5, item("b"), leapgate.WithCount(2))
		w.pass(50)
		s := w.snapshot()
		require.Equal(t, counts("b", 10, "free", 9), s.Busiest, r)
		require.Equal(t, counts("b", 8, "a", 5), s.RefusedMost, r)
		require.Equal(t, int64(50), s.Missing)
	}
	w := newWorld(t, param.Rule{Threshold: 2})
	w.pass(5, item("a"))
	require.Empty(t, w.snapshot().Busiest)
}

func TestTop_WithoutAThresholdIsAProbeThatBlocksNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Top: 3, Items: "ban=0, few=2"})
	require.Equal(t, 100, w.pass(100, item("a")))
	require.Equal(t, 2, w.pass(5, item("few")))
	require.Zero(t, w.pass(5, item("ban")))
	s := w.snapshot()
	require.Equal(t, counts("a", 100, "ban", 5, "few", 5), s.Busiest)
	require.Equal(t, counts("ban", 5, "few", 3), s.RefusedMost)
	require.Equal(t, []int64{2, 8}, []int64{s.Admitted, s.Blocked})

	w = newWorld(t, param.Rule{Top: 3, Candidate: 5})
	require.Equal(t, 20, w.pass(20, item("a")), "a threshold can be tried")
	require.Equal(t, int64(15), w.snapshot().CandidateWouldBlock)
}

func TestTop_OfSeveralArgumentsIsNeverAmbiguous(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Arg: "tenant,item", Top: 5})
	call := func(times int, tenant, value string) {
		w.pass(times, leapgate.WithArg("tenant", tenant), item(value))
	}
	call(4, "a", "bc")
	call(3, "ab", "c")
	call(2, `a","b`, "\n")
	long := strings.Repeat("x", 1024)
	call(1, long, long)
	s := w.snapshot()
	require.Equal(t, counts(`"a","bc"`, 4, `"ab","c"`, 3, `"a\",\"b","\n"`, 2), s.Busiest[:3])
	require.Regexp(t, "^hash [0-9a-f]{64}$", s.Busiest[3].Value)
}

func TestTop_GoesOnWhenTheThresholdChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, param.Rule{Threshold: 2, Top: 3})
	w.pass(5, item("a"))
	w.load(param.Rule{MaxInFlight: 3, Top: 3})
	w.pass(1, item("a"))
	require.Equal(t, counts("a", 6), w.snapshot().Busiest)
	w.load(param.Rule{Threshold: 2, Top: 4})
	require.Empty(t, w.snapshot().Busiest, "another Top begins anew")
	w.pass(5, item("a"))
	w.load(param.Rule{Arg: "other", Threshold: 2, Top: 4})
	require.Empty(t, w.snapshot().Busiest, "another argument too")
}

// zipf draws numbers from 0 on, of which each comes (k+1)⁻ˢ times as often as the first.
func zipf(s float64, values int) func() int {
	upTo := make([]float64, values)
	sum := 0.0
	for k := range upTo {
		sum += math.Pow(float64(k+1), -s)
		upTo[k] = sum
	}
	random := rand.New(rand.NewPCG(3, 4))
	return func() int {
		k, _ := slices.BinarySearch(upTo, random.Float64()*sum)
		return k
	}
}

func TestTop_FindsTheBusiestOfManyWithinTheErrorThatItTells(t *testing.T) {
	t.Parallel()
	const values = 100_000
	for _, tt := range []struct {
		exponent float64
		top      int
	}{{1, 3}, {1, 1}, {0.8, 3}, {1.5, 20}} {
		w := newWorld(t, param.Rule{Top: tt.top})
		r, draw, truth := w.Resource("r"), zipf(tt.exponent, values), make([]int64, values)
		for range gatetest.Rounds(1_000_000) {
			value := draw()
			truth[value]++
			e, err := r.EntryContext(context.Background(), item(strconv.Itoa(value)))
			if err != nil {
				t.Fatal(err)
			}
			e.Exit()
		}
		found := w.snapshot().Busiest
		require.Len(t, found, tt.top)
		for k := range min(tt.top, 3) {
			require.True(t, slices.ContainsFunc(found, func(v stat.ValueCount) bool { return v.Value == strconv.Itoa(k) }), "%d of %v", k, found)
		}
		for _, v := range found {
			value, err := strconv.Atoi(v.Value)
			require.NoError(t, err)
			require.LessOrEqual(t, truth[value], v.Count)
			require.GreaterOrEqual(t, truth[value], v.Count-v.Excess)
		}
	}
}

// The bound of the memory is that of the documentation of Top.
func TestTop_MemoryIsBounded(t *testing.T) {
	w := newWorld(t, param.Rule{Top: 100, Threshold: 1, MaxKeys: 1})
	before := gatetest.LiveHeap()
	for i := range gatetest.Rounds(100_000) {
		w.pass(2, item(fmt.Sprintf("%01024d", i)))
	}
	gatetest.RequireHeap(t, before+12<<10*(100+15))
	require.Len(t, gates.Snapshot(t, w.Gate, "r").Rules[0].RefusedMost, 100)
}
