package docs_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
)

// newPerTenant returns a limit of 600 calls a minute for each tenant.
func newPerTenant() (*limit.RateLimiter, error) {
	return limit.NewCounter(limit.Config{Name: "per-tenant", Limit: 600, Window: time.Minute})
}

// askFor reports whether a call of the tenant passes, or how long it should wait.
func askFor(ctx context.Context, perTenant limit.Limiter, tenant string) (wait time.Duration, passes bool, err error) {
	d, err := perTenant.AllowN(ctx, tenant, 1)
	if err != nil {
		return 0, false, err // the key is bad, or ctx has ended
	}
	return d.RetryAfter, d.Allowed, nil
}

func TestLimits_EachTenantByItself(t *testing.T) {
	t.Parallel()
	perTenant, err := newPerTenant()
	require.NoError(t, err)
	for range 600 {
		_, passes, err := askFor(t.Context(), perTenant, "acme")
		require.NoError(t, err)
		require.True(t, passes)
	}
	wait, passes, err := askFor(t.Context(), perTenant, "acme")
	require.NoError(t, err)
	require.False(t, passes)
	require.Positive(t, wait)
	_, passes, err = askFor(t.Context(), perTenant, "globex")
	require.NoError(t, err)
	require.True(t, passes)
}
