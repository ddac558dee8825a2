package leaphttp_test

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// refusing is a guard of the program's own that refuses every call.
type refusing struct {
	resource.Check // nil: nothing else is asked
	cause          resource.Cause
	wait           time.Duration
}

func (g *refusing) Kind() string { return "own" }

func (g *refusing) Bind(string, []resource.Check) ([]resource.Check, bool) {
	return []resource.Check{g}, false
}

func (g *refusing) Cause() *resource.Cause                           { return &g.cause }
func (g *refusing) Mode() rule.Mode                                  { return rule.Enforce }
func (g *refusing) Stage() resource.Stage                            { return resource.Counting }
func (g *refusing) Interval() time.Duration                          { return 0 }
func (g *refusing) Wait(int64, int64, resource.Caller) time.Duration { return -1 }
func (g *refusing) Snapshot(int64) stat.RuleSnapshot                 { return stat.RuleSnapshot{} }

func (g *refusing) Reserve(int64, int64, resource.Caller) resource.Verdict {
	return resource.Verdict{Refused: &resource.BlockError{RetryAfter: g.wait}}
}

// What a guard of the program's own says of its refusals is what clients get, as long as it
// can be the status of a refusal.
func TestHandler_StatusOfAGuardOfTheProgram(t *testing.T) {
	t.Parallel()
	for given, want := range map[int]int{
		429: 429, 503: 503, 400: 400, 599: 599,
		0: 503, 42: 503, 99: 503, 100: 503, 200: 503, 304: 503, 399: 503, 600: 503, 1000: 503,
		-1: 503, math.MinInt: 503, math.MaxInt: 503,
	} {
		guard := &refusing{cause: resource.Cause{Kind: "own", RuleID: "r", Status: given}}
		gate := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}})
		w := get(leaphttp.Handler(forbidden(t), leaphttp.Config{Gate: gate}), "/")
		require.Equal(t, want, w.Code, given)
		p := problemOf(t, w)
		switch want {
		case 429:
			require.True(t, strings.HasSuffix(p.Type, "#quota-exceeded"), p.Type)
		case 503:
			require.True(t, strings.HasSuffix(p.Type, "#temporary-reduced-capacity"), p.Type)
		default:
			require.Equal(t, []string{"about:blank", http.StatusText(want)}, []string{p.Type, p.Title})
		}
		require.Equal(t, []string{"", "no-store"}, []string{w.Header().Get("Retry-After"), w.Header().Get("Cache-Control")})
		require.Zero(t, gate.GuardFaults())
	}
}

// Retry-After is in whole seconds and never too early. Where the wait is not known, as while a
// breaker tries whether it may close, there is none, and the answer does not speak of it.
func TestHandler_RetryAfterOfARefusalByTheGate(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		-1: "", 0: "", 1: "1", time.Second - 1: "1", time.Second: "1", time.Second + 1: "2",
		3200 * time.Millisecond: "4", 30 * 24 * time.Hour: "2592000",
	} {
		for _, status := range []int{429, 503} {
			guard := &refusing{cause: resource.Cause{Kind: "own", RuleID: "r", Status: status}, wait: wait}
			w := get(leaphttp.Handler(forbidden(t), leaphttp.Config{
				Gate: leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}}),
			}), "/")
			require.Equal(t, status, w.Code, wait)
			require.Equal(t, want, w.Header().Get("Retry-After"), wait)
			require.Equal(t, want != "", w.Header().Values("Retry-After") != nil, wait)
		}
	}
}

// What is known of the limits in front stands, also if the gate cannot say how long.
func TestHandler_GateThatCannotSayHowLong_LimitsStillInform(t *testing.T) {
	t.Parallel()
	guard := &refusing{cause: resource.Cause{Kind: "own", RuleID: "r"}}
	h := leaphttp.Handler(forbidden(t), leaphttp.Config{
		Gate:   leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}}),
		Limits: []leaphttp.Limit{{Limiter: newLog(t, gatetest.NewClock(), "client", 3, time.Minute)}},
	})
	w := get(h, "/")
	require.Equal(t, []string{"503", `"client";r=3`, ""}, []string{strconv.Itoa(w.Code), w.Header().Get("RateLimit"), w.Header().Get("Retry-After")})
}

// An outgoing call that the gate refuses has the status as well, for a handler that wants to
// answer with it.
func TestTransport_RefusalHasTheStatusOfTheRule(t *testing.T) {
	t.Parallel()
	gate := gates.New(t, gatetest.NewClock(), flow.Rule{Resource: "GET quota"})
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		all.Isolation = []isolation.Rule{{Resource: "GET full", MaxInFlight: 1}}
		return nil
	}))
	e, err := gate.Entry("GET full")
	require.NoError(t, err)
	defer e.Exit()
	rt := leaphttp.MustTransport(leaphttp.TransportConfig{Gate: gate, Base: &server{status: 200}})
	for host, want := range map[string]int{"quota": 429, "full": 503} {
		_, err := send(t, rt, "http://"+host+"/")
		var blocked *leapgate.BlockError
		require.ErrorAs(t, err, &blocked)
		require.Equal(t, want, blocked.Status)
	}
}
