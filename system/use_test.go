package system_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/system"
)

// At twice what the places can take, what is held for those that matter more leaves few places free.
func TestShedding_UsesThePlaces(t *testing.T) {
	t.Parallel()
	const places, seconds = 200, 20
	for name, critical := range map[string]float64{"one criticality": 0, "a third critical": 0.3} {
		w, rnd := newWorld(t, all(system.Rule{MaxInFlight: places})), rand.New(rand.NewPCG(1, 2))
		ends := map[int64][]*resource.Entry{}
		inside, used := 0, 0
		for i := range seconds * 1000 {
			now := w.clock.Now()
			exit(ends[now])
			inside -= len(ends[now])
			delete(ends, now)
			for range 4 { // a millisecond, of which 2 can be taken
				c := leapgate.Background
				if rnd.Float64() < critical {
					c = leapgate.Critical
				}
				passed, _ := w.try("a", 1, leapgate.WithCriticality(c), leapgate.WithOrigin(fmt.Sprint(rnd.IntN(1000))))
				end := now + int64(ms+time.Duration(rnd.ExpFloat64()*float64(99*ms)).Round(ms))
				ends[end] = append(ends[end], passed...)
				inside += len(passed)
			}
			if i >= seconds*1000/4 {
				used += inside
			}
			w.clock.Advance(ms)
		}
		require.Greater(t, float64(used)/(places*seconds*1000*3/4), 0.88, name)
	}
}
