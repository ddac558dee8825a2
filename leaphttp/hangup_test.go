package leaphttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
)

// hangingUp is a request of a client that hangs up after a time.
func hangingUp(t *testing.T, after time.Duration) *http.Request {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(after, cancel)
	return httptest.NewRequest(http.MethodGet, "/", http.NoBody).WithContext(ctx)
}

// distant is a limiter that asks another process, which takes 10 ms to answer. A call whose
// context ends before has its charge given back, as package leapredis does it.
type distant struct {
	limit.Limiter
	asked, refunded int
}

func (d *distant) AllowN(ctx context.Context, key string, n int64) (limit.Decision, error) {
	d.asked++
	decision, err := d.Limiter.AllowN(ctx, key, n)
	answer := time.NewTimer(10 * time.Millisecond)
	defer answer.Stop()
	select {
	case <-answer.C:
		return decision, err
	case <-ctx.Done():
		_ = d.Limiter.Refund(context.WithoutCancel(ctx), key, decision, decision.Charged)
		d.refunded++
		return limit.Decision{}, ctx.Err()
	}
}

func (d *distant) Refund(ctx context.Context, key string, decision limit.Decision, n int64) error {
	d.refunded++
	return d.Limiter.Refund(ctx, key, decision, n)
}

func TestHandler_ClientHangsUpWhileALimiterIsAsked_ChargeIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, gate := range []*leapgate.Gate{nil, leapgate.Must(leapgate.Config{})} {
			clock := gatetest.NewClock()
			l := &distant{Limiter: newLog(t, clock, "client", 30, time.Hour)}
			statuses := make(map[int]int)
			h := leaphttp.Handler(forbidden(t), leaphttp.Config{
				Gate: gate, Limits: []leaphttp.Limit{{Limiter: l, Key: by("k")}},
			})
			for range 300 {
				statuses[do(h, hangingUp(t, time.Millisecond)).Code]++
			}
			require.Equal(t, map[int]int{503: 30, 429: 270}, statuses)
			require.Equal(t, 300, l.asked, "once for each request")
			require.Zero(t, l.refunded)
		}
	})
}

func TestHandler_ClientHangsUpWhileWaitingForItsTurn_ChargeIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{
			{Resource: "GET (unmatched)", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour},
		}))
		client := newLog(t, gatetest.NewClock(), "client", 5, time.Hour)
		h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{Limiter: client, Key: by("k")}}})
		require.Equal(t, 200, get(h, "/").Code, "the first has its turn at once")
		for i, want := range []int64{3, 2, 1, 0, 0, 0} {
			do(h, hangingUp(t, time.Second))
			require.Equal(t, want, client.Peek("k").Remaining, "call %d", i)
		}
		require.EqualValues(t, 4, snapshot(gate, "GET (unmatched)").Block, "the last two did not come to the gate")
	})
}

// A rule that refuses, while nobody has hung up, still costs the client nothing.
func TestHandler_RuleRefusesTheWait_LimitIsRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{
			{Resource: "GET (unmatched)", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Second},
		}))
		client := newLog(t, gatetest.NewClock(), "client", 5, time.Hour)
		h := leaphttp.Handler(ok, leaphttp.Config{Gate: gate, Limits: []leaphttp.Limit{{Limiter: client, Key: by("k")}}})
		require.Equal(t, 200, get(h, "/").Code)
		for range 9 {
			require.Equal(t, 429, get(h, "/").Code)
		}
		require.EqualValues(t, 4, client.Peek("k").Remaining)
	})
}

// Outgoing calls are the program's own: one that is canceled before it is sent costs nothing.
func TestTransport_CallerGivesUpBeforeItIsSent_LimitIsRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		require.NoError(t, gate.LoadFlowRules([]flow.Rule{
			{Resource: "GET a", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour},
		}))
		l := newLog(t, gatetest.NewClock(), "host", 5, time.Hour)
		s := &server{status: 200}
		rt := leaphttp.MustTransport(leaphttp.TransportConfig{Base: s, Gate: gate, Limits: []leaphttp.Limit{{Limiter: l}}})
		_, err := send(t, rt, "http://a/")
		require.NoError(t, err)
		r := outgoing(t, "http://a/")
		_, err = rt.RoundTrip(r.WithContext(hangingUp(t, time.Second).Context())) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 4, l.Peek("a").Remaining)
		require.Equal(t, 1, s.calls)
	})
}
