package clock_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/clock"
)

func TestLongestPause_IsOfThePausesThatEndedWithin(t *testing.T) {
	runtime.GC()
	require.Positive(t, clock.LongestPause(time.Hour))
	require.Zero(t, clock.LongestPause(-time.Hour))
}
