package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/leapgate-go/leapgate/stat"
)

// The columns of both tables. The first is as wide as its widest text; the last
// brings the gap before it along, so that no line ends in spaces.
const (
	headFormat = "%-*s %9s %9s %9s%s\n"
	rowFormat  = "%-*s %9d %9d %9d%s\n"
)

// report writes what was read and what came of it. It returns the first error of
// writing.
func report(out io.Writer, log *accessLog, result *outcome, top int) error {
	w := bufio.NewWriter(out) // keeps that error for Flush
	reportLog(w, log)

	width := len(time.DateTime)
	for _, r := range result.rules {
		width = max(width, utf8.RuneCountInString(r.ID))
	}
	reportRules(w, result, width)
	if top > 0 {
		reportSeconds(w, result.decisions, top, width)
	}
	return w.Flush()
}

func reportLog(w io.Writer, log *accessLog) {
	fmt.Fprintf(w, "%d lines: %d requests and %d malformed\n", log.lines, len(log.requests), log.malformed)
	for _, bad := range log.samples {
		fmt.Fprintf(w, "  line %d has %v: %q\n", bad.number, bad.err, bad.text)
	}
	if log.backwards > 0 {
		fmt.Fprintf(w, "backward jumps in time: %d; the requests were sorted\n", log.backwards)
	}
	if n := len(log.requests); n > 0 {
		fmt.Fprintf(w, "%s to %s, in UTC\n",
			log.requests[0].at.Format(time.DateTime), log.requests[n-1].at.Format(time.DateTime))
	}
}

// reportRules shows each rule as the gate counted it, and the requests that none
// matched.
func reportRules(w io.Writer, result *outcome, width int) {
	firstBlocked := make(map[string]string) // by rule
	for _, d := range result.decisions {
		if d.refusal != nil && firstBlocked[d.refusal.RuleID] == "" {
			firstBlocked[d.refusal.RuleID] = "  " + d.at.Format(time.DateTime)
		}
	}
	resources := make(map[string]stat.Snapshot)
	for _, s := range result.snapshots {
		resources[s.Resource] = s
	}

	fmt.Fprintln(w)
	fmt.Fprintf(w, headFormat, width, "rule", "requests", "admitted", "blocked", "  first blocked")
	for _, rule := range result.rules {
		s := resources[rule.Resource]
		for _, r := range s.Rules {
			if r.ID == rule.ID {
				fmt.Fprintf(w, rowFormat, width, r.ID, s.Pass+s.Block, r.Admitted, r.Blocked, firstBlocked[r.ID])
			}
		}
	}
	if s, ok := resources[otherPaths]; ok {
		fmt.Fprintf(w, rowFormat, width, otherPaths, s.Pass+s.Block, s.Pass, s.Block, "")
	}
}

type second struct {
	at                          time.Time
	requests, admitted, blocked int
}

// busiest returns the seconds with the most requests, at most top of them; of equal
// ones the earlier.
func busiest(decisions []decision, top int) []second {
	var seconds []second
	for _, d := range decisions {
		if n := len(seconds); n == 0 || !seconds[n-1].at.Equal(d.at) {
			seconds = append(seconds, second{at: d.at})
		}
		s := &seconds[len(seconds)-1]
		s.requests++
		if d.refusal == nil {
			s.admitted++
		} else {
			s.blocked++
		}
	}
	slices.SortStableFunc(seconds, func(a, b second) int { return cmp.Compare(b.requests, a.requests) })
	return seconds[:min(top, len(seconds))]
}

func reportSeconds(w io.Writer, decisions []decision, top, width int) {
	fmt.Fprintln(w)
	fmt.Fprintf(w, headFormat, width, "busiest seconds", "requests", "admitted", "blocked", "")
	for _, s := range busiest(decisions, top) {
		fmt.Fprintf(w, rowFormat, width, s.at.Format(time.DateTime), s.requests, s.admitted, s.blocked, "")
	}
}
