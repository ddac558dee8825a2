package kinds_test

import (
	"hash/maphash"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/internal/ruleset"
)

// Every list of rules has a kind, and is that of a gate.
func TestAll_EveryListHasItsKind(t *testing.T) {
	t.Parallel()
	lists := reflect.TypeFor[kinds.Rules]()
	require.Len(t, kinds.All, lists.NumField())
	for i, k := range kinds.All {
		require.Equal(t, strings.ToLower(lists.Field(i).Name), k.Name())
		require.Contains(t, []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, k.Status())
		require.Equal(t, k.Name(), k.NewSet(ruleset.Env{}).Kind())
	}
	_ = leapgate.Rules(kinds.Rules{})
}

// Every field of a rule but its Source is described, under its own name.
func TestAll_EveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	lists := reflect.TypeFor[kinds.Rules]()
	for i, k := range kinds.All {
		of := lists.Field(i).Type.Elem()
		require.Len(t, k.Fields(), of.NumField()-1, k.Name())
		for _, f := range k.Fields() {
			_, there := of.FieldByName(f.GoName)
			require.True(t, there, f.GoName)
			require.True(t, strings.EqualFold(f.GoName, f.Name), f.Name)
			require.NotEmpty(t, f.Label, f.Name)
			require.NotEmpty(t, f.Hint, f.Name)
			require.Equal(t, f.Type == "enum", f.Options != nil, f.Name)
			for _, other := range f.With {
				_, there := of.FieldByName(other)
				require.True(t, there, other)
			}
		}
	}
}

// What treats all kinds alike can make, read, change and remove rules of each.
func TestKind_EditsRulesByTheirFields(t *testing.T) {
	t.Parallel()
	text := func(s string) field.Scalar { return field.Scalar{Type: field.Text, Text: s} }
	for _, k := range kinds.All {
		var rules, others kinds.Rules
		require.Zero(t, k.Add(&rules))
		require.Equal(t, 1, k.Add(&rules))
		fields := k.Fields()
		require.Empty(t, k.Read(&rules, 1, 0, text("named")))
		require.Empty(t, k.Read(&rules, 1, 1, text("GET /orders")))
		require.NotEmpty(t, k.Read(&rules, 1, 2, text("by hand")), fields[2].Name)
		h := k.Head(&rules, 1)
		require.Equal(t, []string{"named", "GET /orders"}, []string{*h.ID, *h.Resource})
		written, zero, err := k.Write(&rules, 1, 0)
		require.NoError(t, err)
		require.False(t, zero)
		require.Equal(t, text("named"), written)

		seed := maphash.MakeSeed()
		require.NotEqual(t, k.Hash(seed, &rules, 0), k.Hash(seed, &rules, 1))
		k.Set(&rules, 0, &rules, 1)
		require.Equal(t, k.Hash(seed, &rules, 0), k.Hash(seed, &rules, 1))
		require.NotEmpty(t, k.Validate(&rules), "they have one ID")
		*k.Head(&rules, 0).ID = ""
		k.Number(&rules, 0)
		require.Equal(t, "GET /orders/1", *k.Head(&rules, 0).ID)
		require.NotEmpty(t, k.Describe(&rules, 0))

		k.Append(&others, &rules)
		k.Delete(&others, func(h field.Head) bool { return *h.ID == "named" })
		require.Equal(t, []int{1, 2}, []int{k.Len(&others), k.Len(&rules)})
	}
}
