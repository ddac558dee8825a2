package param_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
)

// A rule with a pattern keeps MaxKeys values in all, however many resources it binds, and counts each
// value of each resource by itself.
func TestMaxKeys_BoundsAllResourcesOfARule(t *testing.T) {
	t.Parallel()
	for _, r := range []param.Rule{
		{Threshold: 2, Interval: time.Hour}, {Threshold: 2, Interval: time.Hour, Behavior: param.Bucket}, {MaxInFlight: 2},
	} {
		r.ID, r.Resource, r.Match, r.Arg, r.MaxKeys, r.Items = "p", "r*", rule.Glob, "item", 50, "vip=3"
		g := leapgate.Must(leapgate.Config{Now: gatetest.NewClock().Now})
		require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{r}}))
		pass := func(name, value string, k int) (passed int) {
			for range k {
				e, err := g.EntryContext(context.Background(), name, item(value))
				if err == nil {
					passed++
					t.Cleanup(e.Exit)
				}
			}
			return passed
		}
		for i := range 10 {
			name := fmt.Sprint("r", i)
			require.Equal(t, 2, pass(name, "a", 5), name)
			require.Equal(t, 3, pass(name, "vip", 5), name)
		}
		for i := range 10 {
			for k := range 100 {
				pass(fmt.Sprint("r", i), fmt.Sprint("flood ", k), 1)
			}
		}
		for i := range 10 {
			name := fmt.Sprint("r", i)
			require.Zero(t, pass(name, "vip", 1), "it stands in Items")
			for _, s := range g.Snapshot() {
				if s.Resource == name {
					require.Equal(t, 50, s.Rules[0].Values)
					require.EqualValues(t, -1, s.Rules[0].Used)
				}
			}
		}
		r.Threshold, r.MaxInFlight = min(1, r.Threshold)*5, min(1, r.MaxInFlight)*5
		require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{r}}))
		r.Items = "vip=4"
		require.NoError(t, g.LoadRules(leapgate.Rules{Param: []param.Rule{r}}))
		require.Equal(t, 1, pass("r0", "vip", 9), "a changed rule goes on with what it has counted")
	}
}

// Long values take the room of a hash. Each is still counted by itself, and no other value is taken
// for it.
func TestValue_LongOnesAreHashed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	sum := sha256.Sum256([]byte(long + "1"))
	items := fmt.Sprintf("%q=3", long+"vip")
	for _, r := range []param.Rule{{Threshold: 2}, {Threshold: 2, Behavior: param.Bucket}, {MaxInFlight: 2}} {
		r.MaxKeys, r.Items, r.Top = 4, items, 5
		w := newWorld(t, r)
		in := func(value string) (passed int) {
			for range 5 {
				if w.call(item(value)) != nil {
					passed++
				}
			}
			return passed
		}
		require.Equal(t, 3, in(long+"vip"))
		require.Equal(t, 2, in(long+"1"))
		require.Equal(t, 2, in(long+"2"))
		require.Equal(t, 2, in("\xff\xff"+string(sum[:])))
		require.Equal(t, 4, w.snapshot().Values)
		for i := range 50 {
			in(fmt.Sprint(long, "flood", i))
		}
		require.Zero(t, in(long+"vip"), "it stands in Items")
		require.Equal(t, 4, w.snapshot().Values)
		require.Contains(t, w.snapshot().Busiest[0].Value, "x", "values are shown as they are")
	}

	w := newWorld(t, param.Rule{Arg: "item,tenant", Threshold: 2})
	for _, tenant := range []string{"a", "b"} {
		require.Equal(t, 2, w.pass(5, item(long), leapgate.WithArg("tenant", tenant)))
	}
}

// Another threshold changes how fast a bucket fills, and not how many calls a value has made.
func TestBucket_AnotherThresholdKeepsTheCalls(t *testing.T) {
	t.Parallel()
	r := param.Rule{ID: "x", Threshold: 1, Behavior: param.Bucket, Burst: 10}
	w := newWorld(t, r)
	require.Equal(t, 10, w.pass(20, item("a")))
	r.Threshold = 100
	w.load(r)
	require.Zero(t, w.pass(1, item("a")))
	w.clock.Advance(100*time.Millisecond - 1)
	require.Equal(t, 9, w.pass(20, item("a")))
	w.clock.Advance(time.Second)
	require.Equal(t, 10, w.pass(20, item("a")))
	r.Threshold = 1
	w.load(r)
	require.Zero(t, w.pass(20, item("a")))
}
