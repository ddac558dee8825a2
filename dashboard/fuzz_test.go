package dashboard

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
)

// FuzzDecode: whatever is sent, there is either one good rule, which comes back from its own
// file form, or there are faults that can be shown.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"resource": "a", "threshold": 1}`, `{"id": "x", "resource": "a*", "match": "glob", "threshold": 2.5, "interval": "1m", "mode": "shadow"}`,
		`{"match": "default", "maxInFlight": 3, "maxWait": "5s"}`, `{"resource": "a", "threshold": 1}], "isolation": [{}`, `[]`, `null`, `{`, `{"a": {"b": [1e999]}}`,
		`{"resource": "\ud800", "threshold": "1"}`, "{\"resource\": \"\xff\", \"threshold\": 1}", `{"id": "", "id": ""}`, ` 7 `, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tryDecode(t, &flowKind, data, func(r flow.Rule) error { return flow.Validate([]flow.Rule{r}) })
		tryDecode(t, &isolationKind, data, func(r isolation.Rule) error { return isolation.Validate([]isolation.Rule{r}) })
	})
}

func tryDecode[R comparable](t *testing.T, k *kind[R], data []byte, validate func(R) error) {
	t.Helper()
	rule, faults := decode(k, data)
	if faults != nil {
		for _, fault := range faults {
			require.NotEmpty(t, fault.Message)
			require.True(t, utf8.ValidString(fault.Message), "%q", fault.Message)
		}
		_, err := json.Marshal(faults)
		require.NoError(t, err)
		return
	}
	require.NoError(t, validate(rule))
	require.True(t, json.Valid(data))
	require.Empty(t, *k.source(&rule))
	again, faults := decode(k, fileForm(k, []R{rule})[0])
	require.Empty(t, faults)
	require.Equal(t, rule, again)

	rule = k.complete(rule)
	require.NotEmpty(t, *k.id(&rule))
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.EditRules(func(flows []flow.Rule, isolations []isolation.Rule) ([]flow.Rule, []isolation.Rule, error) {
		return k.edit(flows, isolations, func(rules []R) ([]R, error) { return append(rules, rule), nil })
	}))
	require.Equal(t, []R{rule}, k.loaded(gate))
}
