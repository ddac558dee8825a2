package rule_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/rule"
)

func TestMatchAndMode_Text(t *testing.T) {
	t.Parallel()
	require.Equal(t, "exact glob regexp default all match(5)", fmt.Sprint(rule.Exact, rule.Glob, rule.Regexp, rule.Default, rule.All, rule.Match(5)))
	require.Equal(t, "enforce shadow off mode(3)", fmt.Sprint(rule.Enforce, rule.Shadow, rule.Off, rule.Mode(3)))
	for v := range rule.Match(5) {
		text, err := v.MarshalText()
		require.NoError(t, err)
		var back rule.Match
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, v, back)
	}
	for v := range rule.Mode(3) {
		text, err := v.MarshalText()
		require.NoError(t, err)
		var back rule.Mode
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, v, back)
	}
	var match rule.Match
	require.EqualError(t, match.UnmarshalText([]byte("Glob")), `unknown match "Glob"; want exact, glob, regexp, default or all`)
	_, err := rule.Mode(3).MarshalText()
	require.EqualError(t, err, "unknown mode 3; want 0 to 2")
}

func TestFaults_AreFoundInErrors(t *testing.T) {
	t.Parallel()
	all := rule.Faults{
		{Kind: "flow", Index: 3, ID: "qps", Resource: "a", Field: "Threshold", Value: math.NaN()},
		{Kind: "flow", Index: 4, Field: "ID", Value: "qps", Code: rule.Duplicate, Other: 3},
	}
	err := fmt.Errorf("loading: %w", all)
	require.ErrorIs(t, err, rule.ErrFault)
	var first *rule.Fault
	require.ErrorAs(t, err, &first)
	require.Equal(t, 3, first.Index)
	var found rule.Faults
	require.ErrorAs(t, err, &found)
	require.Len(t, found, 2)
}
