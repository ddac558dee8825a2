//go:build e2e

package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
)

// TestModules asks the page's own modules for what they compute: figures as people read them, and
// the round numbers of axes, and why a resource needs attention.
func TestModules(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	t.Cleanup(func() { _ = gate.Close() })
	p := open(t, serve(t, gate, dashboard.Config{}).url)
	for _, c := range []struct{ module, call, want string }{
		{"format", `[0, 0.01, 4.52, 9.96, 52.4, 1234, 9999.6, 12345, 999600, 4.56e6, null].map(m.rate).join(" ")`, "0 <0.1 4.5 10 52 1,234 10k 12.3k 1M 4.6M –"},
		{"format", `[0, 0.0004, 0.85, 5.43, 9.996, 123.4, 999.7, 1234, 99999, 150000].map(m.duration).join(" | ")`, "– | 400 ns | 850 µs | 5.4 ms | 10 ms | 123 ms | 1 s | 1.2 s | 100 s | 2.5 min"},
		{"format", `[[0, 0], [0, 5], [1, 3000], [1, 3], [2999, 3000], [5, 5]].map(([a, b]) => m.share(a, b)).join(" | ")`, "0 % | 0 % | <0.1 % | 33 % | >99.9 % | 100 %"},
		// 100 % is all of it, and 0 % none.
		{
			"format", `[1, 10, 995, 9944, 98_600, 99_000, 99_400, 99_500, 99_700, 99_890, 99_950, 99_999, 100_000].map((n) => m.share(n, 100_000)).join(" | ")`,
			"<0.1 % | <0.1 % | 1 % | 9.9 % | 99 % | 99 % | 99.4 % | 99.5 % | 99.7 % | 99.9 % | >99.9 % | >99.9 % | 100 %",
		},
		{"format", `[0.5, 250, 1000, 1500, 60000, 3600000, 86400000].map(m.span).join(" | ")`, "500 µs | 250 ms | 1 s | 1.5 s | 1 min | 1 h | 24 h"},
		{"format", `[-5, 400, 3200, 99400, 600000, 7.3e6, 9e8].map(m.age).join(" | ")`, "now | now | 3 s ago | 99 s ago | 10 min ago | 2 h ago | 10 d ago"},
		{"format", `[0, 999, 1000, 1234567, -1000].map(m.count).join(" | ")`, "0 | 999 | 1,000 | 1,234,567 | -1,000"},
		{"format", `[0.1, 1234.5678, 100000, 1e300, null].map(m.number).join(" | ")`, "0.1 | 1,234.57 | 100,000 | 1e+300 | none"},
		{"scale", `[0, 1, 7, 60, 61, 99, 100, 1e9, 0.03].map((v) => m.ticks(v, 4, 0.01).at.join(",")).join(" | ")`, "0,0.005,0.01 | 0,0.5,1 | 0,2,4,6,8 | 0,20,40,60 | 0,20,40,60,80 | 0,50,100 | 0,50,100 | 0,500000000,1000000000 | 0,0.01,0.02,0.03"},
		{"scale", `[[[50], [60]], [[50], [1000]], [[], [20]], [[0, 0], []]].map(([d, l]) => m.reach(d, l)).join(" ")`, "60 50 20 0"},
		{"scale", `[m.apart([10, 12, 100], 14, 0, 200), m.apart([90, 92, 95], 14, 0, 100)].join(" | ")`, "10,24,100 | 72,86,100"},
		// Why a resource needs attention: what is little is no reason, the worst comes first, and the others are told after it.
		{"attention", judged(`past: {}, states: []`), "|"},
		{"attention", judged(`past: {exceptionQPS: [1], successQPS: [1]}, states: []`), "|"},
		{"attention", judged(`past: {exceptionQPS: [1, 1, 1], successQPS: [10, 10, 11]}, states: []`), "|"},
		{"attention", judged(`past: {exceptionQPS: [1, 1, 1], successQPS: [10, 10, 10]}, states: []`), "failing|failing: 10 % of the calls"},
		{"attention", judged(`past: {exceptionQPS: [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0], successQPS: [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]}, states: []`), "failing|failing: 100 % of the last 2 calls"},
		{"attention", judged(`past: {exceptionQPS: [9, 0, 0, 0, 0, 0], successQPS: [9, 1, 1, 1, 1, 1]}, states: []`), "|"},
		{"attention", judged(`past: {blockQPS: [0, 0.1], passQPS: [1, 0.9]}, states: [], refusedBy: 3`), "blocking|blocking: 5 % by rule 3"},
		{"attention", judged(`past: {blockQPS: [1], passQPS: [1]}, states: ["half-open", "open"], refusedBy: 3`), "open|open: 50 % by rule 3"},
		{"attention", judged(`past: {blockQPS: [1], passQPS: [1], exceptionQPS: [5], successQPS: [5]}, states: ["ramping"], refusedBy: 0`), "failing|failing: 100 % of the calls; ramping; blocking: 50 %"},
		{"attention", judged(`past: {use: [1, 0.9]}, states: [], use: 1, fullest: 2`), "|"},
		{"attention", judged(`past: {use: [1, 0.9, 0.95]}, states: ["another"], use: 1, fullest: 2`), "saturated|saturated: 100 % of rule 2; another"},
		{"attention", judged(`past: {waiting: [0, 2, 1]}, states: [], waitP95: 12.5`), "waiting|waiting: 2 calls, p95 13 ms"},
		{"attention", judged(`past: {}, states: ["another"]`), "another|another"},
		{
			"attention", `[["b", 9, 2], ["a", 9, 2], ["e", 3, 2], ["d", 3, 0], ["c", 0, 2]].map(([key, rank, step]) => ({key, why: {rank, step}})).sort(m.worse).map((r) => r.key).join("")`,
			"cdeab",
		},
		// The calls above a threshold are added up over the seconds, or over intervals if these are longer.
		{"trial", `[[[[0, 10], [1, 4], [2, 0]], 5, 1000], [[[0, 10], [9, 4], [10, 30]], 20, 10_000], [[[0, 10], [1, 4]], 1, 250], [[], 5, 1000]].map((of) => m.above(...of)).join(" ")`, "5 10 6 0"},
		{"dom", `m.shown("a\nb\u0000c\u202e" + "x".repeat(10000)).length`, "301"},
	} {
		require.Equal(t, c.want, ask[string](p, `import(new URL("`+c.module+`.js", location.href)).then((m) => String(`+c.call+`))`), "%s: %s", c.module, c.call)
	}
}

// judged is what the page says of a resource, given its figures: the word, and all that can be said.
func judged(figures string) string {
	return `(() => {
		const r = {` + figures + `};
		const recent = ({past}, key, seconds) => {
			const known = (past[key] ?? []).slice(-seconds);
			return {sum: known.reduce((a, b) => a + b, 0), least: Math.min(...known), most: Math.max(...known), known: known.length};
		};
		const why = m.reason({recent, rule: (row) => row ? {id: "rule " + row} : undefined}, r);
		return why.word + "|" + why.text;
	})()`
}
