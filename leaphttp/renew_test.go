package leaphttp_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// leased is a limiter of calls in flight whose places are leased: so many are free.
type leased struct{ free, renewed atomic.Int64 }

var errLost = errors.New("the lease has ended")

func (l *leased) Acquire(context.Context, string) (p limit.Place, d limit.Decision, err error) {
	d = limit.Decision{Name: "exports", Limit: 1, Remaining: 0}
	if l.free.Add(-1) < 0 {
		l.free.Add(1)
		return
	}
	d.Allowed, d.Charged = true, 1
	p = limit.LeasedPlace(l)
	return
}

func (l *leased) Describe() []limit.Description {
	return []limit.Description{{Name: "exports", Limit: 1}}
}

func (l *leased) Release() { l.free.Add(1) }

func (l *leased) Renew(ctx context.Context) error {
	if l.renewed.Add(1) > 2 {
		return errLost
	}
	return ctx.Err()
}

func TestRenew_TheLeaseOfARequest(t *testing.T) {
	t.Parallel()
	withBoth(t, func(t *testing.T, gate *leapgate.Gate) {
		t.Helper()
		l := new(leased)
		l.free.Store(1)
		h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			assert.NoError(t, leaphttp.Renew(w))
			assert.NoError(t, leaphttp.Renew(wrapped{w}))
			assert.ErrorIs(t, leaphttp.Renew(w), errLost)
			assert.Zero(t, l.free.Load())
		}), leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{InFlight: l, Key: by("tenant")}}})
		w := get(h, "/")
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"exports";q=1;qu="concurrent-requests"`, w.Header().Get("RateLimit-Policy"))
		require.EqualValues(t, 1, l.free.Load(), "released, once")
		l.free.Store(0)
		require.Equal(t, 503, get(h, "/").Code)
	})
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestRenew_PlacesOfThisProcessNeedNone(t *testing.T) {
	t.Parallel()
	h := leaphttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, leaphttp.Renew(w))
	}), leaphttp.Config{Limits: []leaphttp.Limit{{InFlight: newInFlight(t, limit.Config{Limit: 1}), Key: by("a")}}})
	require.Equal(t, 200, get(h, "/").Code)
	_, err := leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{InFlight: (*limit.InFlight)(nil)}}})
	require.ErrorContains(t, err, "Limits[0].InFlight is a nil *limit.InFlight; want a limiter")
}
