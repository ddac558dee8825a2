package leapredis

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/limit"
)

// A key lives long: refunds and settlements come late and in any order, logs grow and shrink
// by turns, and keys are idle between. Each answer is that of the server's state at that
// moment, also where a refusal is remembered and the server is not asked.
func TestLongLives_EveryAnswerIsThatOfTheServersState(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(gatetest.Rounds(30)) {
				longLife(t, k, rand.New(rand.NewPCG(seed, 0)))
			}
		})
	}
}

func longLife(t *testing.T, k kind, random *rand.Rand) {
	t.Helper()
	most := []int64{1, 2, 10, 100, 500}[random.IntN(5)]
	window := []time.Duration{time.Millisecond, 7777 * time.Microsecond, time.Second, time.Hour}[random.IntN(4)]
	length := window.Microseconds()
	now := time.Now().UnixMicro() * microsecond
	s := newServer()
	s.now = func() int64 { return now / microsecond }
	l, err := k.make(s, Config{Limit: most, Window: window, Prefix: "p:", WhenAway: Deny, Timeout: time.Minute, Logger: quiet})
	require.NoError(t, err)
	defer l.Close()
	k.core(l).link.clock.Given = func() int64 { return now }
	wire := k.core(l).wire("a")
	ctx := context.Background()

	wouldPass := func(n int64) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if k.name == "Burst" {
			b := k.core(l).algorithm.(*burstScripts)
			return s.burst(wire, unpack(b.pack(&question{limit: most, n: max(1, n), most: takeNothing})))[0] >= max(1, n)
		}
		if k.name == "Counter" {
			return s.count(wire, most, length, max(1, n), takeNothing)[0] >= max(1, n)
		}
		return s.admit(wire, most, length, max(1, n), takeNothing)[0] >= max(1, n)
	}
	var charges []limit.Decision
	for range 40 {
		tick := length / max(1, most*[]int64{1, 4, 50}[random.IntN(3)]/2)
		asked := []int{95, 60, 15}[random.IntN(3)] // of 100 steps: it grows, or it shrinks
		if random.IntN(3) == 0 {
			now += random.Int64N(2*length+1) * microsecond
		}
		for range random.IntN(60) {
			now += random.Int64N(tick+1) * microsecond
			if random.IntN(100) < asked {
				n := []int64{0, 1, 1, 1, 1, 2, 3, max(1, most/3), most, most + 1}[random.IntN(10)]
				want := wouldPass(n)
				d, err := l.AllowN(ctx, "a", n)
				require.NoError(t, err)
				require.False(t, d.Degraded)
				require.Equal(t, want, d.Allowed)
				if d.Charged > 0 {
					charges = append(charges, d)
				}
				continue
			}
			if len(charges) == 0 {
				continue
			}
			i := random.IntN(len(charges))
			d := charges[i]
			charges = append(charges[:i], charges[i+1:]...)
			if random.IntN(3) == 0 {
				require.NoError(t, l.Settle(ctx, "a", d, random.Int64N(2*d.Charged+1)))
			} else {
				require.NoError(t, l.Refund(ctx, "a", d, 1+random.Int64N(d.Charged)))
			}
		}
	}
	require.Zero(t, l.Link().Failures)
}
