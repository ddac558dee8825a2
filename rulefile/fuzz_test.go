package rulefile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// Nothing that is read makes a panic; what is refused is refused in words that can be
// printed; and what is taken can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add(false, []byte(everyField))
	f.Add(false, []byte(everyBreakerField))
	f.Add(false, []byte(everyLimit))
	f.Add(false, []byte("limits: {a: {plans: {}}, b: {limit: 0, plans: {}}}"))
	f.Add(true, []byte(`{"limits": {"\u0000": {"plans": {"~": -1, "": 0}, "limit": 1e18}, "": {}}}`))
	f.Add(true, []byte(`{"breaker": [{"resource": "a", "errorRatio": 1e-320, "minCalls": 1e9, "openFor": "1ns", "force": "open"}, {"behavior": "throttle"}]}`))
	f.Add(false, []byte("flow:\n  - id: \"\\e\"\n    resource: *a\n"))
	f.Add(false, []byte("flow: [{resource: a, threshold: .nan, unknown: &a [*a]}]\n---\n"))
	f.Add(false, []byte("\xef\xbb\xbfflow:\r\n- resource: a\r\n  threshold: 1\r\n"))
	f.Add(false, []byte("flow:\n  - {<<: {resource: x}, ? [a] : b, !!str c: 'd\u202e'}\n"))
	f.Add(false, []byte("a: |\n  b\n\tc: >-\n"))
	f.Add(true, []byte(`{"flow": [{"resource": "\ud800", "threshold": 1e999, "id": "a\u0000"}], "isolation": null}`))
	f.Add(true, []byte("{\"flow\": [{\"resource\": \"\u2028\", \"threshold\": -0.0}]}"))
	f.Add(true, []byte(`[{"count": 5}]`))
	f.Fuzz(func(t *testing.T, json bool, data []byte) {
		name := "r.yaml"
		if json {
			name = "r.json"
		}
		rules, err := Parse(name, data)
		if err != nil {
			gatetest.RequirePrintable(t, err.Error())
			require.Zero(t, rules)
			var errs Errors
			require.ErrorAs(t, err, &errs)
			lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u0085") +
				strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029")
			for _, e := range errs {
				require.Equal(t, name, e.File)
				require.LessOrEqual(t, e.Line, lines+1)
			}
			return
		}
		requireRoundTrip(t, rules)
		of, err := ParseFile(name, data)
		require.NoError(t, err)
		of.Rules = rules
		for name, write := range map[string]func() ([]byte, error){"r.yaml": of.YAML, "r.json": of.JSON} {
			written, err := write()
			require.NoError(t, err)
			again, err := ParseFile(name, written)
			require.NoError(t, err, "%s", written)
			require.Equal(t, of.Limits, again.Limits, "%s", written)
		}
	})
}
