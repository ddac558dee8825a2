//go:build e2e

package browser

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// boundless is a guard of the program whose one rule has an ID that is no text, and admits
// everything just now.
type boundless struct{ cause resource.Cause }

func (b *boundless) Kind() string { return "boundless" }
func (b *boundless) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	return []resource.Check{b}, false
}
func (b *boundless) Cause() *resource.Cause { return &b.cause }
func (b *boundless) Mode() rule.Mode        { return rule.Enforce }

func (b *boundless) Stage() resource.Stage { return resource.Counting }

func (b *boundless) Interval() time.Duration                                    { return time.Second }
func (b *boundless) Reserve(_, _ int64, _ resource.Caller) (v resource.Verdict) { return v }
func (b *boundless) Refund(resource.Ticket, int64)                              {}
func (b *boundless) Wait(_, _ int64, _ resource.Caller) time.Duration           { return 0 }
func (b *boundless) Snapshot(int64) stat.RuleSnapshot {
	return stat.RuleSnapshot{ID: "at ease\xff", Kind: "boundless", Threshold: 5, Effective: math.Inf(1), Interval: time.Second, Admitted: 1234}
}

// TestGuard_WithoutBound: figures that are none do not keep the page from showing the others.
func TestGuard_WithoutBound(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{Guards: []resource.Guard{&boundless{}}})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.Do(t.Context(), "a", func(context.Context) error { return nil }))
	p := open(t, serve(t, gate, dashboard.Config{}).url+"#/resource/a")
	p.until("a chart", `document.querySelector(".chart.wide .line.pass")`)
	p.until("its rule", `document.querySelector(".rule .threshold dd").textContent === "none now, of 5"`)
	require.False(t, ask[bool](p, `Boolean(document.querySelector("line.threshold"))`), "there is no line to draw")
	ask[bool](p, `location.hash = "#/rules", true`)
	p.until("its figures", `document.querySelector(".rule .admitted dd")?.textContent === "1,234"`)
}

// TestGuard_WithAState: the page shows the state of a rule, and why it is in it, as text.
func TestGuard_WithAState(t *testing.T) {
	t.Parallel()
	state := resource.NewState("closed", "half-open")
	guard := &boundless{resource.Cause{Resource: "a", Kind: "boundless", RuleID: "at ease", State: state}}
	gate := leapgate.Must(leapgate.Config{Guards: []resource.Guard{guard}})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.Do(t.Context(), "a", func(context.Context) error { return nil }))
	p := open(t, serve(t, gate, dashboard.Config{}).url+"#/resource/a")
	p.until("the state", `document.querySelector(".rule .badge.state")?.textContent === "closed"`)
	p.is(true, `document.querySelector(".rule .change").hidden`) // nothing has changed
	state.Set(math.MinInt64/2, "half-open", "<b>3</b> of 4")
	p.until("the other state", `document.querySelector(".rule .badge.state").textContent === "half-open"`)
	p.until("why", `/^closed → half-open .* ago: <b>3<\/b> of 4 · changes: 1$/.test(document.querySelector(".rule .change").textContent)`)
}

// TestWaits: the page shows how many calls wait, and how long they did.
func TestWaits(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 20, Behavior: flow.Pace, MaxWait: time.Hour}}))
	call := func(ctx context.Context) error {
		return gate.Do(ctx, "a", func(context.Context) error { return nil })
	}
	legend := func(i string) string {
		return `/^(wait p95 \d|waiting [1-9])/.test([...document.querySelectorAll(".chart")[` + i + `].querySelectorAll(".key.waiting")].at(-1).innerText)`
	}
	p := open(t, serve(t, gate, dashboard.Config{}).url+"#/resource/a")
	ctx, stop := context.WithCancel(t.Context())
	var caller sync.WaitGroup // how long it waited is told for 10 s, so it goes on until that was seen
	caller.Go(func() {
		for call(ctx) == nil {
		}
	})
	defer caller.Wait()
	defer stop()
	p.until("how long", `/^\d+(\.\d)? m?s$/.test(document.querySelector("#total-waitP95")?.textContent)`)
	p.until("in the chart of times", legend("1"))
	stop()
	caller.Wait()
	p.until("nobody waits", `document.querySelector("#total-waiting").textContent === "0"`)

	require.NoError(t, gate.LoadFlowRules([]flow.Rule{{Resource: "a", Threshold: 1, Interval: time.Minute, Behavior: flow.Pace, MaxWait: time.Hour}}))
	ctx, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() { _ = call(ctx) })
	}
	defer callers.Wait()
	defer leave()
	p.until("what waits", `/^[12]$/.test(document.querySelector("#total-waiting").textContent)`)
	p.until("in the chart of calls", legend("2"))
}
