package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A window in which the server goes has some calls of both; it is not counted as one of
// either, and what is said at the end is true of it.
func TestTable_SaysWhatEachWindowHad(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := &table{out: &out}
	require.NotContains(t, table.line(&row{shared: [processes]int{40, 30, 30}}), "other")
	require.Contains(t, table.line(&row{shared: [processes]int{30, 20, 30}, alone: [processes]int{20, 10, 20}}), "one after the other: 130")
	require.NotContains(t, table.line(&row{alone: [processes]int{33, 33, 33}}), "other")
	require.NoError(t, table.verify())
	require.Equal(t, `
through the server, no window had more than 100 of 100
without it, none had more than 99 of 99, 33 for each process
in 1, in which it answered for a part of the time, both held one after the other: at most 130 together
`, out.String())
}

func TestTable_SaysWhatWasTooMany(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]row{
		"101 were allowed in a window through the server; want at most 100":             {shared: [processes]int{101}},
		"100 were allowed in a window without the server; want at most 99, 33 for each": {shared: [processes]int{1}, alone: [processes]int{100}},
		"the server allowed none": {alone: [processes]int{33}},
	} {
		table := &table{out: &strings.Builder{}}
		table.line(&r)
		require.EqualError(t, table.verify(), want)
	}
}
