package whatif_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/whatif"
)

// A queue for places and one for turns, from plain lists: each call begins when it is the first
// of those that wait and there is room, or leaves when it has waited for too long.
func TestRun_QueuesEqualAPlainModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		var all []whatif.Request
		for _, r := range randomRequests(2000, seed) {
			if r.Resource == "GET /a" {
				all = append(all, r)
			}
		}
		const patience = 300 * time.Millisecond
		var ends, paced []time.Time // of calls that run; turns that were given
		var wantPlaces, wantTurns, waited int64
		for _, r := range all {
			// The place of the second to last end before is the first that is free.
			begin := r.At
			slices.SortFunc(ends, time.Time.Compare)
			if n := len(ends); n >= 2 && ends[n-2].After(begin) {
				begin = ends[n-2]
			}
			if begin.Sub(r.At) > patience {
				wantPlaces++
			} else {
				ends = append(ends, begin.Add(r.Duration))
				if begin.After(r.At) {
					waited++
				}
			}
			turn := r.At
			if n := len(paced); n > 0 && paced[n-1].Add(250*time.Millisecond).After(turn) {
				turn = paced[n-1].Add(250 * time.Millisecond)
			}
			if turn.Sub(r.At) > patience {
				wantTurns++
			} else {
				paced = append(paced, turn)
			}
		}
		require.NotZero(t, waited)
		r := run(t, whatif.Config{Rules: leapgate.Rules{Isolation: []isolation.Rule{
			{Resource: "GET /a", MaxInFlight: 2, MaxWait: patience},
		}}}, all...)
		require.Equal(t, []int64{wantPlaces, waited}, []int64{r.Blocked, r.Waited})
		r = run(t, whatif.Config{Rules: leapgate.Rules{Flow: []flow.Rule{
			{Resource: "GET /a", Threshold: 4, Behavior: flow.Pace, MaxWait: patience},
		}}}, all...)
		require.Equal(t, wantTurns, r.Blocked)
	}
}
