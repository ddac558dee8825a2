package dashboard

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/stat"
)

// One who reads the figures is overtaken: viewers left and others came meanwhile. What he has
// read is older than what they have seen.
func TestStream_WhatIsOvertakenIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		readings := make(chan chan reading)
		s := newStream(func() reading {
			mine := make(chan reading)
			readings <- mine
			return <-mine
		}, 5)
		is := func(pass int64) reading {
			return reading{resources: []stat.Snapshot{{Resource: "a", Pass: pass}}, limiters: []byte("[]")}
		}
		first, _ := s.join()
		slow := <-readings
		s.leave(first)

		second, _ := s.join()
		quick := <-readings
		quick <- is(7)
		require.Contains(t, string(<-second.frames), "[1,0,0,0,0,0,0,0,0,0,7,0,")
		slow <- is(5)
		synctest.Wait()
		select {
		case frame := <-second.frames:
			t.Fatalf("%s", frame)
		default:
		}
		third, _ := s.join()
		require.Contains(t, string(<-third.frames), "[1,0,0,0,0,0,0,0,0,0,7,0,")
		s.leave(second)
		s.leave(third)
		s.close()
	})
}
