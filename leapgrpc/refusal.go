package leapgrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/charging"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/resource"
)

// Domain is that of the google.rpc.ErrorInfo of refusals. Its reason is one of the Reasons.
const Domain = "leapgate"

// The reasons of refusals.
const (
	ReasonRateLimited = "RATE_LIMITED" // a quota is used up; ResourceExhausted
	ReasonCircuitOpen = "CIRCUIT_OPEN" // a breaker; Unavailable
	ReasonOverloaded  = "OVERLOADED"   // the service protects itself; Unavailable
)

// messages are what clients read: nothing of the inside.
var messages = map[string]string{
	ReasonRateLimited: "the quota is used up",
	ReasonCircuitOpen: "the service is not able to take this call now",
	ReasonOverloaded:  "the service has too much to do to take this call now",
}

// refusal is why a call was refused. It is the error of the refused call: its status is made only
// when somebody asks for it.
type refusal struct {
	reason   string
	policies []string      // that are used up: names of limits, or the ID of a rule
	wait     time.Duration // until it would pass; 0 if that is not known, limit.Never if it never would
	details  bool
	inside   error // for the program; clients do not get it
}

// refusalOf is that of limits.
func refusalOf(no *refused) *refusal {
	f := &refusal{reason: ReasonOverloaded, policies: no.Policies, wait: no.RetryAfter, inside: no.Err}
	if no.Quota {
		f.reason = ReasonRateLimited
	}
	if len(no.Policies) > 0 {
		f.inside = &RefusedError{Policy: no.Policies[0], RetryAfter: no.RetryAfter}
	}
	return f
}

// blocked is that of a gate; nil if err has no refusal in it.
func blocked(err error) *refusal {
	b, ok := errors.AsType[*leapgate.BlockError](err)
	if !ok || b == nil {
		return nil
	}
	f := &refusal{reason: ReasonOverloaded, inside: err, wait: b.RetryAfter}
	if b.Cause == nil {
		return f
	}
	switch {
	case b.Status == http.StatusTooManyRequests:
		f.reason = ReasonRateLimited
		f.policies = []string{b.RuleID}
		if b.RetryAfter == 0 && b.Threshold == 0 {
			f.wait = limit.Never
		}
	case b.Kind == "breaker":
		f.reason = ReasonCircuitOpen
	}
	return f
}

func (f *refusal) code() codes.Code {
	if f.reason == ReasonRateLimited {
		return codes.ResourceExhausted
	}
	return codes.Unavailable
}

// Error is what clients may read: a handler that wraps it sends it on.
func (f *refusal) Error() string { return "leapgrpc: " + messages[f.reason] }

// Unwrap returns the refusal of the gate, a [*RefusedError], or the error of a limiter.
func (f *refusal) Unwrap() error { return f.inside }

func (f *refusal) passesLater() bool { return f.wait > 0 && f.wait != limit.Never }

// GRPCStatus returns the status that a refusal is. Package status finds it.
func (f *refusal) GRPCStatus() *status.Status {
	s := status.New(f.code(), messages[f.reason])
	if !f.details {
		return s
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: f.reason, Domain: Domain}}
	if f.passesLater() {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.wait)})
	}
	if f.reason == ReasonRateLimited && len(f.policies) > 0 {
		quota := new(errdetails.QuotaFailure)
		for _, name := range f.policies {
			name = strings.ToValidUTF8(name, "\uFFFD") // or else it could not be sent
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Description: name})
		}
		details = append(details, quota)
	}
	if with, err := s.WithDetails(details...); err == nil {
		return with
	}
	return s
}

// pushbackKey is the trailer by which a server says when to retry: gRFC A6.
const pushbackKey = "grpc-retry-pushback-ms"

// pushbackOf is the trailer of the error of a call that did not begin.
func (x *Interceptors) pushbackOf(ctx context.Context, err error) metadata.MD {
	if f, ok := err.(*refusal); ok { //nolint:errorlint // it is not wrapped
		return f.pushback(ctx, x.maxPushback)
	}
	return nil
}

// pushback is the trailer of a refusal; nil if nothing is known. A client with a retry policy
// waits it out without a look at its deadline, and has lost the status then: so it is -1, which says
// not to retry, if the wait is longer.
func (f *refusal) pushback(ctx context.Context, most time.Duration) metadata.MD {
	switch {
	case f.wait == 0:
		return nil
	case f.wait > most:
		return metadata.Pairs(pushbackKey, "-1")
	}
	ms := (f.wait + time.Millisecond - 1) / time.Millisecond
	if end, ok := ctx.Deadline(); ok && ms*time.Millisecond+deadlineEarlier >= time.Until(end) {
		return metadata.Pairs(pushbackKey, "-1")
	}
	return metadata.Pairs(pushbackKey, strconv.FormatInt(int64(ms), 10))
}

// RefusedError says why a call was refused, if it was not the gate. It is [leapgate.ErrBlocked].
type RefusedError struct {
	Target string     // that has to wait; "" if a limit refused
	Code   codes.Code // of the status that asked to wait; OK if a limit refused
	Policy string     // the limit that refused; "" if the server asked to wait
	// CannotCount says that the limit refused because it could not count, and not because it is
	// used up: see Unavailable of [limit.Decision].
	CannotCount bool
	// RetryAfter is how long from then the call would not be refused for this reason;
	// 0 if that is not known, limit.Never if it always is.
	RetryAfter time.Duration
}

// Error reads: leapgrpc: not sent: "dns:///orders:443" answered ResourceExhausted and asked to wait,
// for 2s from now. Or, by a limit of a client or of a server: leapgrpc: limit "per-host" is used up;
// retry in 3s. Or: leapgrpc: limit "per-host" cannot count now; retry in 200ms.
func (e *RefusedError) Error() string {
	if e.Policy == "" {
		return fmt.Sprintf("leapgrpc: not sent: %.64q answered %v and asked to wait, for %v from now", e.Target, e.Code, e.RetryAfter.Round(time.Millisecond))
	}
	return charging.Text("leapgrpc", e.Policy, e.CannotCount, e.RetryAfter)
}

// Unwrap returns [leapgate.ErrBlocked].
func (e *RefusedError) Unwrap() error { return leapgate.ErrBlocked }

// Error returns the error of a handler, or of an interceptor, for an error that holds a
// [*leapgate.BlockError]: one whose status is that of the refusal, with all details, and which wraps err. Any other
// error is returned as it is. A handler that asks a gate by itself needs it, for otherwise its
// clients get the code Unknown, and what the refusal says of the inside.
func Error(err error) error {
	if _, is := errors.AsType[*refusal](err); is {
		return err
	}
	f := blocked(err)
	if f == nil {
		return err
	}
	f.details = true
	return f
}

// Blocked goes the other way: it returns what is known of the refusal of a server that uses this
// package, by the details of its status; nil if err is anything else. The Kind is "flow", "breaker" or
// "system", by the reason, whatever kind of rule it was, and RuleID the name of the rule or the limit, if a
// quota is used up. If err holds a [*leapgate.BlockError], as of a call that a gate has refused here, it
// is that; of one that a limit has refused here, RuleID is always its name.
func Blocked(err error) *leapgate.BlockError {
	if b, ok := errors.AsType[*leapgate.BlockError](err); ok {
		return b
	}
	if f, ok := errors.AsType[*refusal](err); ok {
		return f.block()
	}
	s, ok := status.FromError(err)
	if !ok || s == nil {
		return nil
	}
	said := new(refusal)
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain {
				said.reason = d.GetReason()
			}
		case *errdetails.RetryInfo:
			said.wait = max(0, d.GetRetryDelay().AsDuration())
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				said.policies = append(said.policies, v.GetDescription())
			}
		}
	}
	return said.block()
}

// block is the refusal as one of a gate; nil if its reason is none of ours.
func (f *refusal) block() *leapgate.BlockError {
	cause, ours := causes[f.reason]
	if !ours {
		return nil
	}
	if len(f.policies) > 0 {
		cause.RuleID = f.policies[0]
	}
	b := &leapgate.BlockError{Cause: &cause}
	if f.passesLater() {
		b.RetryAfter = f.wait
	}
	return b
}

var causes = map[string]resource.Cause{
	ReasonRateLimited: {Kind: "flow", Status: http.StatusTooManyRequests},
	ReasonCircuitOpen: {Kind: "breaker", Status: http.StatusServiceUnavailable},
	ReasonOverloaded:  {Kind: "system", Status: http.StatusServiceUnavailable},
}

// waitAsked is how long a server asks to wait with an error; 0 if it does not.
func waitAsked(err error, trailer metadata.MD) (time.Duration, codes.Code) {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, codes.OK
	}
	for _, detail := range s.Details() {
		if d, ok := detail.(*errdetails.RetryInfo); ok {
			return max(0, d.GetRetryDelay().AsDuration()), s.Code()
		}
	}
	if said := trailer[pushbackKey]; len(said) == 1 {
		if ms, err := strconv.ParseInt(said[0], 10, 64); err == nil && ms > 0 {
			return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, s.Code()
		}
	}
	return 0, codes.OK
}

// codeFrom is the code that a pause was begun with.
func codeFrom(status int) codes.Code {
	if status == int(codes.Unavailable) {
		return codes.Unavailable
	}
	return codes.ResourceExhausted
}
