package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hit is a request of the real log, as this test reads it.
type hit struct {
	at           time.Time
	client, path string
}

// realHits reads a log of real traffic, which is no part of the project.
func realHits(t *testing.T) (name string, all []hit) {
	t.Helper()
	name = filepath.Join("..", "..", "..", "shared", "data", "access.log")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Skip("real traffic is not there")
	}
	for _, m := range regexp.MustCompile(`(?m)^(\S+) \S+ \S+ \[([^\]]+)\] "(?:[A-Z]+ )?([^" ?]*)`).FindAllStringSubmatch(string(data), -1) {
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		require.NoError(t, err)
		all = append(all, hit{at, m[1], m[3]})
	}
	slices.SortStableFunc(all, func(a, b hit) int { return a.at.Compare(b.at) })
	return name, all
}

// recount counts what a rule blocks of all whose path begins so, from a list of what it admitted.
// What it holds is in buckets that begin anew each tenth of the interval; if it is strict, in one more.
func recount(all []hit, prefix string, limit int, interval time.Duration, strict bool) (requests, blocked int) {
	bucket := int64(interval / 10)
	oldest := int64(9)
	if strict {
		oldest = 10
	}
	var admitted []int64
	for _, h := range all {
		if !strings.HasPrefix(h.path, prefix) {
			continue
		}
		requests++
		now := h.at.UnixNano()
		for len(admitted) > 0 && admitted[0]/bucket < now/bucket-oldest {
			admitted = admitted[1:]
		}
		if len(admitted) >= limit {
			blocked++
			continue
		}
		admitted = append(admitted, now)
	}
	return requests, blocked
}

// evenly spreads the requests of each second over it.
func evenly(all []hit) []hit {
	all = slices.Clone(all)
	for from, to := 0, 0; from < len(all); from = to {
		for to < len(all) && all[to].at.Equal(all[from].at) {
			to++
		}
		for i, same := 0, all[from:to]; i < len(same); i++ {
			same[i].at = same[i].at.Add(time.Second * time.Duration(i) / time.Duration(len(same)))
		}
	}
	return all
}

func TestReplay_OfRealTrafficEqualsARecount(t *testing.T) {
	t.Parallel()
	log, all := realHits(t)
	for _, test := range []struct {
		rule     string
		limit    int
		interval time.Duration
		strict   bool
	}{
		{"60/1m", 60, time.Minute, false},
		{"30/1m,strict", 30, time.Minute, true},
		{"2/1s,strict", 2, time.Second, true},
		{"500/24h", 500, 24 * time.Hour, false},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			// All requests count, so it does not matter which of a second comes first.
			rule := mustReplay(t, "", "-rule", "/="+test.rule, log).Report.Rules[0]
			requests, blocked := recount(evenly(all), "/", test.limit, test.interval, test.strict)
			require.Equal(t, []int{requests, blocked}, []int{rule.Requests, rule.Blocked})
			const tabledap = "/erddap/tabledap"
			rule = mustReplay(t, "", "-rule", tabledap+"="+test.rule, log).Report.Rules[0]
			requests, _ = recount(all, tabledap, test.limit, test.interval, test.strict)
			require.Equal(t, requests, rule.Requests)
		})
	}
}
