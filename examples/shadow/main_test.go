package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_CountsWhatWouldHaveBeen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, show(&out))
	require.Equal(t, `search: 3999 passed, 195 blocked; rules in mode shadow would have blocked 310 of those that passed

rule        mode     threshold  blocked  would block  candidate  would block
live        enforce  100 in 1s  195      0            80         395
try-strict  shadow   150 in 2s  0        310          0          0
`, out.String())
}
