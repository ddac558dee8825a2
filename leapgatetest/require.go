package leapgatetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/resource"
)

// RequireBlocked fails the test unless err is the refusal of a call by the rule of that ID. It
// returns the refusal.
func RequireBlocked(t testing.TB, err error, ruleID string) *leapgate.BlockError {
	t.Helper()
	blocked, ok := errors.AsType[*leapgate.BlockError](err)
	switch {
	case err == nil:
		t.Fatalf("leapgatetest: the call has passed; want it blocked by %q", ruleID)
	case !ok:
		t.Fatalf("leapgatetest: the error is %v; want a call blocked by %q", err, ruleID)
	case blocked.RuleID != ruleID:
		t.Fatalf("leapgatetest: blocked by %q (%v); want %q", blocked.RuleID, blocked, ruleID)
	}
	return blocked
}

// RequireRetryAfter fails the test unless err is the refusal of a call that would pass after
// least to most.
func RequireRetryAfter(t testing.TB, err error, least, most time.Duration) {
	t.Helper()
	blocked, ok := errors.AsType[*leapgate.BlockError](err)
	switch {
	case !ok:
		t.Fatalf("leapgatetest: the error is %v; want a call that is blocked", err)
	case blocked.RetryAfter < least || blocked.RetryAfter > most:
		t.Fatalf("leapgatetest: RetryAfter is %v (%v); want %v to %v", blocked.RetryAfter, blocked, least, most)
	}
}

// Block returns the refusal of a call, for tests of what a program makes of it: by a rule of a
// kind, such as "flow", and an ID, with what was observed and the threshold that it was held
// against. Its Status is that of the kind. It panics if there is no such kind.
func Block(kind, ruleID string, observed, threshold float64, retryAfter time.Duration) *leapgate.BlockError {
	var names []string
	for _, k := range kinds.All {
		if k.Name() == kind {
			cause := &resource.Cause{Kind: kind, RuleID: ruleID, Threshold: threshold, Status: k.Status()}
			return &leapgate.BlockError{Cause: cause, Observed: observed, RetryAfter: retryAfter}
		}
		names = append(names, k.Name())
	}
	panic(fmt.Sprintf("leapgatetest: the kind of a Block is %q; want one of %v", kind, names))
}
