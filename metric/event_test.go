package metric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/meter"
)

func TestEvent_String(t *testing.T) {
	t.Parallel()
	for e, want := range map[Event]string{
		Pass: "pass", Block: "block", Exception: "exception", Success: "success", RT: "rt",
		OccupiedPass: "occupied-pass", WouldBlock: "would-block",
		meter.NumEvents: "unknown event", 255: "unknown event",
	} {
		require.Equal(t, want, e.String())
	}
}

// Every event has a name of its own, also one that is added later.
func TestEvent_NamesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]Event{}
	for e := range Event(meter.NumEvents) {
		name := e.String()
		require.NotEmpty(t, name, "event %d", e)
		require.NotContains(t, seen, name)
		seen[name] = e
	}
}

func TestCounts_PlusMinusConcurrency(t *testing.T) {
	t.Parallel()
	a := Counts{Pass: 10, Block: 3, Exception: 1, Success: 7, RT: 700, OccupiedPass: 2, WouldBlock: 4}
	b := Counts{Pass: 4, Block: 1, Exception: 1, Success: 4, RT: 100, OccupiedPass: 1, WouldBlock: 4}
	require.Equal(t, Counts{Pass: 14, Block: 4, Exception: 2, Success: 11, RT: 800, OccupiedPass: 3, WouldBlock: 8}, a.Plus(b))
	require.Equal(t, Counts{Pass: 6, Block: 2, Exception: 0, Success: 3, RT: 600, OccupiedPass: 1, WouldBlock: 0}, a.Minus(b))
	require.Equal(t, a, a.Plus(b).Minus(b))
	require.EqualValues(t, 3, a.Concurrency())
	require.EqualValues(t, 0, b.Concurrency())
}
