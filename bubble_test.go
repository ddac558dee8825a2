package leapgate_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// The windows of a gate from outside stand still in a bubble, which must not go unnoticed.
func TestNew_OutsideTheBubbleInWhichItIsUsedIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	cfg := leapgate.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	rules := []flow.Rule{{Resource: "a", Threshold: 3, Interval: 100 * time.Millisecond}}
	gate := leapgate.Must(cfg)
	require.NoError(t, gate.LoadFlowRules(rules))
	for range 4 {
		e, _ := gate.Entry("a")
		e.Exit()
	}
	require.Empty(t, log.String())
	use := func(gate *leapgate.Gate) (passed int) {
		for range 4 {
			time.Sleep(time.Second)
			for _, name := range []string{"a", "free"} {
				e, err := gate.Entry(name)
				e.Exit()
				if name == "a" && err == nil {
					passed++
				}
			}
		}
		return passed
	}
	synctest.Test(t, func(t *testing.T) { require.Zero(t, use(gate)) })
	require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
	require.Contains(t, log.String(), "make the gate inside the bubble, or set Now of its configuration")

	log.Reset()
	synctest.Test(t, func(t *testing.T) {
		inside := leapgate.Must(cfg)
		require.NoError(t, inside.LoadFlowRules(rules))
		require.Equal(t, 4, use(inside))
	})
	given := leapgate.Must(leapgate.Config{Logger: cfg.Logger, Now: gatetest.ClockAt(-1).Now})
	_, err := given.Entry("a")
	require.NoError(t, err)
	require.Empty(t, log.String())
}
