package limit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// distant is a limit that is remote, and what is called while it is asked.
type distant struct {
	*RateLimiter
	asked   func()
	refunds int
}

func (d *distant) Remote() bool { return true }

func (d *distant) AllowN(ctx context.Context, key string, n int64) (Decision, error) {
	if d.asked != nil {
		d.asked()
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	return d.RateLimiter.AllowN(ctx, key, n)
}

func (d *distant) Refund(ctx context.Context, key string, by Decision, n int64) error {
	d.refunds++
	return d.RateLimiter.Refund(ctx, key, by, n)
}

// A caller leaves while the second of two remote limits is asked: the first is not asked again
// to take back what it gave.
func TestAll_ACallerWhoLeavesGetsNothingBackFromAfar(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	var remote [2]*distant
	for i := range remote {
		c, err := NewCounter(Config{Limit: 10, Now: func() int64 { return 0 }})
		require.NoError(t, err)
		remote[i] = &distant{RateLimiter: c}
	}
	remote[1].asked = leave
	_, err := All(remote[0], remote[1]).AllowN(ctx, "a", 1)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, remote[0].refunds)
	require.EqualValues(t, 9, remote[0].Peek("a").Remaining)
	remote[1].asked = nil
	_, err = All(remote[0], remote[1]).AllowN(t.Context(), "a", 1)
	require.NoError(t, err)
	require.EqualValues(t, 8, remote[0].Peek("a").Remaining)
}
