package main

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/stat"
)

// otherPaths is the resource of the requests that match no rule. (The name "other"
// is taken: Leapgate uses it itself.)
const otherPaths = "(other paths)"

// An outcome is what the rules did to the requests.
type outcome struct {
	rules     []flow.Rule // as the gate understood them
	decisions []decision  // one for each request
	snapshots []stat.Snapshot
}

type decision struct {
	request
	resource string
	refusal  *leapgate.BlockError // nil if it was admitted
}

// replay sends the requests, which are sorted by time, through a gate whose clock
// shows the time of each.
func replay(requests []request, rules []flow.Rule) (*outcome, error) {
	var clock atomic.Int64
	if len(requests) > 0 {
		clock.Store(requests[0].at.UnixNano())
	}
	gate, err := leapgate.New(leapgate.Config{Now: clock.Load})
	if err != nil {
		return nil, err
	}
	defer gate.Close()
	if err := gate.LoadFlowRules(rules); err != nil {
		return nil, err
	}

	resourceOf := matcher(rules)
	decisions := make([]decision, len(requests))
	for i, q := range requests {
		clock.Store(q.at.UnixNano())
		d := &decisions[i]
		d.request, d.resource = q, resourceOf(q.path)
		entry, err := gate.Entry(d.resource)
		if err != nil && !errors.As(err, &d.refusal) {
			return nil, err
		}
		entry.Exit() // at once, as the log does not tell how long it took; a refused entry may exit too
	}
	return &outcome{rules: gate.FlowRules(), decisions: decisions, snapshots: gate.Snapshot()}, nil
}

// matcher returns a function that finds the resource of a path: the longest prefix
// of any rule.
func matcher(rules []flow.Rule) func(path string) string {
	var prefixes []string
	for _, r := range rules {
		prefixes = append(prefixes, r.Resource)
	}
	slices.SortFunc(prefixes, func(a, b string) int { return len(b) - len(a) })
	return func(path string) string {
		for _, prefix := range prefixes {
			if strings.HasPrefix(path, prefix) {
				return prefix
			}
		}
		return otherPaths
	}
}
