package leapredis

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// greed returns the cells of a row of the table that the README has of it, after the first,
// which is what.
func greed(t *testing.T, what string) (cells []string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "So below a limit of about 20, take a log.\n")
	require.True(t, ok)
	_, row, ok := strings.Cut(table, "\n| "+what+" |")
	require.True(t, ok, what)
	row, _, _ = strings.Cut(row, "\n")
	for cell := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(row), "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

// What a client gets of its limit that calls again as soon as it may, for ever.
func TestReadme_WhatAGreedyClientGets(t *testing.T) {
	if gatetest.Race || testing.Short() {
		t.Skip("long, and one goroutine at a time: nothing for the race detector")
	}
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		row := map[string]string{"Counter": "`NewCounter`", "Log": "`NewLog`", "Burst": "`NewBurst`"}[k.name]
		told := greed(k.t, row)
		limits := greed(k.t, "Limit")
		require.Len(t, told, len(limits))
		for i, cell := range limits {
			most, err := strconv.ParseInt(cell, 10, 64)
			require.NoError(t, err)
			l := k.start(t, newServer(), Config{Limit: most, Window: time.Minute, Prefix: fmt.Sprint("limit ", most)})
			const windows = 100
			admitted := func() (n int64) {
				for begin := time.Now(); time.Since(begin) < windows*time.Minute; {
					if d := allow(t, l, "greedy", 1); d.Allowed {
						n++
					} else {
						time.Sleep(d.RetryAfter)
					}
				}
				return n
			}
			admitted() // the first window is not as the others
			require.Equal(t, told[i], fmt.Sprintf("%.0f %%", float64(100*admitted())/float64(windows*most)), "%d", most)
		}
	})
}
