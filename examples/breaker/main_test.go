package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestShow_BothBadTimesAreCutOffAndOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		require.NoError(t, show(&out))
		var states []string
		for _, m := range regexp.MustCompile(`(?m)^ *\d+\.\d\d s   \*\* (\S+) → (\S+): (\d.* calls|\d of \d probes|.*after it has|admitting)`).
			FindAllStringSubmatch(out.String(), -1) {
			states = append(states, m[2])
		}
		badTime := []string{"open", "half-open", "open", "half-open", "ramping", "closed"}
		require.Equal(t, append(badTime, badTime...), states, "%s", &out)

		sum := regexp.MustCompile(`Of (\d+) customers, (\d+) got a fresh number, (\d+) the last known one, at once, and (\d+) an error.
The warehouse was asked (\d+) times, and was spared (\d+) calls.`).FindStringSubmatch(out.String())
		require.Len(t, sum, 7, "%s", &out)
		var n [7]int
		for i, digits := range sum[1:] {
			var err error
			n[i], err = strconv.Atoi(digits)
			require.NoError(t, err)
		}
		customers, fresh, lastKnown, errors, asked, spared := n[0], n[1], n[2], n[3], n[4], n[5]
		require.Equal(t, 425, customers)
		require.Equal(t, customers, fresh+lastKnown+errors)
		require.Equal(t, lastKnown, spared)
		require.Equal(t, customers, asked+spared)
		require.Less(t, errors, 80, "of the 150 that came in bad times")
		require.Contains(t, out.String(), ` breaker rule "warehouse-breaker" on "warehouse": 25 of 50 calls failed in 1s; retry in `)
	})
}
