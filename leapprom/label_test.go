package leapprom_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/resource"
	"github.com/leapgate-go/leapgate/rule"
)

// Names of all kinds, and those that look alike as labels.
func TestLabels_HostileNames(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 100)
	registry := registryOf(t, g, leapprom.Config{})
	long := strings.Repeat("ab", 512)
	names := []string{
		`<script>alert("1")</script>`, "two\nlines", `back\slash"quote`, "tab\tand\x00nul", "\xff\xfe", "\xff", "a\x80b",
		long, long[:1023] + "z", strings.Repeat("é", 512), strings.Repeat("\xff", 1024), strings.Repeat("é", 127) + "ab", "other…",
	}
	var rules []flow.Rule
	for _, name := range names {
		rules = append(rules, flow.Rule{Resource: name, Threshold: 1, Interval: time.Minute})
	}
	require.NoError(t, g.LoadFlowRules(rules))
	for _, name := range names {
		require.True(t, call(g, name))
		require.False(t, call(g, name))
	}
	require.Error(t, func() error { _, err := g.Entry(strings.Repeat("x", 10<<10)); return err }())

	text, err := testutil.GatherAndFormat(registry, expfmt.TypeTextPlain)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		require.Less(t, len(line), 2_000)
	}
	r := scrape(t, registry)
	// \xff\xfe and \xff are one label, and so are the two that begin with long, and the
	// two that begin with é: only one of each has series.
	require.EqualValues(t, 3, r[`leapgate_resources_without_series{}`])
	require.EqualValues(t, len(names)-3, r.sum("entries_total", "pass"))
	require.EqualValues(t, len(names)-3, r.sum("blocks_total"))
	for name := range r.only("entries_total") {
		require.LessOrEqual(t, len(name), len(`entries_total{resource="",result="block"}`)+255+40)
	}
	require.Contains(t, r, `leapgate_entries_total{resource="`+long[:252]+`…",result="pass"}`)
	require.Contains(t, r, `leapgate_entries_total{resource="a�b",result="pass"}`)
}

// hostileKind is a guard whose checks say that they are of a kind with a name of all bytes.
type hostileKind struct{ twins }

func (k hostileKind) Bind(name string, _ []resource.Check) ([]resource.Check, bool) {
	cause := &resource.Cause{Resource: name, Kind: strings.Repeat("\xff\"\n<b>", 1000), RuleID: strings.Repeat("\x00é", 5000)}
	return []resource.Check{twin{cause: cause, blocked: &k.blocked[0]}}, false
}

// The names of limiters and guards are the program's, which may have them from elsewhere.
func TestLabels_HostileLimitersAndGuards(t *testing.T) {
	t.Parallel()
	l, err := limit.NewCounter(limit.Config{Name: strings.Repeat("\xfe\"\n", 341), Limit: 1})
	require.NoError(t, err)
	g := leapgate.Must(leapgate.Config{Guards: []resource.Guard{hostileKind{twins{&[2]int64{5}}}}})
	registry := registryOf(t, g, leapprom.Config{Limiters: []leapprom.Limiter{l}})
	call(g, "a")
	text, err := testutil.GatherAndFormat(registry, expfmt.TypeTextPlain)
	require.NoError(t, err)
	require.True(t, utf8.Valid(text))
	for line := range strings.Lines(string(text)) {
		require.Less(t, len(line), 2_000)
		require.Regexp(t, `^(# (HELP|TYPE) )?leapgate_`, line)
	}
	require.EqualValues(t, 10, scrape(t, registry).sum("blocks_total"), "on a and on other")
}

// Rules of one resource whose IDs look alike as labels.
func TestLabels_RulesThatLookAlike(t *testing.T) {
	t.Parallel()
	g := gates.Small(t, gatetest.NewClock(), 10)
	registry := registryOf(t, g, leapprom.Config{})
	rules := []flow.Rule{
		{ID: "r\xff", Resource: "a", Threshold: 5, Interval: time.Minute, Mode: rule.Shadow},
		{ID: "r\xfe", Resource: "a", Threshold: 3, Interval: time.Minute},
	}
	require.NoError(t, g.LoadFlowRules(rules))
	for i := range 4 {
		call(g, "a")
		require.Equal(t, reading{`rule_threshold{guard="flow",resource="a",rule="r�"}`: 5}, scrape(t, registry).only("rule_threshold"))
		require.Equal(t, float64(max(0, i-5)), scrape(t, registry).sum("blocks_total"))
	}
	require.NoError(t, g.LoadFlowRules(rules[1:]))
	scrape(t, registry)
	require.EqualValues(t, 1, scrape(t, registry).sum("blocks_total"), "the label is free")
}
