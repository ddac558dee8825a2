package leapprom_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/stat"
)

// twins is a guard whose checks all have one ID, which it should not.
type twins struct{ blocked *[2]int64 }

func (twins) Kind() string { return "twins" }

func (w twins) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	cause := &resource.Cause{Resource: name, Kind: "twins", RuleID: "t"}
	return []resource.Check{twin{cause: cause, blocked: &w.blocked[0]}, twin{cause: cause, blocked: &w.blocked[1]}}, false
}

type twin struct {
	resource.Check
	cause   *resource.Cause
	blocked *int64
}

func (t twin) Cause() *resource.Cause           { return t.cause }
func (twin) Mode() rule.Mode                    { return rule.Off }
func (twin) Stage() resource.Stage              { return resource.Counting }
func (twin) Interval() time.Duration            { return 0 }
func (t twin) Snapshot(int64) stat.RuleSnapshot { return stat.RuleSnapshot{Blocked: *t.blocked} }

// Two rules cannot have one series. The first has it.
func TestGuard_WithTwoRulesOfOneID(t *testing.T) {
	t.Parallel()
	blocked := &[2]int64{5, 3}
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{twins{blocked}}})
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	for range 3 {
		want := reading{`blocks_total{guard="twins",resource="a",rule="t"}`: float64(blocked[0])}
		require.Equal(t, want, scrape(t, registry).only("blocks"))
		blocked[0]++
		blocked[1] += 4
	}
}

// moody is a check whose Snapshot panics now and then.
type moody struct {
	twin
	ill *bool
}

func (m moody) Snapshot(now int64) stat.RuleSnapshot {
	if *m.ill {
		panic("not today")
	}
	return m.twin.Snapshot(now)
}

type moods struct{ check moody }

func (moods) Kind() string { return "moods" }
func (m moods) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	if name != "a" {
		return nil, false
	}
	return []resource.Check{m.check}, false
}

// A guard that panics when it is asked for its figures has counted what it had before.
func TestGuard_ThatPanics(t *testing.T) {
	t.Parallel()
	blocked, ill := int64(5), false
	cause := &resource.Cause{Resource: "a", Kind: "moods", RuleID: "m"}
	g := leapgate.Must(leapgate.Config{
		Guards: []resource.Guard{moods{moody{twin{cause: cause, blocked: &blocked}, &ill}}},
		Logger: slog.New(slog.DiscardHandler),
	})
	registry := registryOf(t, g, leapprom.Config{})
	call(g, "a")
	want := reading{`blocks_total{guard="moods",resource="a",rule="m"}`: 5}
	for range 3 {
		require.Equal(t, want, scrape(t, registry).only("blocks"))
		ill = true
		require.NoError(t, g.Rebind("a"))
		require.Equal(t, want, scrape(t, registry).only("blocks"))
		ill = false
	}
	blocked++
	want[`blocks_total{guard="moods",resource="a",rule="m"}`]++
	require.Equal(t, want, scrape(t, registry).only("blocks"))
}
