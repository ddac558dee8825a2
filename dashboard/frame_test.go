package dashboard

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/stat"
)

func passed(n int64) reading {
	return reading{resources: []stat.Snapshot{{Resource: "a", Pass: n}}, ruleSources: [visibilities][]byte{[]byte("[]")}, load: []byte("{}"), limiters: [visibilities][]byte{[]byte("[]"), []byte("[]")}}
}

// Viewers leave and others come while the figures are read. They wait for that reading, and
// then get figures that are newer.
func TestStream_FiguresNeverGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		readings := make(chan chan reading)
		s := newStream(func() reading {
			mine := make(chan reading)
			readings <- mine
			return <-mine
		}, 5, 5)
		first, _ := s.join("", 0)
		slow := <-readings
		s.leave(first)

		second, _ := s.join("", 0)
		synctest.Wait()
		select {
		case <-readings:
			t.Fatal("two read at a time")
		default:
		}
		slow <- passed(5)
		require.Contains(t, string(<-second.frames), "[1,0,0,0,0,0,0,0,0,0,5,0,")
		quick := <-readings
		quick <- passed(7)
		require.Contains(t, string(<-second.frames), "[1,0,0,0,0,0,0,0,0,0,7,0,")
		third, _ := s.join("", 0)
		require.Contains(t, string(<-third.frames), "[1,0,0,0,0,0,0,0,0,0,7,0,")
		s.leave(second)
		s.leave(third)
		s.close()
	})
}

// Those who come and go faster than the figures can be read do not cause a reading each.
func TestStream_ManyComeAndGoWhileItReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		read := make(chan struct{})
		s := newStream(func() reading {
			reads.Inc()
			<-read
			return passed(reads.Load())
		}, 5, 5)
		for range 50 {
			v, _ := s.join("", 0)
			synctest.Wait()
			s.leave(v)
		}
		require.EqualValues(t, 1, reads.Load())
		close(read)
		synctest.Wait()
		v, _ := s.join("", 0)
		require.Contains(t, string(<-v.frames), "[1,0,0,0,0,0,0,0,0,0,1,0,", "what was read for them is not lost")
		require.EqualValues(t, 1, reads.Load())
		s.leave(v)
		s.close()
	})
}

// Addresses that have no viewer any more are forgotten.
func TestStream_AddressesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream(func() reading { return reading{} }, 5, 2)
		var there []*viewer
		for i := range 1000 {
			v, why := s.join(fmt.Sprint("address ", i%3), visibility(i%2))
			if v == nil {
				require.NotEmpty(t, why)
				s.leave(there[0])
				there = there[1:]
				continue
			}
			there = append(there, v)
			require.LessOrEqual(t, s.by[v.address], 2)
		}
		for _, v := range there {
			s.leave(v)
		}
		require.Empty(t, s.by)
		require.Zero(t, s.slots)
		s.close()
	})
}
