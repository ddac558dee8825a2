//go:build e2e

package browser

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate/rule"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/resource"
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
