package memory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/memory"
)

// A gate's Config.Memory.
var _ interface{ Used() (int64, bool) } = (*memory.Sampler)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStart_BadConfig(t *testing.T) {
	t.Parallel()
	s, err := memory.Start(memory.Config{Every: time.Hour + 1})
	require.EqualError(t, err, "leapgate: bad memory configuration: Every is 1h0m0.000000001s; want 10ms to 1h0m0s, or 0 for 1s")
	require.ErrorIs(t, err, memory.ErrConfig)
	require.Nil(t, s)
}

// The zero Config: the true machine, the true clock. Not parallel, for goleak.
func TestStart_ZeroConfig(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := memory.Start(memory.Config{})
	require.NoError(t, err)
	used, known := s.Used()
	require.True(t, known)
	require.Positive(t, used)
	require.NotEmpty(t, s.Source())
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.Used() }))
	require.NoError(t, s.Close())
	goleak.VerifyNone(t, before)
	requireUnknown(t, s)
}

func TestSampler_ZeroIsUnknown(t *testing.T) {
	t.Parallel()
	s := new(memory.Sampler)
	requireUnknown(t, s)
	require.Empty(t, s.Source())
}

func requireUnknown(t *testing.T, s *memory.Sampler) {
	t.Helper()
	used, known := s.Used()
	require.False(t, known)
	require.Zero(t, used)
}
