package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestRun_TellsWhatTheDocumentationSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, show(&out))
		require.Equal(t, `  0 ms  job 1 prints
 30 ms  job 7 is refused; retry in 70ms
 40 ms  job 8 is refused; retry in 70ms
 40 ms  job 9 is refused; retry in 60ms
 50 ms  job 10 is refused; retry in 60ms
100 ms  job 2 prints
160 ms  job 3 gave up waiting
200 ms  job 4 prints
300 ms  job 5 prints
400 ms  job 6 prints
`, out.String())
	})
}
