package system_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/system"
)

// At twice what the places can take, few permits are free because they are kept for critical calls.
func TestShedding_UsesThePlaces(t *testing.T) {
	t.Parallel()
	const seconds = 20
	for _, c := range []struct {
		places   int
		critical float64 // share of the calls
		used     float64
	}{{200, 0, 0.98}, {200, 0.3, 0.94}, {10, 0, 0.94}, {10, 0.3, 0.76}} {
		places := c.places
		w, rnd := newWorld(t, all(system.Rule{MaxInFlight: int64(places)})), rand.New(rand.NewPCG(1, 2))
		ends := map[int64][]*resource.Entry{}
		inside, used := 0, 0
		for i := range seconds * 1000 {
			now := w.clock.Now()
			exit(ends[now])
			inside -= len(ends[now])
			delete(ends, now)
			come := places / 50 // of which a half can be taken
			if places < 50 && i%(50/places) == 0 {
				come = 1
			}
			for range come {
				matters := leapgate.Background
				if rnd.Float64() < c.critical {
					matters = leapgate.Critical
				}
				passed, _ := w.try("a", 1, leapgate.WithCriticality(matters))
				end := now + int64(ms+time.Duration(rnd.ExpFloat64()*float64(99*ms)).Round(ms))
				ends[end] = append(ends[end], passed...)
				inside += len(passed)
			}
			if i >= seconds*1000/4 {
				used += inside
			}
			w.clock.Advance(ms)
		}
		share := float64(used) / float64(places*seconds*1000*3/4)
		t.Logf("%d places, %.1f critical: %.2f used", places, c.critical, share)
		require.Greater(t, share, c.used)
	}
}
