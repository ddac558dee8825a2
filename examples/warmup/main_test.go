package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_ShowsTheClimbingRate(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, show(&out))
	var rates []string
	for _, m := range regexp.MustCompile(`(\d+) admitted`).FindAllStringSubmatch(out.String(), -1) {
		rates = append(rates, m[1])
	}
	require.Equal(t, "33 34 36 38 41 44 47 52 58 68 83 100 100 100 33 34", strings.Join(rates, " "))
}
