package document

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRewrite_OrderOfFields(t *testing.T) {
	t.Parallel()
	edit := []ListEdit{{Name: "l", Items: []ItemEdit{
		{From: 1, Fields: []FieldEdit{{"a", "1", false}, {"b", "", true}, {"c", `"x y"`, false}, {"d", "", true}}},
		{From: -1, Fields: []FieldEdit{{"b", "true", false}, {"a", "'1'", false}}},
	}}}
	out, lost, err := Rewrite([]byte("l:\n  - {a: 0}\n  - z: 1 # goes\n    c: 2 # stays\n    b: 3\nother: [1, 2] # stays\n"), edit)
	require.NoError(t, err)
	require.False(t, lost)
	require.Equal(t, "l:\n  - a: 1\n    c: \"x y\" # stays\n    b: 3\n  - b: true\n    a: '1'\nother: [1, 2] # stays\n", string(out))
}

func TestRewrite_WhatComesAfterAFieldThatGoes(t *testing.T) {
	t.Parallel()
	edit := []ListEdit{{Name: "l", Items: []ItemEdit{{From: 0, Fields: []FieldEdit{{"a", "", true}}}}}}
	out, lost, err := Rewrite([]byte("l:\n  - a: 1\n    # about a\n\n    b: 2\n    # about all\n\n# end\n"), edit)
	require.NoError(t, err)
	require.False(t, lost, "%s", out)
	for _, comment := range []string{"# about a\n", "# about all\n", "# end\n"} {
		require.Contains(t, string(out), comment)
	}
}

func TestRewrite_WhatItCannotChange(t *testing.T) {
	t.Parallel()
	one := []ListEdit{{Name: "l", Items: []ItemEdit{{From: 0}}}}
	for _, text := range []string{"[]", "text", "l: []", "l: [1]", "m: []"} {
		_, _, err := Rewrite([]byte(text), one)
		require.ErrorIs(t, err, ErrRewrite, text)
	}
	for _, text := range []string{"", "# only\n", "l: ["} { // which Parse does not take, either
		_, _, err := Rewrite([]byte(text), one)
		require.Error(t, err, text)
	}
}

// Comments are looked for in every line, in time that grows with the text.
func TestUnreadComments_ManyInALine(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{" #", " # a", "#", " '#'"} {
		text := "l:\n  - a: '" + strings.Repeat(strings.ReplaceAll(unit, "'", "''"), 1<<12) + "'\n"
		_, _, err := Rewrite([]byte(text), []ListEdit{{Name: "l", Items: []ItemEdit{{From: 0, Fields: []FieldEdit{{"a", "", true}}}}}})
		require.NoError(t, err)
	}
}
