package leapgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapgrpc"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/resource"
)

func block(kind, id string, status int, wait time.Duration) *leapgate.BlockError {
	return &leapgate.BlockError{
		Cause: &resource.Cause{Resource: "secret-resource", Kind: kind, RuleID: id, Status: status, Threshold: 1}, Observed: 2, RetryAfter: wait,
	}
}

func TestError_TurnsARefusalIntoItsStatusAndBlockedGoesTheOtherWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   string
		status int
		code   codes.Code
		reason string
		back   string // the kind that comes back
		id     string
	}{
		{"flow", 429, codes.ResourceExhausted, leapgrpc.ReasonRateLimited, "flow", "r"},
		{"param", 429, codes.ResourceExhausted, leapgrpc.ReasonRateLimited, "flow", "r"},
		{"param", 503, codes.Unavailable, leapgrpc.ReasonOverloaded, "system", ""},
		{"breaker", 503, codes.Unavailable, leapgrpc.ReasonCircuitOpen, "breaker", ""},
		{"system", 503, codes.Unavailable, leapgrpc.ReasonOverloaded, "system", ""},
		{"isolation", 503, codes.Unavailable, leapgrpc.ReasonOverloaded, "system", ""},
		{"a program's own", 0, codes.Unavailable, leapgrpc.ReasonOverloaded, "system", ""},
	} {
		inside := block(c.kind, "r", c.status, 230*time.Millisecond)
		err := leapgrpc.Error(fmt.Errorf("looking for orders: %w", inside))
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		assert.Equal(t, c.code, status.Code(err), c.kind)
		d := detailsOf(t, err)
		assert.Equal(t, c.reason, d.reason, c.kind)
		assert.Equal(t, 230*time.Millisecond, d.retry.GetRetryDelay().AsDuration())
		for _, text := range []string{status.Convert(err).Message(), status.Convert(fmt.Errorf("wrapped: %w", err)).Message()} {
			assert.NotContains(t, text, "secret")
		}
		assert.Same(t, inside, leapgrpc.Blocked(err), "it is still there in this process")
		assert.Equal(t, err, leapgrpc.Error(err))

		received := status.Convert(err).Err() // as a client gets it
		require.NotErrorIs(t, received, leapgate.ErrBlocked)
		b := leapgrpc.Blocked(received)
		require.NotNil(t, b)
		assert.Equal(t, c.back, b.Kind)
		assert.Equal(t, c.id, b.RuleID)
		assert.Equal(t, 230*time.Millisecond, b.RetryAfter)
		want := http.StatusServiceUnavailable
		if c.code == codes.ResourceExhausted {
			want = http.StatusTooManyRequests
		}
		assert.Equal(t, want, b.Status)
	}
}

func TestErrorAndBlocked_LeaveOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	assert.Equal(t, other, leapgrpc.Error(other))
	require.NoError(t, leapgrpc.Error(nil))
	assert.Nil(t, leapgrpc.Blocked(nil))
	assert.Nil(t, leapgrpc.Blocked(other))
	assert.Nil(t, leapgrpc.Blocked(exhausted(t, codes.ResourceExhausted, time.Second)), "some other server's")
}

func TestError_ARuleWhoseNameIsNoTextHasItsDetailsAllTheSame(t *testing.T) {
	t.Parallel()
	d := detailsOf(t, leapgrpc.Error(block("flow", "a\xffb", 429, 0)))
	assert.Equal(t, "a\uFFFDb", d.quota.GetViolations()[0].GetDescription())
	assert.Nil(t, d.retry)
	assert.Equal(t, codes.Unavailable, status.Code(leapgrpc.Error(new(leapgate.BlockError))), "one without a cause")
}

// Where a limit and not a gate has refused, there is no BlockError in the error to be found.
func TestBlocked_KnowsRefusalsOfLimitsInThisProcess(t *testing.T) {
	t.Parallel()
	busy, err := limit.NewInFlight(limit.Config{Name: "busy", Limit: 1})
	require.NoError(t, err)
	x := leapgrpc.Must(leapgrpc.Config{NoDetails: true, Limits: []leapgrpc.Limit{{InFlight: busy}}})
	info := &grpc.UnaryServerInfo{FullMethod: unary}
	_, err = x.UnaryServer(t.Context(), nil, info, func(ctx context.Context, _ any) (any, error) {
		return x.UnaryServer(ctx, nil, info, nil)
	})
	require.ErrorIs(t, err, leapgate.ErrBlocked)
	b := leapgrpc.Blocked(err)
	require.NotNil(t, b)
	assert.Equal(t, []any{"system", "busy", 503, time.Duration(0)}, []any{b.Kind, b.RuleID, b.Status, b.RetryAfter})

	never := leapgrpc.Must(leapgrpc.Config{Limits: []leapgrpc.Limit{{Limiter: per(t, "ten", 10, time.Minute), Key: leapgrpc.Metadata("none")}}})
	for range 11 {
		_, err = never.UnaryServer(t.Context(), nil, info, answer)
	}
	b = leapgrpc.Blocked(err)
	require.NotNil(t, b)
	assert.Equal(t, []any{"flow", "ten", 429}, []any{b.Kind, b.RuleID, b.Status})
	assert.Positive(t, b.RetryAfter)
}

func TestRefusedError_Texts(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]leapgrpc.RefusedError{
		`leapgrpc: limit "p" is used up; it never admits this`:                            {Policy: "p", RetryAfter: limit.Never},
		`leapgrpc: limit "p" is used up`:                                                  {Policy: "p"},
		`leapgrpc: limit "p" cannot count now`:                                            {Policy: "p", CannotCount: true},
		`leapgrpc: limit "p" cannot count now; retry in 200ms`:                            {Policy: "p", CannotCount: true, RetryAfter: 200 * time.Millisecond},
		`leapgrpc: not sent: "a" answered Unavailable and asked to wait, for 2s from now`: {Target: "a", Code: codes.Unavailable, RetryAfter: 2 * time.Second},
	} {
		require.EqualError(t, &e, want)
	}
}
