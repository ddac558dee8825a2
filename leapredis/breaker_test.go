package leapredis

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBreaker_OpensAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	var b breaker
	for range 3 {
		for range failuresToOpen - 1 {
			p, ok := b.admit(0)
			require.True(t, ok)
			require.False(t, b.fail(p, 0, 0))
		}
		p, _ := b.admit(0)
		require.False(t, b.succeed(p))
	}
	for i := range failuresToOpen {
		p, _ := b.admit(0)
		require.Equal(t, i == failuresToOpen-1, b.fail(p, 0, 0))
	}
	require.Equal(t, Open, b.state())
	_, ok := b.admit(int64(retryTime) - 1)
	require.False(t, ok)
	require.Equal(t, minRetry, b.retryAfter(int64(retryTime)-1), "a caller that comes again is no flood")
}

func open(t *testing.T, b *breaker, now int64) {
	t.Helper()
	for range failuresToOpen {
		p, ok := b.admit(now)
		require.True(t, ok)
		b.fail(p, now, 0)
	}
	require.Equal(t, Open, b.state())
}

func TestBreaker_OneProbeAtATime(t *testing.T) {
	t.Parallel()
	var b breaker
	early, _ := b.admit(0)
	open(t, &b, 0)
	now := int64(retryTime)
	probe, ok := b.admit(now)
	require.True(t, ok)
	require.Equal(t, HalfOpen, b.state())
	_, ok = b.admit(now)
	require.False(t, ok)

	// A call from before it opened is no probe.
	require.False(t, b.succeed(early))
	require.False(t, b.fail(early, now, 0))
	require.Equal(t, HalfOpen, b.state())

	require.False(t, b.fail(probe, now, 0), "it was open before")
	require.Equal(t, Open, b.state())
	require.False(t, b.succeed(probe), "it has told already")
	_, ok = b.admit(now + int64(retryTime) - 1)
	require.False(t, ok)
	probe, ok = b.admit(now + int64(retryTime))
	require.True(t, ok)
	require.True(t, b.succeed(probe))
	require.Equal(t, Closed, b.state())

	for range failuresToOpen - 1 { // it begins anew
		p, _ := b.admit(now)
		require.False(t, b.fail(p, now, 0))
	}
	require.False(t, b.succeed(early), "that was another time")
	p, _ := b.admit(now)
	require.True(t, b.fail(p, now, 0))
}

func TestBreaker_Hammer(t *testing.T) {
	t.Parallel()
	var b breaker
	var mu sync.Mutex
	probes, closings, openings := 0, 0, int64(0)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 20_000 {
				now := int64(i) * int64(retryTime)
				p, ok := b.admit(now)
				if !ok {
					continue
				}
				probe := State(p.word&3) == HalfOpen
				if probe {
					mu.Lock()
					probes++
					require.Equal(t, 1, probes)
					probes--
					mu.Unlock()
				}
				var closed, opened bool
				if (i/7)%3 == 0 {
					closed = b.succeed(p)
				} else {
					opened = b.fail(p, now, 0)
				}
				mu.Lock()
				if closed {
					closings++
				}
				if opened {
					openings++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Positive(t, openings)
	if b.state() == Closed {
		require.EqualValues(t, openings, closings)
	} else {
		require.EqualValues(t, openings, closings+1)
	}
}

// A caller that sees that it is open can tell since when.
func TestBreaker_SinceIsKnownOnceItIsOpen(t *testing.T) {
	t.Parallel()
	for range 200 {
		var b breaker
		var all sync.WaitGroup
		all.Go(func() {
			state := Closed
			for state != Open {
				state = b.state()
			}
			if b.since.Load() == 0 {
				t.Error("it is open, and nobody knows since when")
			}
		})
		open(t, &b, 1)
		all.Wait()
	}
}
