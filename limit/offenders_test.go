package limit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestOffenders_OfALimiter(t *testing.T) {
	t.Parallel()
	c, _ := newCounter(t, Config{Limit: 1, Offenders: 10})
	for i := range 5 {
		for range i * i {
			c.AllowNAt(minute, fmt.Sprint("client ", i), 1)
		}
	}
	c.AllowNAt(minute, "client 4", 0)
	c.Peek("client 4") // a call that only looks is not refused
	require.Equal(t, []Offender{{"client 4", 15, 0}, {"client 3", 8, 0}, {"client 2", 3, 0}}, c.Offenders(10))
	require.Equal(t, []Offender{{"client 4", 15, 0}}, c.Offenders(1))
	require.Empty(t, c.Offenders(0))
	require.Empty(t, c.Offenders(-1))
	c.ForgetOffenders()
	require.Empty(t, c.Offenders(10))

	c, _ = newCounter(t, Config{})
	c.AllowNAt(minute, "a", 1)
	require.Empty(t, c.Offenders(10), "nobody asked for them")
	c.ForgetOffenders()
}

func TestOffenders_HammerLosesNone(t *testing.T) {
	t.Parallel()
	c, _ := newCounter(t, Config{Offenders: 50})
	gatetest.AtOnce(16, func(id int) {
		for i := range 2000 {
			c.AllowNAt(minute, fmt.Sprint(i%10), 1)
			if i%500 == id {
				c.Offenders(3)
			}
		}
	})
	top := c.Offenders(100)
	require.Len(t, top, 10)
	for _, f := range top {
		require.EqualValues(t, 3200, f.Refused)
	}
}
