package document

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRewrite_OrderOfFields(t *testing.T) {
	t.Parallel()
	edit := []ListEdit{{Name: "l", Items: []ItemEdit{
		{From: 1, Fields: []FieldEdit{{"a", "1", false}, {"b", "", true}, {"c", `"x y"`, false}, {"d", "", true}}},
		{From: -1, Fields: []FieldEdit{{"b", "true", false}, {"a", "'1'", false}}},
	}}}
	out, err := Rewrite([]byte("l:\n  - {a: 0}\n  - z: 1 # goes\n    c: 2 # stays\n    b: 3\nother: [1, 2] # stays\n"), edit)
	require.NoError(t, err)
	require.Equal(t, "l:\n  - a: 1\n    c: \"x y\" # stays\n    b: 3\n  - b: true\n    a: '1'\nother: [1, 2] # stays\n", string(out))
}

func TestRewrite_WhatComesAfterAFieldThatGoes(t *testing.T) {
	t.Parallel()
	edit := []ListEdit{{Name: "l", Items: []ItemEdit{{From: 0, Fields: []FieldEdit{{"a", "", true}}}}}}
	out, err := Rewrite([]byte("l:\n  - a: 1\n    # about a\n\n    b: 2\n    # about all\n\n# end\n"), edit)
	require.NoError(t, err)
	for _, comment := range []string{"# about a\n", "# about all\n", "# end\n"} {
		require.Contains(t, string(out), comment)
	}
}

func TestRewrite_WhatItCannotChange(t *testing.T) {
	t.Parallel()
	one := []ListEdit{{Name: "l", Items: []ItemEdit{{From: 0}}}}
	for _, text := range []string{"[]", "text", "l: []", "l: [1]", "m: []"} {
		_, err := Rewrite([]byte(text), one)
		require.ErrorIs(t, err, ErrRewrite, text)
	}
	for _, text := range []string{"", "# only\n", "l: ["} { // which Parse does not take, either
		_, err := Rewrite([]byte(text), one)
		require.Error(t, err, text)
	}
}
