package leapgate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
)

// Copy to the root: go test -run TestReview_DuplicateNamesTheRule .
func TestReview_DuplicateNamesTheRule(t *testing.T) {
	t.Parallel()
	g := leapgate.Must(leapgate.Config{})
	require.NoError(t, g.LoadFlowRules([]flow.Rule{{ID: "A", Resource: "x"}, {ID: "B", Resource: "y"}}))
	bad := []flow.Rule{{ID: "B", Resource: "x"}, {ID: "B", Resource: "y"}}
	want := leapgate.Must(leapgate.Config{}).LoadFlowRules(bad)
	require.EqualError(t, g.LoadFlowRules(bad), want.Error())
}
