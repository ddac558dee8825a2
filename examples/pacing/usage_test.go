package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_ArgumentsAreAnsweredWithUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-h"}, 0, "Usage: %s\n\nIt takes no flags and no arguments.\n"},
		{[]string{"--help"}, 0, "Usage: %s\n\nIt takes no flags and no arguments.\n"},
		{[]string{"-speed=2"}, 2, "flag provided but not defined: -speed\nUsage: %s\n\nIt takes no flags and no arguments.\n"},
		{[]string{"fast"}, 2, "%s: \"fast\" is not known; want no arguments\n"},
	} {
		var stdout, stderr strings.Builder
		require.Equal(t, c.code, run(c.args, &stdout, &stderr))
		require.Empty(t, stdout.String())
		require.Equal(t, strings.ReplaceAll(c.want, "%s", "pacing"), stderr.String())
	}
}
