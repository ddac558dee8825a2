package dashboard

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// FuzzDecodeRule: whatever is sent, there is either one good rule, which comes back from its own
// file form, or there are faults that can be shown.
func FuzzDecodeRule(f *testing.F) {
	for _, seed := range []string{
		`{"resource": "a", "threshold": 1}`, `{"id": "x", "resource": "a*", "match": "glob", "threshold": 2.5, "interval": "1m", "mode": "shadow"}`,
		`{"match": "default", "maxInFlight": 3, "maxWait": "5s"}`, `{"resource": "a", "threshold": 1}], "isolation": [{}`, `[]`, `null`, `{`, `{"a": {"b": [1e999]}}`,
		`{"resource": "\ud800", "threshold": "1"}`, "{\"resource\": \"\xff\", \"threshold\": 1}", `{"id": "", "id": ""}`, ` 7 `, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, k := range kinds.All {
			tryDecode(t, k, data)
		}
	})
}

func tryDecode(t *testing.T, k kinds.Kind, data []byte) {
	t.Helper()
	one, faults := decodeRule(k, data, nil)
	if faults != nil {
		for _, fault := range faults {
			require.NotEmpty(t, fault.Message)
			require.True(t, utf8.ValidString(fault.Message), "%q", fault.Message)
		}
		_, err := json.Marshal(faults)
		require.NoError(t, err)
		return
	}
	require.Empty(t, k.Validate(one))
	require.True(t, json.Valid(data))
	require.Empty(t, *k.Head(one, 0).Source)
	again, faults := decodeRule(k, encodeRule(k, one, 0), nil)
	require.Empty(t, faults)
	require.Equal(t, one, again)

	one = kinds.Completed(one)
	require.NotEmpty(t, *k.Head(one, 0).ID)
	gate := leapgate.Must(leapgate.Config{})
	require.NoError(t, gate.EditRules(func(all *leapgate.Rules) error {
		k.Append((*kinds.Rules)(all), one)
		return nil
	}))
	loaded := kinds.Rules(gate.Rules())
	require.Equal(t, listOfOne(k, one, 0), listOfOne(k, &loaded, 0))
}
