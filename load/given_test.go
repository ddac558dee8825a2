package load_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/load"
)

func TestGiven_NothingIsKnownBeforeTheFirstSample(t *testing.T) {
	t.Parallel()
	var given load.Given
	require.Equal(t, load.Signals{}, *given.Signals())
}

func TestGiven_EachSetIsASample(t *testing.T) {
	t.Parallel()
	var given load.Given
	given.Set(load.Signals{CPU: load.Known(0.5), Seq: 7})
	require.Equal(t, load.Signals{Seq: 1, CPU: load.Signal{Value: 0.5, Raw: 0.5, Known: true}}, *given.Signals())
	before := given.Signals()
	given.Set(load.Signals{Throttled: load.Known(0)})
	require.Equal(t, load.Signals{Seq: 2, Throttled: load.Signal{Known: true}}, *given.Signals())
	require.EqualValues(t, 1, before.Seq, "what was read does not change")
}

func TestGiven_ManySetAndRead(t *testing.T) {
	t.Parallel()
	var given load.Given
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			last := uint64(0)
			for range 1000 {
				given.Set(load.Signals{CPU: load.Known(1)})
				if s := given.Signals(); s.Seq <= last || !s.CPU.Known {
					t.Errorf("sample %d after %d", s.Seq, last)
				}
				last = given.Signals().Seq
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 8000, given.Signals().Seq)
}
